package states

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// randomPool is a pool with up to ten members in any condition.
func randomPool(r *rand.Rand) PoolFacts {
	f := PoolFacts{
		Deleting: r.IntN(20) == 0,
		Replicas: r.IntN(8),
		Template: Presences[r.IntN(len(Presences))],
		Batch:    1 + r.IntN(6),
	}
	for i := range r.IntN(11) {
		f.Members = append(f.Members, Member{
			Name: fmt.Sprint("p", i), Word: words[r.IntN(len(words))], Current: r.IntN(2) == 0,
			Refused: r.IntN(5) == 0, Leaving: r.IntN(4) == 0, Born: at(r.IntN(4)),
		})
	}
	return f
}

func (f PoolFacts) member(name string) Member {
	return f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == name })]
}

// staying are the members that are not on their way out.
func (f PoolFacts) staying() (all []Member) {
	for _, m := range f.Members {
		if !m.Leaving {
			all = append(all, m)
		}
	}
	return all
}

// outdated counts those that will never start and whose template was mended.
func (f PoolFacts) outdated() (n int) {
	for _, m := range f.staying() {
		if m.Refused && !m.Current && f.Template == Present {
			n++
		}
	}
	return n
}

func surplusOf(p PoolPlan) (names []string) {
	for _, l := range p.Retire {
		if l.Reason == Surplus {
			names = append(names, l.Name)
		}
	}
	return names
}

// lessWanted says in its own words whom a pool would rather lose.
func lessWanted(a, b Member) bool {
	switch {
	case (a.Word == Ready) != (b.Word == Ready):
		return b.Word == Ready
	case a.Current != b.Current:
		return b.Current
	case !a.Born.Equal(b.Born):
		return a.Born.After(b.Born)
	}
	return a.Name < b.Name
}

func TestWhatNoPoolEverPlans(t *testing.T) {
	for name, right := range map[string]func(f PoolFacts, p PoolPlan) bool{
		"one that is being deleted plans nothing": func(f PoolFacts, p PoolPlan) bool {
			return !f.Deleting || p.Create == 0 && len(p.Retire) == 0
		},
		"nothing is made without a template": func(f PoolFacts, p PoolPlan) bool {
			return f.Template == Present || p.Create == 0
		},
		"no more are surplus than are to spare": func(f PoolFacts, p PoolPlan) bool {
			return len(surplusOf(p)) <= max(0, len(f.staying())-f.outdated()-f.Replicas)
		},
		"no more are made than are missing": func(f PoolFacts, p PoolPlan) bool {
			keep := len(f.staying()) - f.outdated() - len(surplusOf(p))
			return p.Create >= 0 && (p.Create == 0 || p.Create+keep <= f.Replicas)
		},
		"nothing is surplus while some are missing": func(_ PoolFacts, p PoolPlan) bool {
			return p.Create == 0 || len(surplusOf(p)) == 0
		},
		"who is leaving already is never named": func(f PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Leave) bool { return f.member(l.Name).Leaving })
		},
		"nobody is named twice": func(_ PoolFacts, p PoolPlan) bool {
			seen := map[string]bool{}
			for _, l := range p.Retire {
				if seen[l.Name] {
					return false
				}
				seen[l.Name] = true
			}
			return true
		},
		"every leave has a reason that is known": func(_ PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Leave) bool { return l.Reason != Surplus && l.Reason != Outdated })
		},
		"who leaves as outdated was refused, and is": func(f PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Leave) bool {
				m := f.member(l.Name)
				return l.Reason == Outdated && (!m.Refused || m.Current)
			})
		},
		"a pass does no more than a batch": func(f PoolFacts, p PoolPlan) bool {
			return p.Create <= f.Batch && len(p.Retire) <= f.Batch
		},
		"who is surplus is wanted less than everyone who stays": func(f PoolFacts, p PoolPlan) bool {
			gone := map[string]bool{}
			for _, l := range p.Retire {
				gone[l.Name] = true
			}
			for _, name := range surplusOf(p) {
				for _, m := range f.staying() {
					mended := m.Refused && !m.Current && f.Template == Present
					if !gone[m.Name] && !mended && !lessWanted(f.member(name), m) {
						return false
					}
				}
			}
			return true
		},
		"a pool that has what it shall have plans nothing": func(f PoolFacts, p PoolPlan) bool {
			full := len(f.staying()) == f.Replicas && f.outdated() == 0
			return !full || p.Create == 0 && len(p.Retire) == 0
		},
		"a pool that lacks something does something about it": func(f PoolFacts, p PoolPlan) bool {
			keep := len(f.staying()) - f.outdated()
			does := p.Create > 0 || len(p.Retire) > 0
			return f.Deleting || f.Template != Present || keep == f.Replicas || does
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5000) {
				f := randomPool(rand.New(rand.NewPCG(seed, 2)))
				before := slices.Clone(f.Members)
				p := PlanPool(f)
				if !right(f, p) {
					t.Fatalf("seed %d: %+v: %+v", seed, f, p)
				}
				if !slices.Equal(before, f.Members) {
					t.Fatalf("seed %d: the plan changed the facts", seed)
				}
			}
		})
	}
}

// TestAPoolComesToRest carries plans out until nothing is left to do.
func TestAPoolComesToRest(t *testing.T) {
	for seed := range uint64(2000) {
		f := randomPool(rand.New(rand.NewPCG(seed, 3)))
		f.Deleting, f.Template = false, Present
		for pass := 0; ; pass++ {
			p := PlanPool(f)
			if p.Create == 0 && len(p.Retire) == 0 {
				break
			}
			if pass > 40 {
				t.Fatalf("seed %d never rests: %+v", seed, p)
			}
			for _, l := range p.Retire {
				f.Members = slices.DeleteFunc(f.Members, func(m Member) bool { return m.Name == l.Name })
			}
			for i := range p.Create {
				f.Members = append(f.Members, Member{Name: fmt.Sprint("new", pass, "-", i), Word: Warming, Current: true})
			}
		}
		NewWithT(t).Expect(f.staying()).To(HaveLen(f.Replicas), "seed %d", seed)
	}
}

func TestCountPool(t *testing.T) {
	t.Run("every member is counted where it belongs", func(t *testing.T) {
		NewWithT(t).Expect(CountPool(PoolFacts{Members: []Member{
			{Name: "a", Word: Ready, Current: true},
			{Name: "b", Word: Ready},
			{Name: "c", Word: Warming, Current: true},
			{Name: "d", Word: Warming, Refused: true},
			{Name: "e", Word: Stale, Current: true},
			{Name: "f", Word: Ready, Current: true, Refused: true, Leaving: true},
		}})).To(Equal(PoolCount{Replicas: 5, Ready: 2, Warming: 2, Leaving: 1, Updated: 3, UpdatedReady: 1, Refused: 1}))
	})
	t.Run("the numbers agree", func(t *testing.T) {
		for seed := range uint64(2000) {
			f := randomPool(rand.New(rand.NewPCG(seed, 4)))
			c := CountPool(f)
			right := c.Replicas+c.Leaving == len(f.Members) && c.Ready+c.Warming <= c.Replicas &&
				c.UpdatedReady <= min(c.Updated, c.Ready) && c.Updated <= c.Replicas && c.Refused <= c.Replicas
			once(t, right, f, c)
		}
	})
}

func TestPlanPool(t *testing.T) {
	free := func(name string, born int) Member {
		return Member{Name: name, Word: Ready, Current: true, Born: at(born)}
	}
	leave := func(reason string, names ...string) (all []Leave) {
		for _, n := range names {
			all = append(all, Leave{n, reason})
		}
		return all
	}
	for _, row := range []struct {
		name  string
		facts PoolFacts
		plan  PoolPlan
	}{
		{"an empty pool fills up", PoolFacts{Replicas: 3}, PoolPlan{Create: 3}},
		{"a pool fills up a batch at a time", PoolFacts{Replicas: 300}, PoolPlan{Create: 10}},
		{"a full pool rests", PoolFacts{Replicas: 1, Members: []Member{free("a", 1)}}, PoolPlan{}},
		{"a member that leaves is replaced at once", PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Leaving: true}}}, PoolPlan{Create: 1}},
		{"scaled down, the newest goes first", PoolFacts{Replicas: 1, Members: []Member{free("a", 1), free("b", 2)}},
			PoolPlan{Retire: leave(Surplus, "b")}},
		{"scaled down, those that are not ready go before the ready ones",
			PoolFacts{Replicas: 1, Members: []Member{free("a", 2), {Name: "b", Word: Warming, Current: true, Born: at(1)}}},
			PoolPlan{Retire: leave(Surplus, "b")}},
		{"scaled down, those of an older revision go before the current ones",
			PoolFacts{Replicas: 1, Members: []Member{free("a", 2), {Name: "b", Word: Ready, Born: at(1)}}},
			PoolPlan{Retire: leave(Surplus, "b")}},
		{"scaled to nothing, all go", PoolFacts{Members: []Member{free("a", 1), free("b", 2)}},
			PoolPlan{Retire: leave(Surplus, "b", "a")}},
		{"an old member stays after a change of the template", PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Word: Ready}}}, PoolPlan{}},
		{"a refused member is replaced once its template was mended",
			PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Word: Warming, Refused: true}}},
			PoolPlan{Create: 1, Retire: leave(Outdated, "a")}},
		{"a refused member of the current template stays, so that creation does not run away",
			PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Word: Warming, Refused: true, Current: true}}}, PoolPlan{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.facts.Template, row.facts.Batch = Present, 10
			NewWithT(t).Expect(PlanPool(row.facts)).To(Equal(row.plan))
		})
	}
	t.Run("a pool without a template makes nothing and still scales down", func(t *testing.T) {
		g := NewWithT(t)
		for _, p := range []Presence{Unseen, Hidden, Missing} {
			g.Expect(PlanPool(PoolFacts{Replicas: 3, Template: p, Batch: 10})).To(Equal(PoolPlan{}))
			g.Expect(PlanPool(PoolFacts{Template: p, Batch: 10, Members: []Member{free("a", 1)}}).Retire).To(HaveLen(1))
		}
	})
	t.Run("a pool that is being deleted rests", func(t *testing.T) {
		NewWithT(t).Expect(PlanPool(PoolFacts{Deleting: true, Replicas: 3, Template: Present, Batch: 10})).To(Equal(PoolPlan{}))
	})
}
