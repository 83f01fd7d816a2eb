package pool

import (
	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// PoolChanged wakes the pool and, when more than its status changed, the claims
// that have no sandbox yet. Its end wakes them too.
func (l *Pools) PoolChanged(p store.Change[*ext.SandboxWarmPool]) {
	l.Wake(view.KeyOf(p.Newest()))
	if !p.HasIs || p.Replaced() {
		l.forget(p.Was)
	}
	same := p.HasIs && p.HadWas && !p.Replaced() && p.Was.Generation == p.Is.Generation &&
		p.Was.Annotations[apply.AnnotationRollOnMetadata] == p.Is.Annotations[apply.AnnotationRollOnMetadata]
	if same {
		return
	}
	l.SpecChanged(p.Newest())
}

// SpecChanged has everything look again that follows a pool's spec or its template:
// which members are current has changed, or whether that matters. The status says
// at once what was observed: whoever has changed it and waits for the end must not
// take what was said before for it.
func (l *Pools) SpecChanged(p *ext.SandboxWarmPool) {
	key := view.KeyOf(p)
	l.Memory.changed(p.UID)
	l.Wake(key)
	l.WakeStatus(key, 0)
	l.ForgetFreshness(key)
	for _, b := range l.Stores.Sandboxes.By(store.ByOwner, store.ID(p)) {
		l.Shelves.Sync(view.KeyOf(b))
	}
	for _, b := range l.Stores.Sandboxes.By(store.ByOrphan, p.Namespace+"/"+apply.Hash(p.Name)) {
		l.WakeSandbox(view.KeyOf(b))
	}
	l.WakeWaiting(key)
}
