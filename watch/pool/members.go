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
	Refusals    *memory.Refusals
	Memory      *Memory
	Roster      *Roster
	// Problems are what keeps policies of templates from being what they should be.
	Problems *memory.PolicyProblems
	// Wake and WakeSandbox have those look again. WakeStatus has the status looked at
	// again after a time, which may be none.
	Wake, WakeSandbox func(view.Key)
	WakeStatus        func(view.Key, time.Duration)
	// ForgetFreshness drops what was read of a pool that has changed, and WakeWaiting
	// wakes its claims. ForgetSeries drops what was measured of one that is gone.
	ForgetFreshness, WakeWaiting, ForgetSeries func(view.Key)
	// Batch bounds how many members are created or retired at once, and Grace how long
	// one may be unready before it counts as stuck, unless the pool says.
	Batch int
	Grace time.Duration
	Now   func() time.Time
}

// Members is the loop of pools' members.
type Members struct{ *Pools }

// A Snapshot is what a step sees of a pool.
type Snapshot struct {
	Facts states.PoolFacts
	// StatusFacts are what a status is made from; the loop of members leaves them empty.
	StatusFacts states.PoolStatusFacts
	learned
	key      view.Key
	pool     *ext.SandboxWarmPool
	template *ext.SandboxTemplate
	count    Count
	// members are the sandboxes of those that the plan chooses among, and ready says
	// which of them are.
	members   map[string]*agents.Sandbox
	ready     map[string]bool
	blueprint apply.Blueprint
	// problem is why the template cannot be used, and policyProblem what keeps its
	// NetworkPolicy from being what it should be, and pods from starting.
	problem, policyProblem string
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
	s := Snapshot{key: key, learned: known, pool: pool}
	policy := view.UpdatePolicy(pool)
	f := &s.Facts
	*f = states.PoolFacts{
		Terminating: pool.DeletionTimestamp != nil, Replicas: view.Replicas(pool), Batch: l.Batch,
		Strategy: policy.Strategy, Budget: policy.Budget(view.Replicas(pool)),
		Hold:             l.Churn.Wait(pool.UID, view.LossesFree(pool), l.Now()),
		CreationsRefused: l.Memory.refusal(pool.UID) != "", Refused: known.failure != nil, LoansKnown: known.loansKnown,
		TemplateUnreadable: known.unreadable != nil,
	}
	l.template(&s)
	s.policyProblem = l.Problems.Of(view.TemplateOf(pool)).Message
	f.PolicyRefused = s.policyProblem != ""
	id := store.ID(pool)
	s.count = l.count(&s)
	f.Counted, f.Handing, f.StuckIn = &s.count.Census, s.count.Handing, s.count.StuckIn
	if choice, ok := f.Choice(); ok {
		is := l.Roster.Select(id, choice, known.loans)
		f.Members, s.members, s.count.Census = is.Members, is.Sandboxes, is.Census // they may have changed meanwhile
		s.ready = map[string]bool{}
		for _, m := range f.Members {
			s.ready[m.Name] = m.State == states.Ready
		}
	}
	// After the members, so that one whose sandbox ends meanwhile counts twice rather
	// than not at all; and the pods last, for what is in flight no more is a pod.
	f.Former = l.inFlight(pool)
	f.Former += l.Roster.Former(id)
	return s
}

// count counts the pool's members as they are now.
func (l *Pools) count(s *Snapshot) Count {
	return l.Roster.Count(store.ID(s.pool), l.basis(s), l.Now(), s.loans)
}

// basis is what the pool's members are judged on.
func (l *Pools) basis(s *Snapshot) Basis {
	blueprint, pool, known := s.blueprint, s.pool, s.template != nil
	return Basis{
		Name:    fmt.Sprintf("%t %s %s", known, blueprint.Template, blueprint.RevisionFor(pool)),
		Current: func(b *agents.Sandbox) bool { return known && blueprint.Matches(b, pool) },
		Grace:   view.Grace(s.pool, l.Grace),
	}
}

// template reads the pool's template.
func (l *Pools) template(s *Snapshot) {
	t, ok := l.Stores.Templates.Get(view.TemplateOf(s.pool))
	is := s.templateIs
	if is == states.PresenceUnseen && s.unreadable == nil && l.Memory.lacks(s.pool) {
		is = states.PresenceMissing
	}
	s.Facts.Template = view.Presence(ok, is)
	if !ok {
		return
	}
	s.template = t
	var err error
	if s.blueprint, err = l.Stores.Blueprint(t); err != nil {
		s.problem, s.Facts.TemplateInvalid = err.Error(), true
	}
}

// inFlight counts the pods that are being made for sandboxes which are no more.
func (l *Pools) inFlight(pool *ext.SandboxWarmPool) (n int) {
	for _, b := range l.InFlight.Of(pool) {
		if !l.exists(view.KeyOf(b), b.UID) {
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
