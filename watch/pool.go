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
	// template is the generation of the template that the blueprint is of.
	template int64
	// fault is why the template can not be used, and unread why it is not even
	// known.
	fault  string
	unread error
	// roomless is what the scheduler says of the first member that has no room.
	roomless string
	// hold is how long creations wait, because the last ones came to nothing.
	hold time.Duration
	// after is when to look again although nothing happens.
	after time.Duration
}

// soon asks for another look after a time, if none is asked for earlier.
func (s *poolSight) soon(t time.Duration) {
	if t > 0 && (s.after == 0 || t < s.after) {
		s.after = t
	}
}

// step brings a pool's members to the number it wants, then its status. Whatever
// fails, the status says how things are.
func (l pools) step(ctx context.Context, key Key) (time.Duration, error) {
	sight, ok := l.see(ctx, key)
	if !ok {
		return 0, nil
	}
	var err error
	plan := states.PlanPool(sight.facts)
	if len(plan.Retire) > 0 || plan.Create > 0 {
		err = errors.Join(l.retire(ctx, sight, plan.Retire), l.create(ctx, sight, plan.Create))
		if sight, ok = l.see(ctx, key); !ok {
			return 0, err
		}
	}
	after, reported := l.report(ctx, sight)
	sight.soon(after)
	return sight.after, errors.Join(err, sight.unread, reported)
}

func (l pools) see(ctx context.Context, key Key) (poolSight, bool) {
	pool, ok := l.stores.pools.get(key)
	if !ok {
		return poolSight{}, false
	}
	sight := poolSight{pool: pool, members: map[string]*agents.Sandbox{}}
	f := states.PoolFacts{
		Deleting: pool.DeletionTimestamp != nil,
		Replicas: replicas(pool),
		Batch:    l.opts.Batch,
	}
	f.Strategy, f.Budget = strategyOf(pool)
	template, ok := l.stores.templates.get(templateOf(pool))
	f.Template = presence(ok, states.Unseen)
	if !ok && !f.Deleting {
		f.Template, sight.unread = ask(ctx, l.stores.templates, l.reads.kiln.Templates(pool.Namespace), templateOf(pool))
		template, _ = l.stores.templates.get(templateOf(pool))
	}
	if template != nil {
		var err error
		sight.template = template.Generation
		if sight.blueprint, err = l.blueprints.of(template); err != nil {
			sight.fault, f.Template = err.Error(), states.Unseen
		}
	}
	for _, s := range l.stores.sandboxes.by(byOwner, uidOf(pool)) {
		sight.members[s.Name] = s
		f.Members = append(f.Members, l.member(s, &sight))
	}
	// After the members, so that one whose sandbox ends meanwhile counts twice
	// rather than not at all.
	f.Going = l.going(pool)
	sight.hold = l.troubles.wait(pool.UID, f.Replicas+vainFree, l.now())
	sight.soon(sight.hold)
	f.Hold = sight.hold > 0
	sight.facts = f
	return sight, true
}

func replicas(p *ext.SandboxWarmPool) int {
	if p.Spec.Replicas == nil {
		return 1
	}
	return int(*p.Spec.Replicas)
}

func (l pools) member(s *agents.Sandbox, sight *poolSight) states.Member {
	m := states.Member{
		Name: s.Name, Word: states.Pod.Initial, Current: sight.blueprint.Made(s, sight.pool), Refused: refused(s),
		Leaving: retired(s) || s.DeletionTimestamp != nil, Born: s.CreationTimestamp.Time,
	}
	pod, ok := l.stores.pods.get(keyOf(s))
	if !ok || !controls(s.UID, pod) {
		return m
	}
	m.Word, m.Node, m.Taken = word(pod), pod.Spec.NodeName, l.shelves.lent(keyOf(s))
	if m.Leaving {
		return m
	}
	if sight.roomless == "" {
		sight.roomless = unschedulable(pod)
	}
	var left time.Duration
	m.Stuck, left = l.stranded(s, pod)
	sight.soon(left)
	return m
}

// vainFree is how many losses beyond its number of members a pool is not held up
// for.
const vainFree = 3

// current reports whether a member was made from its pool's template as it is
// now, and whether the pool's claims must have such a one.
func (w *world) current(s *agents.Sandbox) (current, must bool) {
	pool, ok := w.stores.pools.get(ownerKey(s, metav1.GetControllerOfNoCopy(s)))
	if !ok {
		return false, false
	}
	return w.currentIn(s, pool), strict(pool)
}
