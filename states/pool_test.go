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
		Strategy: Strategies[r.IntN(len(Strategies))],
		Budget:   Budget{Unavailable: r.IntN(4), Surge: r.IntN(4), Paused: r.IntN(6) == 0},
		Going:    max(r.IntN(6)-3, 0),
		Hold:     r.IntN(6) == 0,
		Batch:    1 + r.IntN(6),
	}
	if f.Budget.Unavailable == 0 {
		f.Budget.Surge = max(f.Budget.Surge, 1) // with neither, nothing would ever move
	}
	for i := range r.IntN(11) {
		f.Members = append(f.Members, Member{
			Name: fmt.Sprint("p", i), Word: words[r.IntN(len(words))], Current: r.IntN(2) == 0,
			Refused: r.IntN(5) == 0, Stuck: r.IntN(6) == 0, Leaving: r.IntN(4) == 0, Born: at(r.IntN(4)),
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

// kept are the members a plan may go on with: not those that will never start
// and whose template was mended, nor the first that are stuck.
func (f PoolFacts) kept() (all []Member) {
	stuck := f.leaving()
	for _, m := range f.staying() {
		mended, hopeless := m.Refused && !m.Current && f.Template == Present, m.Stuck && m.Word != Ready
		if hopeless && !mended {
			stuck++
		}
		if !mended && (!hopeless || stuck > f.patience()) {
			all = append(all, m)
		}
	}
	return all
}

// patience is how many may be on their way out when one that is stuck is given up.
func (f PoolFacts) patience() int { return max(1, f.Replicas/4) }

// leaving is how many are on their way out.
func (f PoolFacts) leaving() int { return len(f.Members) - len(f.staying()) + f.Going }

// replaces reports whether old members are replaced in some way.
func (f PoolFacts) replaces(how Strategy) bool {
	return f.Strategy == how && f.Template == Present && (how != Rolling || !f.Budget.Paused)
}

// counting are the kept members that count for the number a pool shall have:
// while old ones are replaced, only the current ones.
func (f PoolFacts) counting() (all []Member) {
	for _, m := range f.kept() {
		if m.Current || !f.replaces(Recreate) && !f.replaces(Rolling) {
			all = append(all, m)
		}
	}
	return all
}

// free counts the members that a claim could take now, and that are in order.
func free(all []Member) (n int) {
	for _, m := range all {
		if m.Word == Ready {
			n++
		}
	}
	return n
}

// after are the kept members that a plan does not name.
func (f PoolFacts) after(p PoolPlan) []Member {
	return slices.DeleteFunc(f.kept(), func(m Member) bool { return p.names(m.Name) })
}

// named are the members that a plan names for a reason.
func (f PoolFacts) named(p PoolPlan, reason string) (all []Member) {
	for _, l := range p.Retire {
		if l.Reason == reason {
			all = append(all, f.member(l.Name))
		}
	}
	return all
}

// has reports whether a member is in a list for which something is true.
func has(all []Member, what func(Member) bool) bool { return slices.ContainsFunc(all, what) }

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
		"nothing is made while creations are held": func(f PoolFacts, p PoolPlan) bool {
			return !f.Hold || p.Create == 0
		},
		"holding creations changes nothing else": func(f PoolFacts, p PoolPlan) bool {
			f.Hold = !f.Hold
			return slices.Equal(PlanPool(f).Retire, p.Retire)
		},
		"no more are surplus than are to spare": func(f PoolFacts, p PoolPlan) bool {
			return len(f.named(p, Surplus)) <= max(0, len(f.counting())-f.Replicas)
		},
		"no more are made than are missing": func(f PoolFacts, p PoolPlan) bool {
			return p.Create >= 0 && p.Create <= max(0, f.Replicas-len(f.counting()))
		},
		"no member is made beyond the surge, what is left of former ones included": func(f PoolFacts, p PoolPlan) bool {
			return p.Create == 0 || len(f.Members)+f.Going+p.Create <= f.Replicas+f.Budget.Surge
		},
		"none that is free is given up as stuck": func(f PoolFacts, p PoolPlan) bool {
			return free(f.named(p, Stuck)) == 0
		},
		"none that is stuck is given up when more than a quarter would be on its way out": func(f PoolFacts, p PoolPlan) bool {
			stuck := len(f.named(p, Stuck))
			return stuck == 0 || stuck+f.leaving() <= f.patience()
		},
		"nothing is surplus while some are missing": func(f PoolFacts, p PoolPlan) bool {
			return p.Create == 0 || len(f.named(p, Surplus)) == 0
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
		"nobody is named who is not a member": func(f PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Leave) bool {
				return !has(f.Members, func(m Member) bool { return m.Name == l.Name })
			})
		},
		"every leave has a reason that is known": func(_ PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Leave) bool {
				return !slices.Contains([]string{Surplus, Outdated, Stuck}, l.Reason)
			})
		},
		"who leaves as outdated is, and was refused unless old members are replaced": func(f PoolFacts, p PoolPlan) bool {
			return !has(f.named(p, Outdated), func(m Member) bool {
				return m.Current || f.Template != Present || !m.Refused && !f.replaces(Recreate) && !f.replaces(Rolling)
			})
		},
		"who leaves as stuck is": func(f PoolFacts, p PoolPlan) bool {
			return !has(f.named(p, Stuck), func(m Member) bool { return !m.Stuck })
		},
		"of those that are stuck a pass gives up only a few": func(f PoolFacts, p PoolPlan) bool {
			return len(f.named(p, Stuck)) <= f.patience()
		},
		"a pass does no more than a batch": func(f PoolFacts, p PoolPlan) bool {
			return p.Create <= f.Batch && len(p.Retire) <= f.Batch
		},
		"recreated, every old member is named, a batch at a time": func(f PoolFacts, p PoolPlan) bool {
			stay := has(f.after(p), func(m Member) bool { return !m.Current })
			return f.Deleting || !f.replaces(Recreate) || !stay || len(p.Retire) == f.Batch
		},
		"rolled, every old member that is not free is named, a batch at a time": func(f PoolFacts, p PoolPlan) bool {
			stay := has(f.after(p), func(m Member) bool { return !m.Current && m.Word != Ready })
			return f.Deleting || !f.replaces(Rolling) || !stay || len(p.Retire) == f.Batch
		},
		"a rolling update leaves as many free as it must, or as there were": func(f PoolFacts, p PoolPlan) bool {
			least := min(free(f.kept()), f.Replicas-f.Budget.Unavailable)
			return !f.replaces(Rolling) || free(f.after(p)) >= least
		},
		"a rolling update names no free old member while one that is not free stays": func(f PoolFacts, p PoolPlan) bool {
			names := has(f.named(p, Outdated), func(m Member) bool { return m.Word == Ready && !m.Refused })
			stay := has(f.after(p), func(m Member) bool { return !m.Current && m.Word != Ready })
			return !f.replaces(Rolling) || !names || !stay
		},
		"paused, a pool goes on as one that keeps its old members": func(f PoolFacts, p PoolPlan) bool {
			keeps := f
			keeps.Strategy = OnReplenish
			with := PlanPool(keeps)
			return f.Strategy != Rolling || !f.Budget.Paused || p.Create == with.Create && slices.Equal(p.Retire, with.Retire)
		},
		"who is surplus is wanted less than everyone who stays": func(f PoolFacts, p PoolPlan) bool {
			stay := slices.DeleteFunc(f.counting(), func(m Member) bool { return p.names(m.Name) })
			return !has(f.named(p, Surplus), func(gone Member) bool {
				return has(stay, func(m Member) bool { return !lessWanted(gone, m) })
			})
		},
		"a pool that has what it shall have plans nothing": func(f PoolFacts, p PoolPlan) bool {
			full := len(f.staying()) == f.Replicas && len(f.counting()) == f.Replicas
			return !full || p.Create == 0 && len(p.Retire) == 0
		},
		"a pool that lacks something does something about it, unless it has to wait": func(f PoolFacts, p PoolPlan) bool {
			does := p.Create > 0 || len(p.Retire) > 0
			full := len(f.Members)+f.Going >= f.Replicas+f.Budget.Surge
			waits := f.Deleting || f.Hold || f.Template != Present || f.Strategy == Rolling || full
			return waits || len(f.counting()) == f.Replicas || does
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
		f.Deleting, f.Hold, f.Template = false, false, Present
		for pass := 0; ; pass++ {
			p := PlanPool(f)
			if p.Create == 0 && len(p.Retire) == 0 && f.leaving() == 0 {
				break
			}
			if pass > 40 {
				t.Fatalf("seed %d never rests: %+v", seed, p)
			}
			f.Going = 0
			f.Members = slices.DeleteFunc(f.Members, func(m Member) bool { return m.Leaving || p.names(m.Name) })
			for i := range p.Create {
				f.Members = append(f.Members, Member{Name: fmt.Sprint("new", pass, "-", i), Current: true})
			}
			for i := range f.Members {
				f.Members[i].Word = Ready
			}
		}
		once(t, len(f.counting()) == f.Replicas && len(f.staying()) == f.Replicas, seed, f)
	}
}

func TestCountPool(t *testing.T) {
	t.Run("every member is counted where it belongs", func(t *testing.T) {
		NewWithT(t).Expect(CountPool(PoolFacts{Going: 2, Members: []Member{
			{Name: "a", Word: Ready, Current: true},
			{Name: "b", Word: Ready},
			{Name: "c", Word: Warming, Current: true},
			{Name: "d", Word: Warming, Refused: true},
			{Name: "e", Word: Stale, Current: true},
			{Name: "f", Word: Ready, Current: true, Refused: true, Leaving: true},
		}})).To(Equal(PoolCount{Replicas: 5, Ready: 2, Warming: 2, Leaving: 3, Updated: 3, UpdatedReady: 1, Refused: 1}))
	})
	t.Run("the numbers agree", func(t *testing.T) {
		for seed := range uint64(2000) {
			f := randomPool(rand.New(rand.NewPCG(seed, 4)))
			c := CountPool(f)
			right := c.Replicas+c.Leaving == len(f.Members)+f.Going && c.Ready+c.Warming <= c.Replicas &&
				c.UpdatedReady <= min(c.Updated, c.Ready) && c.Updated <= c.Replicas && c.Refused <= c.Replicas
			once(t, right, f, c)
		}
	})
}

func TestPlanPool(t *testing.T) {
	ready := func(name string, born int) Member {
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
		{"a full pool rests", PoolFacts{Replicas: 1, Members: []Member{ready("a", 1)}}, PoolPlan{}},
		{"a member that leaves is replaced at once", PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Leaving: true}}}, PoolPlan{Create: 1}},
		{"scaled down, the newest goes first", PoolFacts{Replicas: 1, Members: []Member{ready("a", 1), ready("b", 2)}},
			PoolPlan{Retire: leave(Surplus, "b")}},
		{"scaled down, those that are not ready go before the ready ones",
			PoolFacts{Replicas: 1, Members: []Member{ready("a", 2), {Name: "b", Word: Warming, Current: true, Born: at(1)}}},
			PoolPlan{Retire: leave(Surplus, "b")}},
		{"scaled down, those of an older revision go before the current ones",
			PoolFacts{Replicas: 1, Members: []Member{ready("a", 2), {Name: "b", Word: Ready, Born: at(1)}}},
			PoolPlan{Retire: leave(Surplus, "b")}},
		{"scaled to nothing, all go", PoolFacts{Members: []Member{ready("a", 1), ready("b", 2)}},
			PoolPlan{Retire: leave(Surplus, "b", "a")}},
		{"an old member stays after a change of the template", PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Word: Ready}}}, PoolPlan{}},
		{"a refused member is replaced once its template was mended",
			PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Word: Warming, Refused: true}}},
			PoolPlan{Create: 1, Retire: leave(Outdated, "a")}},
		{"a refused member of the current template stays, so that creation does not run away",
			PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Word: Warming, Refused: true, Current: true}}}, PoolPlan{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.facts.Template, row.facts.Batch, row.facts.Budget.Surge = Present, 10, 1
			NewWithT(t).Expect(PlanPool(row.facts)).To(Equal(row.plan))
		})
	}
	t.Run("a pool without a template makes nothing and still scales down", func(t *testing.T) {
		g := NewWithT(t)
		for _, p := range []Presence{Unseen, Hidden, Missing} {
			g.Expect(PlanPool(PoolFacts{Replicas: 3, Template: p, Batch: 10})).To(Equal(PoolPlan{}))
			g.Expect(PlanPool(PoolFacts{Template: p, Batch: 10, Members: []Member{ready("a", 1)}}).Retire).To(HaveLen(1))
		}
	})
	t.Run("a pool that is being deleted rests", func(t *testing.T) {
		NewWithT(t).Expect(PlanPool(PoolFacts{Deleting: true, Replicas: 3, Template: Present, Batch: 10})).To(Equal(PoolPlan{}))
	})
}
