package states

import "slices"

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
func (f PoolFacts) spare(fresh, old []Member, plan PoolPlan) (gone []Member) {
	free := 0
	for _, m := range slices.Concat(fresh, old) {
		if m.free() && !plan.names(m.Name) {
			free++
		}
	}
	spare := free - max(f.Replicas-f.Budget.Unavailable, 0)
	for _, m := range slices.SortedFunc(slices.Values(old), leastWanted) {
		switch {
		case m.Taken:
			continue // its claim has it in a moment
		case m.Word == Ready && spare <= 0:
			continue // it is needed
		case m.Word == Ready:
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
	return max(f.Replicas+f.Budget.Surge-len(f.Members)-f.Going, 0)
}

// free reports whether a member can still be handed out.
func (m Member) free() bool { return m.Word == Ready && !m.Taken }

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

// fit makes a number of members out of those there are.
func (p *PoolPlan) fit(members []Member, number int) {
	p.surplus(members, number)
	p.Create = max(number-len(members), 0)
}

// outdate retires members of an old revision.
func (p *PoolPlan) outdate(members []Member) {
	for _, m := range members {
		p.Retire = append(p.Retire, Leave{m.Name, Outdated})
	}
}

// surplus retires the members beyond a number, the least wanted first. Among
// those that are wanted alike, the fullest node gives first, so that what stays
// is spread.
func (p *PoolPlan) surplus(members []Member, most int) {
	left := slices.SortedFunc(slices.Values(members), leastWanted)
	on := map[string]int{}
	for _, m := range left {
		on[m.Node]++
	}
	for len(left) > most {
		i := 0
		for j, m := range left {
			if alike(m, left[0]) && on[m.Node] > on[left[i].Node] {
				i = j
			}
		}
		p.Retire = append(p.Retire, Leave{left[i].Name, Surplus})
		on[left[i].Node]--
		left = slices.Delete(left, i, i+1)
	}
}

// alike reports whether a pool wants two members alike but for their age.
func alike(a, b Member) bool {
	return (a.Word == Ready) == (b.Word == Ready) && a.Current == b.Current
}

func (p *PoolPlan) names(name string) bool {
	return slices.ContainsFunc(p.Retire, func(l Leave) bool { return l.Name == name })
}
