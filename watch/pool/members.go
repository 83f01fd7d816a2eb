// Package pool steps warm pools. One loop makes members and gives them up, another
// reports: a status waits behind everything, and no refill waits behind a status.
package pool

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what pools write. A member that a pool gives up is retired by the
// sandbox's own loop.
type Writer interface {
	CreateMember(ctx context.Context, p *ext.SandboxWarmPool, name string, b apply.Blueprint) (*agents.Sandbox, error)
	ReportPool(context.Context, *ext.SandboxWarmPool, ext.SandboxWarmPoolStatus, states.Decision) (*ext.SandboxWarmPool, error)
}

// Pools is what the two loops of pools share.
type Pools struct {
	Stores      *store.Stores
	Shelves     *shelf.Shelves
	Writer      Writer
	Events      *loop.Emitter
	Churn       *memory.Churn
	InFlight    *memory.PodsInFlight
	Retirements *memory.Retirements
	Memory      *Memory
	// Wake and WakeSandbox have those look again. WakeStatus has the status looked at
	// again after a time, which may be none.
	Wake, WakeSandbox func(view.Key)
	WakeStatus        func(view.Key, time.Duration)
	// ForgetFreshness drops what was read of a pool that has changed, and WakeWaiting
	// wakes its claims.
	ForgetFreshness, WakeWaiting func(view.Key)
	// Batch bounds how many members one step creates or retires, and Grace how long
	// one may be unready before it counts as stuck.
	Batch int
	Grace time.Duration
	Now   func() time.Time
}

// Members is the loop of pools' members.
type Members struct{ *Pools }

// A Snapshot is what a step sees of a pool.
type Snapshot struct {
	Facts states.PoolFacts
	learned
	key       view.Key
	pool      *ext.SandboxWarmPool
	template  *ext.SandboxTemplate
	members   map[string]*agents.Sandbox
	blueprint apply.Blueprint
	// problem is why the template cannot be used, unschedulable what the scheduler
	// says of the first member that has no room.
	problem, unschedulable string
}

// learned is what a step has learned that no store shows.
type learned struct {
	templateIs states.Presence
	unreadable error
	loansKnown bool
	loans      []string
	failure    error // of a creation
	reported   bool
}

// Observe reads what there is to know of a pool and its members.
func (l *Pools) Observe(key view.Key, known learned) Snapshot {
	pool, ok := l.Stores.Pools.Get(key)
	if !ok {
		return Snapshot{key: key, Facts: states.PoolFacts{Gone: true}}
	}
	s := Snapshot{key: key, learned: known, pool: pool, members: map[string]*agents.Sandbox{}}
	policy := view.UpdatePolicy(pool)
	f := &s.Facts
	*f = states.PoolFacts{
		Terminating: pool.DeletionTimestamp != nil, Replicas: view.Replicas(pool), Batch: l.Batch,
		Strategy: policy.Strategy, Budget: policy.Budget(view.Replicas(pool)),
		Hold:             l.Churn.Wait(pool.UID, view.Replicas(pool)+churnFree, l.Now()),
		CreationsRefused: l.Memory.refusal(pool.UID) != "", Refused: known.failure != nil, LoansKnown: known.loansKnown,
		TemplateUnreadable: known.unreadable != nil,
	}
	l.template(&s)
	lent := map[string]bool{}
	for _, name := range known.loans {
		lent[name] = true
	}
	for _, b := range l.Stores.Sandboxes.By(store.ByOwner, store.ID(pool)) {
		s.members[b.Name] = b
		m := l.member(&s, b)
		m.Taken = lent[b.Name]
		f.Members = append(f.Members, m)
	}
	for _, name := range known.loans {
		if s.members[name] == nil {
			f.Handing++
		}
	}
	// After the members, so that one whose sandbox ends meanwhile counts twice
	// rather than not at all.
	f.Former = l.former(pool)
	return s
}

// churnFree is how many losses beyond its number of members a pool is not held up
// for.
const churnFree = 3

// template reads the pool's template.
func (l *Pools) template(s *Snapshot) {
	t, ok := l.Stores.Templates.Get(view.TemplateOf(s.pool))
	s.Facts.Template = view.Presence(ok, s.templateIs)
	if !ok {
		return
	}
	s.template = t
	var err error
	if s.blueprint, err = l.Stores.Blueprint(t); err != nil {
		s.problem, s.Facts.TemplateInvalid = err.Error(), true
	}
}

// member is a sandbox as its pool sees it.
func (l *Pools) member(s *Snapshot, b *agents.Sandbox) states.Member {
	pod, _ := l.Stores.Pods.Get(view.KeyOf(b))
	m := view.Member(b, pod, s.template != nil && s.blueprint.Matches(b, s.pool))
	m.Terminating = m.Terminating || l.Retirements.Reason(b.UID) != ""
	if m.Terminating || m.Pod == states.PodNone || m.Pod == states.PodForeign {
		return m
	}
	if s.unschedulable == "" {
		s.unschedulable = view.Unschedulable(pod)
	}
	var in time.Duration
	m.Stuck, in = view.Health(b, pod).Stuck(l.Grace, l.Now())
	if in > 0 && (s.Facts.StuckIn == 0 || in < s.Facts.StuckIn) {
		s.Facts.StuckIn = in
	}
	return m
}

// former counts what is left of a pool's former members. Their sandboxes are no
// more, and their pods still terminate, or are just being made.
func (l *Pools) former(pool *ext.SandboxWarmPool) (n int) {
	for _, b := range l.InFlight.Of(pool) { // first: what ends here is a pod already
		if !l.exists(view.KeyOf(b), b.UID) {
			n++
		}
	}
	for _, pod := range l.Stores.Pods.By(store.ByBirth, store.ID(pool)) {
		owner := apply.OwnerOf(pod)
		if owner.Kind == states.OwnerSandbox && !l.exists(view.OwnerKey(pod), types.UID(owner.UID)) {
			n++
		}
	}
	return n
}

// exists reports whether a sandbox is known, and not another of its name.
func (l *Pools) exists(key view.Key, uid types.UID) bool {
	b, ok := l.Stores.Sandboxes.Get(key)
	return ok && b.UID == uid
}

// basis is the spec and the template that a snapshot's decisions are made on.
func (s Snapshot) basis() string {
	return fmt.Sprintf("%d %s", s.pool.Generation, s.blueprint.RevisionFor(s.pool))
}

// overtaken reports whether a pool or its template has changed since a snapshot. It is
// asked after an effect was registered: either it sees the change, or the status that
// tells of the change sees the effect.
func (l *Pools) overtaken(s Snapshot) bool {
	p, ok := l.Stores.Pools.Get(s.key)
	if !ok || p.UID != s.pool.UID {
		return true
	}
	now := Snapshot{pool: p}
	l.template(&now)
	return now.basis() != s.basis()
}

// Decide decides a pool's next step.
func (l Members) Decide(s Snapshot) states.Decision { return states.StepPool(s.Facts) }
