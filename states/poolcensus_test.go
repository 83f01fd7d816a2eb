package states

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// counted is the same pool as whoever counts it member by member sees it. The
// members are there only where the counts do not suffice.
func (f PoolFacts) counted() PoolFacts {
	all := CensusOf(f.Members)
	g := f
	g.Counted, g.Members = &all, nil
	if c, ok := g.Choice(); ok {
		g.Members = c.of(f.Members)
	}
	return g
}

// of are the members that a choice asks for, and no others.
func (c Choice) of(members []Member) (chosen []Member) {
	old := 0
	all := slices.Clone(members)
	slices.SortStableFunc(all, func(a, b Member) int { return b.Born.Compare(a.Born) })
	ready := map[string]bool{}
	for _, m := range leaving(all) {
		if !m.Terminating && !m.Current && m.State == Ready && old < c.OldReady {
			ready[m.Name] = true
			old++
		}
	}
	for _, m := range members {
		switch {
		case c.All, ready[m.Name]:
		case m.Terminating || m.Taken:
			continue
		case c.Hopeless && m.Hopeless(), c.OldUnready && !m.Current && m.State != Ready:
		case m.stuck() && c.Stuck > 0:
			c.Stuck--
		default:
			continue
		}
		chosen = append(chosen, m)
	}
	return chosen
}

// What follows decides by looking at all members each time, in the plainest words. It
// is what the counts must agree with.

func slowCount(f PoolFacts) PoolCount {
	c := PoolCount{Terminating: f.Former}
	for _, m := range f.Members {
		switch {
		case m.Terminating:
			c.Terminating++
			continue
		case m.State == Ready && m.Current:
			c.UpdatedReady++
			fallthrough
		case m.State == Ready:
			c.Ready++
		case m.State == Warming:
			c.Warming++
		}
		c.Replicas++
		if m.Current {
			c.Updated++
		}
		if m.Refused {
			c.Refused++
		}
	}
	return c
}

func slowPlan(f PoolFacts) PoolPlan {
	if f.Terminating || f.Gone {
		return PoolPlan{}
	}
	var plan PoolPlan
	var keep []Member
	budget := max(f.Replicas/4, 1) - slowCount(f).Terminating
	for _, m := range f.Members {
		switch {
		case m.Terminating:
		case !m.Taken && m.Refused && !m.Current && f.usable():
			plan.Retire = append(plan.Retire, Retirement{m.Name, ReasonOutdated})
		case !m.Taken && m.Stuck && m.State != Ready && budget > 0:
			budget--
			plan.Retire = append(plan.Retire, Retirement{m.Name, ReasonStuck})
		default:
			keep = append(keep, m)
		}
	}
	switch fresh, old := split(keep); {
	case len(old) == 0 || !f.usable() || f.strategy() == OnReplenish:
		plan.slowFit(keep, f.Replicas)
	case f.strategy() == Recreate:
		plan.outdate(old)
		plan.slowFit(fresh, f.Replicas)
	default:
		plan.slowFit(fresh, f.Replicas)
		plan.outdate(f.slowSpare(fresh, old, plan))
	}
	plan.Create = max(min(plan.Create-f.Handing, f.Replicas+f.Budget.Surge-len(f.Members)-f.Former, f.Batch), 0)
	switch {
	case !f.usable() || f.Hold > 0:
		plan.Create = 0
	case f.CreationsRefused:
		plan.Create = min(plan.Create, 1)
	}
	return plan
}

// slowSpare counts the free ones that are left by looking at each.
func (f PoolFacts) slowSpare(fresh, old []Member, plan PoolPlan) (gone []Member) {
	spare := -f.floor()
	for _, m := range slices.Concat(fresh, old) {
		if m.free() && !plan.names(m.Name) {
			spare++
		}
	}
	for _, m := range leaving(old) {
		if m.State == Ready {
			if spare <= 0 {
				continue
			}
			spare--
		}
		gone = append(gone, m)
	}
	return gone
}

// slowFit looks for the fullest node anew for each member that goes.
func (p *PoolPlan) slowFit(members []Member, number int) {
	left := leaving(members)
	on := map[string]int{}
	for _, m := range left {
		on[m.Node]++
	}
	for len(left) > number {
		i := 0
		for j, m := range left {
			if alike(m, left[0]) && on[m.Node] > on[left[i].Node] {
				i = j
			}
		}
		p.Retire = append(p.Retire, Retirement{left[i].Name, ReasonSurplus})
		on[left[i].Node]--
		left = slices.Delete(left, i, i+1)
	}
	p.Create = max(number-len(members), 0)
}

// named are the members that a plan names.
func (p PoolPlan) names(name string) bool {
	return slices.ContainsFunc(p.Retire, func(l Retirement) bool { return l.Name == name })
}

func TestCountsDecideWhatALookAtAllMembersDecides(t *testing.T) {
	listed, planned := 0, 0
	for seed := range uint64(60000) {
		r := rand.New(rand.NewPCG(seed, 12))
		f := randomPool(r)
		f.LoansKnown = r.IntN(8) > 0
		for i := range f.Members {
			f.Members[i].Node = fmt.Sprint("n", r.IntN(3))
			if !f.LoansKnown {
				f.Members[i].Taken = false
			}
		}
		counts, want := f.counted(), slowPlan(f)
		if got := CountPool(counts); got != slowCount(f) {
			t.Fatalf("seed %d: %+v: counts %+v, want %+v", seed, f, got, slowCount(f))
		}
		if busy := len(want.Retire) > 0 || want.Create > 0; counts.busy() != busy {
			t.Fatalf("seed %d: %+v: busy is %t", seed, f, !busy)
		}
		if got := PlanPool(f); !slices.Equal(got.Retire, want.Retire) || got.Create != want.Create {
			t.Fatalf("seed %d: %+v: all looked at: %+v, want %+v", seed, f, got, want)
		}
		if lists := counts.Members != nil; lists != (f.LoansKnown && len(want.Retire) > 0) {
			t.Fatalf("seed %d: %+v: lists is %t, and the plan is %+v", seed, f, lists, want)
		}
		a, b := StepPool(f), StepPool(counts)
		if fmt.Sprintf("%+v", planless(a)) != fmt.Sprintf("%+v", planless(b)) || fmt.Sprint(a.About.Plan) != fmt.Sprint(b.About.Plan) {
			t.Fatalf("seed %d: %+v: looked %+v, counted %+v", seed, f, a, b)
		}
		status := PoolStatusFacts{PoolFacts: f, Deadline: time.Minute, Now: at(100), Revision: "r"}
		byCount := status
		byCount.PoolFacts = counts
		if x, y := StepPoolStatus(status), StepPoolStatus(byCount); fmt.Sprintf("%+v", x.About.Report) != fmt.Sprintf("%+v", y.About.Report) {
			t.Fatalf("seed %d: %+v: looked %+v, counted %+v", seed, f, x.About.Report, y.About.Report)
		}
		if counts.Members != nil {
			listed++
		}
		if len(want.Retire) > 0 || want.Create > 0 {
			planned++
		}
	}
	t.Logf("%d plans, %d of them chose among the members", planned, listed)
}

func planless(d Decision) Decision { d.About.Plan = nil; return d }

func TestACensusIsTheSameWhateverWasCountedBefore(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 13))
		now, then := randomPool(r).Members, randomPool(r).Members
		for i := range then {
			then[i].Taken = false
		}
		c := CensusOf(now)
		c.Taken = Counts{}
		for _, m := range now {
			c.Remove(m)
		}
		if c != (Census{}) {
			t.Fatalf("seed %d: nothing is left: %+v", seed, c)
		}
		for _, m := range then {
			c.Add(m)
		}
		NewWithT(t).Expect(c).To(Equal(CensusOf(then)))
	}
}

// Thousands of members on many nodes leave in the order that they would if the
// fullest node were looked for each time.
func TestAScaleDownChoosesAmongThousands(t *testing.T) {
	f := PoolFacts{Template: PresenceShown, Batch: 300, Replicas: 100}
	for i := range 2000 {
		m := Member{Name: fmt.Sprint(i), State: []State{Ready, Warming}[i%7/6], Current: i%5 > 0, Node: fmt.Sprint(i * i % 83), Born: at(i % 900)}
		f.Members = append(f.Members, m)
	}
	NewWithT(t).Expect(PlanPool(f).Retire).To(Equal(slowPlan(f).Retire))
	f.Replicas = 0
	NewWithT(t).Expect(PlanPool(f).Retire).To(HaveLen(2000))
}
