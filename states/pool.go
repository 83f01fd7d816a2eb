package states

import (
	"cmp"
	"slices"
	"time"
)

// A Member is one sandbox of a pool, as the pool sees it.
type Member struct {
	Name string
	// Pod is what is known of its pod, and State that pod's state; Warming when
	// there is no pod yet.
	Pod   PodView
	State State
	// Current: it has the revision that the pool's template has now.
	Current bool
	// Refused: the API server does not accept its pod.
	Refused bool
	// Stuck: it will not become free by itself (see Health).
	Stuck bool
	// Taken: it is free by its state, and a claim is taking it at this moment.
	Taken bool
	// Terminating: it is retired or being deleted, or its pool has given it up.
	Terminating bool
	// Node is where its pod runs; a pool is kept spread over nodes.
	Node string
	// Born is when it was created.
	Born time.Time
}

// PoolFacts are what a pool's next step is decided from.
type PoolFacts struct {
	// Gone: there is no pool of this name.
	Gone bool
	// Terminating: the pool is being deleted; its members go with it.
	Terminating bool
	// Replicas is how many members it shall have.
	Replicas int
	// Template is what is known of its template. TemplateInvalid: it exists, and no
	// sandbox can be made from it. TemplateUnreadable: the API server could not say.
	Template           Presence
	TemplateInvalid    bool
	TemplateUnreadable bool
	// Members are the sandboxes whose controller reference names the pool, those
	// included that the watch has not shown yet.
	Members []Member
	// Former are members that are not quite gone: the sandbox is no more, and its
	// pod still runs out its grace period or is just being made.
	Former int
	// Strategy is how members of an old revision are replaced, and Budget bounds
	// the members there may be meanwhile.
	Strategy Strategy
	Budget   Budget
	// Hold is how long creations wait, because the last ones came to nothing.
	Hold time.Duration
	// CreationsRefused: the API server refused the last creation. One is tried at a
	// time then. Refused: it did so in this step.
	CreationsRefused, Refused bool
	// LoansKnown: the shelf was asked in this step. Handing is how many sandboxes
	// were adopted by claims that are about to be told: their refill waits for that.
	LoansKnown bool
	Handing    int
	// StuckIn is when the next member that is not ready will count as stuck; zero
	// means that none will.
	StuckIn time.Duration
	// Batch bounds how many members one pass creates or retires.
	Batch int
}

// usable reports whether members can be made from the template.
func (f PoolFacts) usable() bool { return f.Template == PresenceShown && !f.TemplateInvalid }

// StepPool decides the next step of a pool's members. What is missing is made
// before what is too many is given up: a claim may wait for the former.
func StepPool(f PoolFacts) Decision {
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Terminating:
		return rest(ReasonTerminating)
	case f.Template == PresenceUnseen && !f.TemplateUnreadable:
		return act(ReadTemplate, ReasonTemplateUnseen)
	}
	plan := PlanPool(f)
	about := About{Plan: &plan}
	switch busy := plan.Create > 0 || len(plan.Retire) > 0; {
	case busy && !f.LoansKnown:
		return act(AskShelf, ReasonLoanUnknown)
	case plan.Create > 0 && !f.Refused:
		return Decision{Act: Create, About: about, Reason: ReasonMembersMissing}
	case len(plan.Retire) > 0:
		return Decision{Act: Retire, About: about, Reason: ReasonMembersLeave}
	case f.Refused:
		return act(Retry, ReasonMembersRefused)
	case f.TemplateUnreadable:
		return act(Retry, ReasonTemplateUnreadable)
	}
	return f.sleep()
}

// sleep rests until a member counts as stuck or creations need not wait any more,
// and otherwise until an event. One comes when claims have what they are taking.
func (f PoolFacts) sleep() Decision {
	taking := f.Handing > 0 || slices.ContainsFunc(f.Members, func(m Member) bool { return m.Taken })
	switch {
	case f.Hold > 0 && (f.StuckIn <= 0 || f.Hold <= f.StuckIn):
		return rest(ReasonMembersEnd).in(f.Hold)
	case f.StuckIn > 0:
		return rest(ReasonMembersUnready).in(f.StuckIn)
	case f.LoansKnown && taking:
		return act(Wait, ReasonAdopting)
	case f.Template == PresenceHidden:
		return act(Wait, ReasonWatchBehind)
	case f.Template == PresenceMissing:
		return rest(ReasonTemplateMissing)
	case f.TemplateInvalid:
		return rest(ReasonTemplateInvalid)
	}
	return rest(ReasonAsPlanned)
}

// A Retirement is a member to retire, and why: ReasonSurplus, ReasonOutdated or
// ReasonStuck.
type Retirement struct {
	Name   string
	Reason Reason
}

// A PoolPlan is what a pool does next: how many members to create, and which to
// retire.
type PoolPlan struct {
	Create int
	Retire []Retirement
}

// PlanPool decides how a pool gets from the members it has to those it shall
// have. It only ever names members of its own that are not terminating already, and
// none that a claim is taking: that one leaves by itself.
func PlanPool(f PoolFacts) PoolPlan {
	if f.Terminating || f.Gone {
		return PoolPlan{}
	}
	gone, keep := giveUp(f)
	plan := PoolPlan{Retire: gone}
	switch fresh, old := split(keep); {
	case len(old) == 0 || !f.usable() || f.strategy() == OnReplenish:
		plan.fit(keep, f.Replicas) // a template that nobody can read replaces nothing
	case f.strategy() == Recreate:
		plan.outdate(old)
		plan.fit(fresh, f.Replicas)
	default:
		plan.fit(fresh, f.Replicas)
		plan.outdate(f.spare(fresh, old, plan))
	}
	plan.Retire = plan.Retire[:min(len(plan.Retire), f.Batch)]
	plan.Create = max(min(plan.Create-f.Handing, f.room(), f.Batch), 0)
	switch {
	case !f.usable() || f.Hold > 0:
		plan.Create = 0
	case f.CreationsRefused:
		plan.Create = min(plan.Create, 1)
	}
	return plan
}

// giveUp names the members that will never be free, and returns the others. Those
// that are stuck go only while no more than a quarter is on its way out: passes
// follow each other at once, and a node that was away for too long must not cost
// a pool all it had there. The others may come back; one that is ready has. What
// a rollout retires uses the quarter up, and is not bound by it: old members that
// are not free are given up at once, for current ones take their place.
func giveUp(f PoolFacts) (gone []Retirement, keep []Member) {
	budget := max(f.Replicas/4, 1) - CountPool(f).Terminating
	for _, m := range f.Members {
		switch {
		case m.Terminating:
		case m.Taken:
			keep = append(keep, m)
		case m.Refused && !m.Current && f.usable():
			// It will never start, and what it was made from has been mended.
			gone = append(gone, Retirement{m.Name, ReasonOutdated})
		case m.Stuck && m.State != Ready && budget > 0:
			budget--
			gone = append(gone, Retirement{m.Name, ReasonStuck})
		default:
			keep = append(keep, m)
		}
	}
	return gone, keep
}

// leastWanted orders members by how little a pool loses with them: those that
// are not ready, then those of an older revision, then the newest.
func leastWanted(a, b Member) int {
	return cmp.Or(
		rank(a.State == Ready, b.State == Ready),
		rank(a.Current, b.Current),
		b.Born.Compare(a.Born),
		cmp.Compare(a.Name, b.Name),
	)
}

func rank(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// A Health is what tells whether a member's pod will become ready by itself.
type Health struct {
	// Pod is what is known of the pod.
	Pod PodView
	// Finished: its containers ended, and it will never be ready again.
	Finished bool
	// Unscheduled: no node has room for it, or a gate is not lifted. Another one
	// would wait no less.
	Unscheduled bool
	// State is the pod's state.
	State State
	// UnreadySince is when it lost its readiness, or was scheduled, or was created:
	// the latest of what happened to it. While it had no room nothing could start.
	UnreadySince time.Time
}

// Stuck reports whether a member will not become free by itself, and if not yet,
// how long until it counts as such; zero means that it never will by time alone.
// A state that no edge leads a member to was written by a hand.
func (h Health) Stuck(grace time.Duration, now time.Time) (stuck bool, in time.Duration) {
	switch {
	case h.Pod == PodNone || h.Pod == PodForeign || h.Pod == PodMultiple:
		return false, 0
	case h.Finished, h.State == Binding, h.State == Bound, h.State == Stale:
		return true, 0
	case h.Pod == PodReady || h.Unscheduled:
		return false, 0
	}
	if in = grace - now.Sub(h.UnreadySince); in <= 0 {
		return true, 0
	}
	return false, in
}
