package states

import (
	"cmp"
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
	// PolicyRefused: the template's NetworkPolicy cannot be what it should be, and no
	// pod starts without it.
	PolicyRefused bool
	// Counted counts the sandboxes whose controller reference names the pool, those
	// included that the watch has not shown yet. Nearly everything is decided from
	// that. Where it is nil Members are they themselves, and where a plan has to choose
	// they are those that its Choice asks for.
	Counted *Census
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
	// Batch bounds how many members one pass creates.
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
	if !f.LoansKnown && f.busy() {
		return act(AskShelf, ReasonLoanUnknown)
	}
	plan := PlanPool(f)
	about := About{Plan: &plan}
	switch {
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
	taking := f.Handing > 0 || f.census().Taken.stay() > 0
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
// none that a claim is taking: that one leaves by itself. Whoever carries the plan
// out does so a batch at a time.
func PlanPool(f PoolFacts) PoolPlan {
	if f.Terminating || f.Gone {
		return PoolPlan{}
	}
	plan := PoolPlan{Create: f.lacks()}
	if f.retires() {
		plan = f.choose()
	}
	plan.Create = max(min(plan.Create-f.Handing, f.room(), f.Batch), 0)
	switch {
	case !f.usable() || f.Hold > 0:
		plan.Create = 0
	case f.CreationsRefused:
		plan.Create = min(plan.Create, 1)
	}
	return plan
}

// busy reports whether a plan does anything at all.
func (f PoolFacts) busy() bool {
	return !f.Terminating && !f.Gone && (f.retires() || PlanPool(f).Create > 0)
}

// A Choice is the members that a plan has to look at. Who gives it more changes nothing
// of the plan. A rolling update makes a plan for each member that has become ready: it
// must not look at all of them each time.
type Choice struct {
	// All: every member. The others do not matter then.
	All bool
	// Hopeless are those that will never start, and that are outdated.
	Hopeless bool
	// Stuck is how many of those that will not become free by themselves.
	Stuck int
	// OldUnready are those of an older revision that are not ready; OldReady is how many
	// of the ready ones, the newest first.
	OldUnready bool
	OldReady   int
}

// Choice reports whether a plan has to choose among the members, so that counts are
// not enough, and what it has to look at. No member counts that a claim is taking: the
// shelf is asked before.
func (f PoolFacts) Choice() (c Choice, ok bool) {
	if f.Counted == nil || !f.LoansKnown || f.Terminating || f.Gone || !f.retires() {
		return Choice{}, false
	}
	c = Choice{Hopeless: f.usable(), Stuck: max(f.quarter(), 0)}
	left := f.census().left()
	switch {
	case !f.replacesOld():
		c.All = left.stay() > f.Replicas
	case f.strategy() == Recreate || left.fresh() > f.Replicas:
		c.All = true
	default:
		c.OldUnready, c.OldReady = true, max(left.free()-f.floor(), 0)
	}
	return c, true
}

// replacesOld reports whether there are old members and they are to be replaced. A
// template that nobody can read replaces nothing.
func (f PoolFacts) replacesOld() bool {
	return f.census().old() > 0 && f.usable() && f.strategy() != OnReplenish
}

// lacks is how many members are missing, as long as none is given up.
func (f PoolFacts) lacks() int {
	has := f.census().stay()
	if f.replacesOld() {
		has = f.census().fresh()
	}
	return max(f.Replicas-has, 0)
}

// retires reports whether a plan names members.
func (f PoolFacts) retires() bool {
	c := f.census()
	left := c.left()
	switch {
	case left.Hopeless > 0 && f.usable(), left.Stuck > 0 && f.quarter() > 0:
		return true
	case !f.replacesOld():
		return left.stay() > f.Replicas
	case f.strategy() == Recreate:
		return left.old() > 0 || left.fresh() > f.Replicas
	}
	return left.fresh() > f.Replicas || left.Old > 0 || left.OldReady > 0 && left.free() > f.floor()
}

// quarter is how many more members may be given up as stuck.
func (f PoolFacts) quarter() int { return max(f.Replicas/4, 1) - CountPool(f).Terminating }

// floor is how many free members a rolling update leaves at least.
func (f PoolFacts) floor() int { return max(f.Replicas-f.Budget.Unavailable, 0) }

// choose plans for a pool that gives members up. How many are left is counted; only
// those that may be named are looked at.
func (f PoolFacts) choose() PoolPlan {
	gone, keep := giveUp(f)
	plan := PoolPlan{Retire: gone}
	left, named := f.census().Counts, plan.named()
	for _, m := range f.Members {
		if named[m.Name] {
			left.count(m, -1)
		}
	}
	switch fresh, old := split(keep); {
	case left.old() == 0 || !f.usable() || f.strategy() == OnReplenish:
		plan.fit(keep, left.stay(), f.Replicas)
	case f.strategy() == Recreate:
		plan.outdate(old)
		plan.fit(fresh, left.fresh(), f.Replicas)
	default:
		plan.fit(fresh, left.fresh(), f.Replicas)
		plan.outdate(f.spare(old, plan))
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
	budget := f.quarter()
	for _, m := range f.Members {
		switch {
		case m.Terminating:
		case m.Taken:
			keep = append(keep, m)
		case m.Hopeless() && f.usable():
			// It will never start, and what it was made from has been mended.
			gone = append(gone, Retirement{m.Name, ReasonOutdated})
		case m.stuck() && budget > 0:
			budget--
			gone = append(gone, Retirement{m.Name, ReasonStuck})
		default:
			keep = append(keep, m)
		}
	}
	return gone, keep
}

// LeastWanted orders members by how little a pool loses with them: those that
// are not ready, then those of an older revision, then the newest.
func LeastWanted(a, b Member) int {
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
