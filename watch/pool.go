package watch

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// reportPause is how long a changed count waits before it is written. A claim
// takes a member and the refill replaces it within this time, and nothing has
// changed; a burst is told in a few writes.
const reportPause = 250 * time.Millisecond

// pools steps pools.
type pools struct {
	*world
	memory *poolMemory
}

// poolSight is what one look at a pool shows.
type poolSight struct {
	facts     states.PoolFacts
	pool      *ext.SandboxWarmPool
	members   map[string]*agents.Sandbox
	blueprint apply.Blueprint
	// fault is why the template can not be used.
	fault string
}

// step brings a pool's members to the number it wants, then its status.
func (l pools) step(ctx context.Context, key Key) (time.Duration, error) {
	sight, ok, err := l.see(ctx, key)
	if !ok || err != nil {
		return 0, err
	}
	plan := states.PlanPool(sight.facts)
	if len(plan.Retire) > 0 || plan.Create > 0 {
		err = errors.Join(l.retire(ctx, sight, plan.Retire), l.create(ctx, sight, plan.Create))
		if sight, ok, _ = l.see(ctx, key); !ok {
			return 0, err
		}
	}
	after, reported := l.report(ctx, sight)
	return after, errors.Join(err, reported)
}

func (l pools) see(ctx context.Context, key Key) (poolSight, bool, error) {
	pool, ok := l.stores.pools.get(key)
	if !ok {
		return poolSight{}, false, nil
	}
	sight := poolSight{pool: pool, members: map[string]*agents.Sandbox{}}
	f := states.PoolFacts{
		Deleting: pool.DeletionTimestamp != nil,
		Replicas: replicas(pool),
		Batch:    l.opts.Batch,
	}
	template, ok := l.stores.templates.get(templateOf(pool))
	f.Template = presence(ok, states.Unseen)
	if !ok && !f.Deleting {
		p, err := ask(ctx, l.stores.templates, l.reads.kiln.Templates(pool.Namespace), templateOf(pool))
		if err != nil {
			return poolSight{}, false, err
		}
		f.Template = p
		template, _ = l.stores.templates.get(templateOf(pool))
	}
	if template != nil {
		var err error
		if sight.blueprint, err = l.blueprints.of(template); err != nil {
			sight.fault, f.Template = err.Error(), states.Unseen
		}
	}
	for _, s := range l.stores.sandboxes.by(byOwner, uidOf(pool)) {
		sight.members[s.Name] = s
		f.Members = append(f.Members, l.member(s, sight.blueprint))
	}
	sight.facts = f
	return sight, true, nil
}

func replicas(p *ext.SandboxWarmPool) int {
	if p.Spec.Replicas == nil {
		return 1
	}
	return int(*p.Spec.Replicas)
}

func (l pools) member(s *agents.Sandbox, b apply.Blueprint) states.Member {
	m := states.Member{
		Name: s.Name, Word: states.Pod.Initial, Current: madeFrom(s, b), Refused: refused(s),
		Leaving: retired(s) || s.DeletionTimestamp != nil, Born: s.CreationTimestamp.Time,
	}
	if pod, ok := l.stores.pods.get(keyOf(s)); ok && controls(s.UID, pod) {
		m.Word = word(pod)
	}
	return m
}

// madeFrom reports whether a sandbox was made from a blueprint as it is now. The
// template's name counts too: pointing a pool at another template is a change,
// also when both say the same.
func madeFrom(s *agents.Sandbox, b apply.Blueprint) bool {
	return s.Labels[apply.LabelRevision] == b.Revision && s.Annotations[apply.NoteTemplate] == b.Template
}

// current reports whether a member was made from its pool's template as it is
// now; the shelf hands out such members first.
func (w *world) current(s *agents.Sandbox) bool {
	pool, ok := w.stores.pools.get(ownerKey(s, metav1.GetControllerOfNoCopy(s)))
	if !ok {
		return false
	}
	template, ok := w.stores.templates.get(templateOf(pool))
	if !ok {
		return false
	}
	b, err := w.blueprints.of(template)
	return err == nil && madeFrom(s, b)
}
