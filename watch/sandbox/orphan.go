package sandbox

import (
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// orphan finds the pool that may take in a member that lost its own: the one of the
// name, as far as a hash tells that, in the member's namespace. Where two have the hash,
// neither does. One whose template the watch does not show judges nobody yet.
func (l *Sandboxes) orphan(b *agents.Sandbox, v states.Sandbox, pod states.State, known learned) (*ext.SandboxWarmPool, states.Orphan) {
	if !states.Orphaned(v, pod) {
		return nil, states.OrphanNone
	}
	pools := l.Stores.Pools.By(store.ByHash, b.Namespace+"/"+v.Pool)
	if len(pools) != 1 || pools[0].DeletionTimestamp != nil {
		return nil, states.OrphanNone
	}
	pool := pools[0]
	t, shown := l.Stores.Templates.Get(view.TemplateOf(pool))
	if !shown {
		return nil, states.OrphanNone
	}
	made, err := l.Stores.Blueprint(t)
	switch passed := l.Stores.Pools.Passed(b.ResourceVersion); {
	case err != nil:
		return nil, states.OrphanNone
	case !passed && !known.poolRead:
		return pool, states.OrphanUnsure
	case made.Matches(b, pool):
		return pool, states.OrphanCurrent
	}
	return pool, states.OrphanOutdated
}
