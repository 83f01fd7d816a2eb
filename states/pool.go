package states

import (
	"cmp"
	"time"
)

// A Member is one sandbox of a pool, as the pool sees it.
type Member struct {
	Name string
	// Word is its pod's state; Warming when there is no pod yet.
	Word State
	// Current: it has the revision the pool's template has now.
	Current bool
	// Refused: the API server does not accept its pod.
	Refused bool
	// Stuck: it will not be free by itself. It has been unready for longer than it
	// may and does not only wait for room, or a hand gave it a word that no edge
	// of a member leads out of.
	Stuck bool
	// Taken: it is free by its word, and a claim is taking it this moment.
	Taken bool
	// Leaving: it is retired or being deleted.
	Leaving bool
	// Node is where its pod runs; a pool is kept spread over nodes.
	Node string
	// Born is when it was created.
	Born time.Time
}

// PoolFacts are what a pool's next step is decided from.
type PoolFacts struct {
	// Deleting: the pool is being deleted; its members go with it.
	Deleting bool
	// Replicas is how many members it shall have.
	Replicas int
	// Template is what is known of its template.
	Template Presence
	// Members are the sandboxes whose controller reference names the pool's UID,
	// those included that the watch has not shown yet.
	Members []Member
	// Going are former members that are not quite gone: the sandbox is no more,
	// and its pod still runs out its grace period.
	Going int
	// Strategy is how members of an old revision are replaced, and Budget bounds
	// the members there may be meanwhile.
	Strategy Strategy
	Budget   Budget
	// Hold: creations wait, because the last ones came to nothing.
	Hold bool
	// Batch bounds how many members one pass creates or retires.
	Batch int
}

// A Leave is a member to retire, and why.
type Leave struct {
	Name   string
	Reason string
}

// The reasons a member is retired for, as the annotation says them.
const (
	Surplus  = "surplus"
	Outdated = "outdated"
	Stuck    = "stuck"
)

// PoolCount is what a pool's status counts.
type PoolCount struct {
	// Replicas are the members that are not leaving, Ready those of them that
	// are free to take, Warming those that are starting.
	Replicas, Ready, Warming int
	// Leaving are those on their way out, whether they are members still or only
	// their pods are left.
	Leaving int
	// Updated and UpdatedReady are those of the current revision.
	Updated, UpdatedReady int
	// Refused are those whose pod the API server does not accept.
	Refused int
}

// A PoolPlan is what a pool does next: how many members to create, and which to
// retire.
type PoolPlan struct {
	Create int
	Retire []Leave
}

// CountPool counts a pool's members.
func CountPool(f PoolFacts) PoolCount {
	c := PoolCount{Leaving: f.Going}
	for _, m := range f.Members {
		if m.Leaving {
			c.Leaving++
			continue
		}
		c.Replicas++
		switch m.Word {
		case Ready:
			c.Ready++
		case Warming:
			c.Warming++
		case Binding, Bound, Stale: // a hand has been at the label; it counts as neither
		}
		if m.Current {
			c.Updated++
		}
		if m.Current && m.Word == Ready {
			c.UpdatedReady++
		}
		if m.Refused {
			c.Refused++
		}
	}
	return c
}

// PlanPool decides how a pool gets from the members it has to those it shall
// have. It only ever names members of its own that are not leaving already.
func PlanPool(f PoolFacts) PoolPlan {
	if f.Deleting {
		return PoolPlan{}
	}
	gone, keep := giveUp(f)
	plan := PoolPlan{Retire: gone}
	switch fresh, old := split(keep); {
	case len(old) == 0 || f.Template != Present || f.strategy() == OnReplenish:
		plan.fit(keep, f.Replicas) // a template that nobody can read replaces nothing
	case f.strategy() == Recreate:
		plan.outdate(old)
		plan.fit(fresh, f.Replicas)
	default:
		plan.fit(fresh, f.Replicas)
		plan.outdate(f.spare(fresh, old, plan))
	}
	plan.Retire = plan.Retire[:min(len(plan.Retire), f.Batch)]
	plan.Create = min(plan.Create, f.room(), f.Batch)
	if f.Template != Present || f.Hold {
		plan.Create = 0
	}
	return plan
}

// giveUp names the members that will never be free, and returns the others. Those
// that are stuck go only while no more than a quarter is on its way out: passes
// follow each other at once, and a node that was away for too long must not cost
// a pool all it had there. The others may come back; one that is ready has. What
// a rollout retires uses the quarter up, and is not bound by it: old members that
// are not free are given up at once, for current ones take their place.
func giveUp(f PoolFacts) (gone []Leave, keep []Member) {
	budget := max(f.Replicas/4, 1) - CountPool(f).Leaving
	for _, m := range f.Members {
		switch {
		case m.Leaving:
		case m.Refused && !m.Current && f.Template == Present:
			// It will never start, and what it was made from has been mended.
			gone = append(gone, Leave{m.Name, Outdated})
		case m.Stuck && m.Word != Ready && budget > 0:
			budget--
			gone = append(gone, Leave{m.Name, Stuck})
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
		rank(a.Word == Ready, b.Word == Ready),
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
