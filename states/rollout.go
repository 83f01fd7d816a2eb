package states

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// A Strategy is how a pool gets from members of an old revision to current ones.
type Strategy uint8

// The strategies.
const (
	// OnReplenish keeps old members; only new ones are current.
	OnReplenish Strategy = iota
	// Recreate retires every old member at once.
	Recreate
	// Rolling replaces old members a few at a time, within a budget.
	Rolling
)

// Strategies lists every strategy.
var Strategies = []Strategy{OnReplenish, Recreate, Rolling}

// A Budget bounds what a pool does, in members.
type Budget struct {
	// Unavailable is how many free members it may lack because of a rolling update.
	Unavailable int
	// Surge is how many members it may have too many, those included that are
	// on their way out until nothing of them is left.
	Surge int
	// Paused: nothing is rolled, and the pool goes on as with OnReplenish.
	Paused bool
}

// An UpdatePolicy is what a pool's spec says about old members.
type UpdatePolicy struct {
	Strategy Strategy
	// ClaimsTakeAny: claims may have old members while a rolling update is under way.
	ClaimsTakeAny bool
	// Paused: a rolling update stays where it is.
	Paused bool
	// MaxUnavailable and MaxSurge bound a rolling update; nil means a quarter.
	MaxUnavailable, MaxSurge *Share
}

// A Share is a number of members, or a percentage of all.
type Share struct {
	N       int
	Percent bool
}

var quarter = Share{N: 25, Percent: true}

// of is how many a share is, of all; a percentage is rounded up or down.
func (s *Share) of(all int, up bool) int {
	if s == nil {
		s = &quarter
	}
	switch {
	case !s.Percent:
		return s.N
	case up:
		return (s.N*all + 99) / 100
	}
	return s.N * all / 100
}

// Strict reports whether a pool's claims must not get old sandboxes.
func (u UpdatePolicy) Strict() bool {
	return u.Strategy == Recreate || u.Strategy == Rolling && !u.ClaimsTakeAny
}

// Budget works out the budget of a pool of a size. Where all members may be
// replaced at once they need their room a second time, until they are gone. Where
// nothing is replaced, members that end make room for a few: a node whose pods
// never finish terminating does not stop the pool, and a runaway stays small. In a
// rolling update a share that may be missing is rounded down and one that may be
// too many is rounded up; if both come to nothing one too many is allowed, or
// nothing would ever move.
func (u UpdatePolicy) Budget(replicas int) Budget {
	switch u.Strategy {
	case Recreate:
		return Budget{Surge: replicas}
	case OnReplenish:
		return Budget{Surge: quarter.of(replicas, true)}
	case Rolling:
	}
	b := Budget{Unavailable: u.MaxUnavailable.of(replicas, false), Surge: u.MaxSurge.of(replicas, true), Paused: u.Paused}
	if b.Unavailable == 0 && b.Surge == 0 {
		b.Surge = 1
	}
	return b
}

// A Phase is where a pool is on its way to what its spec and its template ask for.
type Phase string

// The phases of a rollout.
const (
	// PhaseComplete: as many members are ready as shall be.
	PhaseComplete Phase = "Complete"
	// PhaseWarming: members are starting.
	PhaseWarming Phase = "Warming"
	// PhaseScalingDown: members are on their way out.
	PhaseScalingDown Phase = "ScalingDown"
	// PhaseRollingOut: old members are replaced.
	PhaseRollingOut Phase = "RollingOut"
	// PhasePaused: old members would be replaced, and the spec holds that.
	PhasePaused Phase = "Paused"
	// PhaseDeadlineExceeded: no current member has become ready for too long.
	PhaseDeadlineExceeded Phase = "DeadlineExceeded"
)

// The events of a rollout.
const (
	EventCompleted Event = "completed"
	EventLacking   Event = "lacking"
	EventShrinking Event = "shrinking"
	EventRolling   Event = "rolling"
	EventPaused    Event = "paused"
	EventStalled   Event = "stalled"
)

// Rollout is the chart of a pool's rollout. A rollout stalls only after it was seen
// to roll: the clock of its deadline starts then.
var Rollout = Chart{
	Kind: "rollout", Initial: State(PhaseWarming), Order: asStates(phases...),
	Edges: slices.Concat(
		into(PhaseComplete, EventCompleted, "as many members are ready as shall be, all current where old ones are replaced", phases...),
		into(PhaseWarming, EventLacking, "members are missing or starting, and none is replaced", phases...),
		into(PhaseScalingDown, EventShrinking, "members are on their way out, and none is replaced", phases...),
		into(PhaseRollingOut, EventRolling, "old members are replaced, or current ones are missing that replace them", phases...),
		into(PhasePaused, EventPaused, "old members would be replaced, and spec.updateStrategy.rollingUpdate.paused holds that", phases...),
		into(PhaseDeadlineExceeded, EventStalled, "no other current member has become ready within the deadline", PhaseRollingOut),
	),
}

// phases are the phases of a rollout in the order of the story.
var phases = []Phase{PhaseWarming, PhaseComplete, PhaseScalingDown, PhaseRollingOut, PhasePaused, PhaseDeadlineExceeded}

// into lists the edges that lead to a phase by one event.
func into(to Phase, event Event, when string, from ...Phase) (edges []Edge) {
	for _, f := range from {
		if f != to {
			edges = append(edges, Edge{State(f), event, State(to), PoolManager, when})
		}
	}
	return edges
}

func asStates(phases ...Phase) (all []State) {
	for _, p := range phases {
		all = append(all, State(p))
	}
	return all
}

// ParsePhase reads a persisted phase. A missing or unknown one is the first.
func ParsePhase(text string) Phase { return Phase(Rollout.Parse(text)) }

// A Progress is how far a pool's rollout has come. It is remembered from look to
// look; status.rollout keeps what a restart needs of it.
type Progress struct {
	Phase Phase
	// Revision is the one that the pool was on its way to, and UpdatedReady how many
	// members of it were ready.
	Revision     string
	UpdatedReady int
	// Since is when that last changed, or when the pool began to roll. It is in whole
	// seconds, as a status keeps it, so that a restart changes nothing.
	Since time.Time
	// Arrived is the revision that all members have once been of, and as many ready
	// as shall be. From then on claims may take as many as they like.
	Arrived string
}

// advance decides the phase that a pool is in now, and when to look again
// although nothing happens.
func (f PoolStatusFacts) advance(n PoolCount) (p Progress, after time.Duration) {
	p = f.Progress
	p.Phase = ParsePhase(string(p.Phase))
	if f.TemplateUnreadable {
		return p, 0 // which revision is current is not known, so nothing new is
	}
	rolled := p.Phase == PhaseRollingOut || p.Phase == PhaseDeadlineExceeded
	if !rolled || p.Revision != f.Revision || p.UpdatedReady != n.UpdatedReady {
		p.Revision, p.UpdatedReady, p.Since = f.Revision, n.UpdatedReady, f.Now.Truncate(time.Second)
	}
	switch {
	case !f.usable():
	case n.UpdatedReady >= f.Replicas && n.Updated == n.Replicas:
		p.Arrived = f.Revision
	case p.Arrived != f.Revision:
		p.Arrived = "" // it has left, and would have to arrive once more
	}
	left := f.Deadline - f.Now.Sub(p.Since)
	switch {
	case f.Strategy != OnReplenish && f.usable() && p.Arrived != f.Revision:
		p.Phase, after = PhaseRollingOut, left
		if f.Strategy == Rolling && f.Budget.Paused {
			p.Phase, after = PhasePaused, 0
		} else if rolled && left <= 0 {
			p.Phase, after = PhaseDeadlineExceeded, 0
		}
	case n.Replicas > f.Replicas || n.Terminating > 0:
		p.Phase = PhaseScalingDown
	case n.Ready < f.Replicas:
		p.Phase = PhaseWarming
	default:
		p.Phase = PhaseComplete
	}
	return p, max(after, 0)
}

// strategy is the one that counts now.
func (f PoolFacts) strategy() Strategy {
	if f.Strategy == Rolling && f.Budget.Paused {
		return OnReplenish
	}
	return f.Strategy
}

// spare names the old members that a look at a rolling update gives up. Free ones
// go only as far as the pool keeps replicas - unavailable of them, so a template
// whose pods never become ready stops it there, and the old members that are left
// stay.
func (f PoolFacts) spare(old []Member, plan PoolPlan) (gone []Member) {
	named := plan.named()
	spare := f.census().left().free() - f.floor()
	for _, m := range f.Members {
		if m.free() && named[m.Name] {
			spare--
		}
	}
	for _, m := range leaving(old) {
		switch {
		case m.State == Ready && spare <= 0:
			continue // it is needed
		case m.State == Ready:
			spare--
		}
		gone = append(gone, m)
	}
	return gone
}

// room is how many members may be made. Those on their way out still take theirs,
// whatever they leave for: pods that never finish terminating, or members that
// are deleted as fast as they are made, must not fill a cluster.
func (f PoolFacts) room() int {
	c := CountPool(f)
	return max(f.Replicas+f.Budget.Surge-c.Replicas-c.Terminating, 0)
}

// free reports whether a member can still be handed out.
func (m Member) free() bool { return m.State == Ready && !m.Taken }

func split(members []Member) (fresh, old []Member) {
	for _, m := range members {
		if m.Current {
			fresh = append(fresh, m)
		} else {
			old = append(old, m)
		}
	}
	return fresh, old
}

// named are the members that a plan names.
func (p PoolPlan) named() map[string]bool {
	named := map[string]bool{}
	for _, l := range p.Retire {
		named[l.Name] = true
	}
	return named
}

// fit makes a number of members out of those there are: all of them are given where
// there are too many.
func (p *PoolPlan) fit(members []Member, are, number int) {
	p.surplus(members, number)
	p.Create = max(number-are, 0)
}

// outdate retires members of an old revision.
func (p *PoolPlan) outdate(members []Member) {
	for _, m := range leaving(members) {
		p.Retire = append(p.Retire, Retirement{m.Name, ReasonOutdated})
	}
}

// surplus retires the members beyond a number, the least wanted first. Among
// those that are wanted alike, the fullest node gives first, so that what stays
// is spread.
func (p *PoolPlan) surplus(members []Member, most int) {
	left := leaving(members)
	n := &nodes{on: map[string]int{}}
	for _, m := range left {
		n.on[m.Node]++
	}
	for range len(left) - most {
		if n.Len() == 0 {
			left = left[n.gather(left):]
		}
		m := n.give()
		p.Retire = append(p.Retire, Retirement{m.Name, ReasonSurplus})
	}
}

// nodes are the nodes of members that are wanted alike, as a heap: the fullest
// first, and of those the one whose next member is wanted least.
type nodes struct {
	// on is how many members each node has, whatever they are wanted.
	on   map[string]int
	next []queue
}

// A queue is the members of one node that are wanted alike, the least wanted first,
// and where they stand among all.
type queue struct {
	members []Member
	places  []int
}

// gather takes the members in that are wanted like the first; it returns how many
// these are.
func (n *nodes) gather(left []Member) (taken int) {
	at := map[string]int{}
	for taken < len(left) && alike(left[taken], left[0]) {
		m := left[taken]
		i, ok := at[m.Node]
		if !ok {
			i = len(n.next)
			at[m.Node], n.next = i, append(n.next, queue{})
		}
		q := &n.next[i]
		q.members, q.places = append(q.members, m), append(q.places, taken)
		taken++
	}
	heap.Init(n)
	return taken
}

// give takes out the next member to retire.
func (n *nodes) give() Member {
	q := &n.next[0]
	m := q.members[0]
	n.on[m.Node]--
	if q.members, q.places = q.members[1:], q.places[1:]; len(q.members) == 0 {
		heap.Pop(n)
	} else {
		heap.Fix(n, 0)
	}
	return m
}

func (n *nodes) Len() int      { return len(n.next) }
func (n *nodes) Swap(i, j int) { n.next[i], n.next[j] = n.next[j], n.next[i] }
func (n *nodes) Push(x any)    { n.next = append(n.next, x.(queue)) }

func (n *nodes) Less(i, j int) bool {
	a, b := n.next[i], n.next[j]
	return cmp.Or(cmp.Compare(n.on[b.members[0].Node], n.on[a.members[0].Node]), cmp.Compare(a.places[0], b.places[0])) < 0
}

func (n *nodes) Pop() any {
	last := n.next[len(n.next)-1]
	n.next = n.next[:len(n.next)-1]
	return last
}

// leaving lists the members that a plan may name, the least wanted first. Those that
// a claim is taking are the claim's in a moment.
func leaving(members []Member) []Member {
	free := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Taken })
	slices.SortFunc(free, LeastWanted)
	return free
}

// alike reports whether a pool wants two members alike but for their age.
func alike(a, b Member) bool {
	return (a.State == Ready) == (b.State == Ready) && a.Current == b.Current
}
