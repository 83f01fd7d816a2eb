package states

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// old is a free member of an older revision, fresh one of the current.
func old(name string) Member   { return Member{Name: name, State: Ready} }
func fresh(name string) Member { return Member{Name: name, State: Ready, Current: true} }

func warming(m Member) Member     { m.State = Warming; return m }
func taken(m Member) Member       { m.Taken = true; return m }
func terminating(m Member) Member { m.Terminating = true; return m }

func TestARolloutTakesItsNextStep(t *testing.T) {
	out := func(names ...string) (all []Retirement) {
		for _, n := range names {
			all = append(all, Retirement{n, ReasonOutdated})
		}
		return all
	}
	four := []Member{old("a"), old("b"), old("c"), old("d")}
	budget := Budget{Unavailable: 1, Surge: 1}
	for _, row := range []struct {
		name  string
		facts PoolFacts
		plan  PoolPlan
	}{
		{"on replenish, old members stay", PoolFacts{Members: four}, PoolPlan{}},
		{"on replenish, what is missing is made", PoolFacts{Members: four[:3]}, PoolPlan{Create: 1}},
		{"recreated, all old members go and as many are made at once",
			PoolFacts{Strategy: Recreate, Budget: Budget{Surge: 4}, Members: four}, PoolPlan{Retire: out("a", "b", "c", "d"), Create: 4}},
		{"recreated, those that are leaving hold nothing up",
			PoolFacts{Strategy: Recreate, Budget: Budget{Surge: 4}, Members: []Member{terminating(old("a")), old("b"), fresh("c")}}, PoolPlan{Retire: out("b"), Create: 3}},
		{"recreated again while the first ones still terminate, it waits for them",
			PoolFacts{Strategy: Recreate, Budget: Budget{Surge: 4}, Members: four, Former: 4}, PoolPlan{Retire: out("a", "b", "c", "d")}},
		{"on replenish, pods that do not finish terminating stop it only when there are too many",
			PoolFacts{Budget: Budget{Surge: 1}, Former: 4}, PoolPlan{Create: 1}},
		{"rolled, one is given up and one is made beyond the number",
			PoolFacts{Strategy: Rolling, Budget: budget, Members: four}, PoolPlan{Retire: out("a"), Create: 1}},
		{"rolled without surge, room is made first",
			PoolFacts{Strategy: Rolling, Budget: Budget{Unavailable: 1}, Members: four}, PoolPlan{Retire: out("a")}},
		{"rolled without unavailable, a current one comes first",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: four}, PoolPlan{Create: 1}},
		{"rolled, nothing more happens until the new one is free",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: append([]Member{warming(fresh("e"))}, four...)}, PoolPlan{}},
		{"rolled, an old one goes when a new one is free",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: append([]Member{fresh("e")}, four...)}, PoolPlan{Retire: out("a")}},
		{"rolled, a new one that a claim is taking makes up for no old one",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: append([]Member{taken(fresh("e"))}, four...)}, PoolPlan{}},
		{"rolled, an old one that a claim is taking is left to it",
			PoolFacts{Strategy: Rolling, Budget: Budget{Unavailable: 2, Surge: 1}, Members: append([]Member{taken(old("x"))}, four[1:]...)}, PoolPlan{Retire: out("b"), Create: 1}},
		{"rolled, one that is leaving still takes its room",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: append([]Member{fresh("e"), terminating(old("x"))}, four[1:]...)}, PoolPlan{}},
		{"rolled, one whose pod still terminates takes its room too",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: append([]Member{fresh("e")}, four[1:]...), Former: 1}, PoolPlan{}},
		{"rolled, old ones that are not free go at once",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: []Member{old("a"), warming(old("b")), old("c"), old("d")}},
			PoolPlan{Retire: out("b"), Create: 1}},
		{"rolled, the last old ones go when the current ones are all free",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1}, Members: []Member{fresh("e"), fresh("f"), fresh("g"), fresh("h"), old("a")}},
			PoolPlan{Retire: out("a")}},
		{"rolled and done, it rests",
			PoolFacts{Strategy: Rolling, Budget: budget, Members: []Member{fresh("e"), fresh("f"), fresh("g"), fresh("h")}}, PoolPlan{}},
		{"paused, it rests as it is", PoolFacts{Strategy: Rolling, Budget: Budget{Unavailable: 1, Surge: 1, Paused: true}, Members: four}, PoolPlan{}},
		{"paused, what is missing is made",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1, Paused: true}, Members: four[:2]}, PoolPlan{Create: 2}},
		{"paused, there is no more room than while it rolls",
			PoolFacts{Strategy: Rolling, Budget: Budget{Surge: 1, Paused: true}, Members: four[:2], Former: 2}, PoolPlan{Create: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.facts.Template, row.facts.Batch, row.facts.Replicas = PresenceShown, 10, 4
			NewWithT(t).Expect(PlanPool(row.facts)).To(Equal(row.plan))
		})
	}
}

func TestAMemberThatIsStuckIsReplacedAFewAtATime(t *testing.T) {
	g := NewWithT(t)
	f := PoolFacts{Template: PresenceShown, Batch: 10, Replicas: 8, Budget: Budget{Surge: 2}}
	for i := range 8 {
		f.Members = append(f.Members, Member{Name: fmt.Sprint(i), State: Warming, Current: true, Stuck: true})
	}
	p := PlanPool(f)
	g.Expect(p.Retire).To(HaveLen(2), "a node that blinks must not wipe a pool")
	g.Expect(p.Retire[0].Reason).To(Equal(ReasonStuck))
	g.Expect(p.Create).To(Equal(2))
	held := f
	held.Hold = time.Second
	g.Expect(PlanPool(held).Create).To(BeZero(), "creations wait")
	f.Members[0].Terminating = true
	g.Expect(PlanPool(f).Retire).To(HaveLen(1), "one is on its way out already")
	f.Members, f.Former = f.Members[1:], 2
	g.Expect(PlanPool(f).Retire).To(BeEmpty(), "two are, as long as anything of them is left")
	f.Former = 0
	g.Expect(PlanPool(f).Retire).To(HaveLen(2), "the next ones go when the first are gone")
}

func TestAPoolThatShrinksStaysSpread(t *testing.T) {
	f := PoolFacts{Template: PresenceShown, Batch: 10, Replicas: 3}
	for i, node := range []string{"a", "a", "a", "a", "b", "c"} {
		m := fresh(fmt.Sprint(i))
		m.Node, m.Born = node, at(i)
		f.Members = append(f.Members, m)
	}
	var names []string
	for _, l := range PlanPool(f).Retire {
		names = append(names, l.Name)
	}
	NewWithT(t).Expect(names).To(Equal([]string{"3", "2", "1"}), "the newest of the fullest node goes first")
}

// TestARolloutKeepsItsPromises rolls random pools, with pods that become ready
// or fail to, claims that take members, and deletions that take their time.
func TestARolloutKeepsItsPromises(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 9))
		f := PoolFacts{
			Template: PresenceShown, Strategy: Strategies[r.IntN(3)], Batch: 1 + r.IntN(10),
			Replicas: 1 + r.IntN(8), Budget: Budget{Unavailable: r.IntN(3), Surge: r.IntN(3)},
		}
		if f.Budget.Unavailable+f.Budget.Surge == 0 || f.Strategy != Rolling {
			f.Budget.Surge = 1 + r.IntN(8)
		}
		for i := range f.Replicas {
			f.Members = append(f.Members, old(fmt.Sprint("old", i)))
		}
		rollRandomly(t, seed, r, &f)
	}
}

func rollRandomly(t *testing.T, seed uint64, r *rand.Rand, f *PoolFacts) {
	t.Helper()
	made := 0
	for pass := range 400 {
		calm := pass > 60 // in the end nobody disturbs it any more
		free := CountPool(*f).Ready
		p := PlanPool(*f)
		for _, l := range p.Retire {
			i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == l.Name })
			f.Members[i].Terminating = true
		}
		for range p.Create {
			made++
			f.Members = append(f.Members, warming(fresh(fmt.Sprint("new", made))))
		}
		after := CountPool(*f).Ready
		if calm && p.Create == 0 && len(p.Retire) == 0 && len(f.Members)+f.Former == after {
			break // all are free, and nothing is left to do
		}
		if f.Strategy == Rolling && after < free && after < f.Replicas-f.Budget.Unavailable {
			t.Fatalf("seed %d: a rollout left %d free of %d, with %d to spare", seed, after, f.Replicas, f.Budget.Unavailable)
		}
		if p.Create > 0 && len(f.Members)+f.Former > f.Replicas+f.Budget.Surge {
			t.Fatalf("seed %d: %d members and what is left of %d, of %d and %d surge", seed, len(f.Members), f.Former, f.Replicas, f.Budget.Surge)
		}
		disturb(r, f, calm)
	}
	c := CountPool(*f)
	done := c.Replicas == f.Replicas && c.Ready == f.Replicas && c.Terminating == 0
	if f.Strategy != OnReplenish {
		done = done && c.UpdatedReady == f.Replicas
	}
	if !done {
		t.Fatalf("seed %d: %v never came to rest: %+v of %d", seed, f.Strategy, c, f.Replicas)
	}
}

// disturb lets time pass: pods become ready, leaving ones end, claims take.
func disturb(r *rand.Rand, f *PoolFacts, calm bool) {
	f.Former -= min(f.Former, r.IntN(4))
	f.Members = slices.DeleteFunc(f.Members, func(m Member) bool {
		taken := !calm && !m.Terminating && m.State == Ready && r.IntN(12) == 0
		ends := m.Terminating && (calm || r.IntN(2) == 0)
		if ends && r.IntN(3) > 0 {
			f.Former++ // its pod takes longer
		}
		return taken || ends
	})
	for i, m := range f.Members {
		if !m.Terminating && m.State == Warming && (calm || r.IntN(3) == 0) {
			f.Members[i].State = Ready
		}
	}
	if !calm && r.IntN(15) == 0 { // the template changes again
		for i := range f.Members {
			f.Members[i].Current = false
		}
	}
	if !calm && r.IntN(15) == 0 {
		f.Replicas = 1 + r.IntN(8)
	}
}
