package states

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// randomPool is a pool with up to ten members in any condition.
func randomPool(r *rand.Rand) PoolFacts {
	f := PoolFacts{
		Terminating: r.IntN(20) == 0,
		Replicas:    r.IntN(8),
		Template:    Presences[r.IntN(len(Presences))],
		Strategy:    Strategies[r.IntN(len(Strategies))],
		Budget:      Budget{Unavailable: r.IntN(4), Surge: r.IntN(4), Paused: r.IntN(6) == 0},
		Former:      max(r.IntN(6)-3, 0),

		Handing: max(r.IntN(6)-3, 0),
		Batch:   1 + r.IntN(6),

		LoansKnown:       true,
		TemplateInvalid:  r.IntN(12) == 0,
		CreationsRefused: r.IntN(8) == 0,
	}
	if r.IntN(6) == 0 {
		f.Hold = time.Minute
	}
	if f.Budget.Unavailable == 0 {
		f.Budget.Surge = max(f.Budget.Surge, 1) // with neither, nothing would ever move
	}
	for i := range r.IntN(11) {
		m := Member{
			Name: fmt.Sprint("p", i), State: words[r.IntN(len(words))], Current: r.IntN(2) == 0,
			Refused: r.IntN(5) == 0, Stuck: r.IntN(6) == 0, Terminating: r.IntN(4) == 0, Born: at(r.IntN(4)),
		}
		m.Taken = m.State == Ready && !m.Terminating && r.IntN(4) == 0
		f.Members = append(f.Members, m)
	}
	return f
}

func (f PoolFacts) member(name string) Member {
	return f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == name })]
}

// staying are the members that are not on their way out.
func (f PoolFacts) staying() (all []Member) {
	for _, m := range f.Members {
		if !m.Terminating {
			all = append(all, m)
		}
	}
	return all
}

// kept are the members a plan may go on with: not those that will never start
// and whose template was mended, nor the first that are stuck.
func (f PoolFacts) kept() (all []Member) {
	stuck := f.ending()
	for _, m := range f.staying() {
		mended, hopeless := m.Refused && !m.Current && f.usable(), m.Stuck && m.State != Ready
		if hopeless && !mended {
			stuck++
		}
		if !mended && (!hopeless || stuck > f.allowance()) {
			all = append(all, m)
		}
	}
	return all
}

// allowance is how many may be on their way out when one that is stuck is given up.
func (f PoolFacts) allowance() int { return max(1, f.Replicas/4) }

// ending is how many are on their way out.
func (f PoolFacts) ending() int { return len(f.Members) - len(f.staying()) + f.Former }

// replaces reports whether old members are replaced in some way.
func (f PoolFacts) replaces(how Strategy) bool {
	return f.Strategy == how && f.usable() && (how != Rolling || !f.Budget.Paused)
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

// free counts the members that a claim could take now.
func free(all []Member) (n int) {
	for _, m := range all {
		if m.State == Ready && !m.Taken {
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
func (f PoolFacts) named(p PoolPlan, reason Reason) (all []Member) {
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
	case (a.State == Ready) != (b.State == Ready):
		return b.State == Ready
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
			return !f.Terminating || p.Create == 0 && len(p.Retire) == 0
		},
		"nothing is made without a template": func(f PoolFacts, p PoolPlan) bool {
			return f.usable() || p.Create == 0
		},
		"nothing is made while creations are held": func(f PoolFacts, p PoolPlan) bool {
			return f.Hold == 0 || p.Create == 0
		},
		"holding creations changes nothing else": func(f PoolFacts, p PoolPlan) bool {
			f.Hold = time.Minute - f.Hold
			return slices.Equal(PlanPool(f).Retire, p.Retire)
		},
		"no more are surplus than are to spare": func(f PoolFacts, p PoolPlan) bool {
			return len(f.named(p, ReasonSurplus)) <= max(0, len(f.counting())-f.Replicas)
		},
		"no more are made than are missing": func(f PoolFacts, p PoolPlan) bool {
			return p.Create >= 0 && p.Create <= max(0, f.Replicas-len(f.counting()))
		},
		"no member is made beyond the surge, what is left of former ones included": func(f PoolFacts, p PoolPlan) bool {
			return p.Create == 0 || len(f.Members)+f.Former+p.Create <= f.Replicas+f.Budget.Surge
		},
		"none that is free is given up as stuck": func(f PoolFacts, p PoolPlan) bool {
			return free(f.named(p, ReasonStuck)) == 0
		},
		"none that is stuck is given up when more than a quarter would be on its way out": func(f PoolFacts, p PoolPlan) bool {
			stuck := len(f.named(p, ReasonStuck))
			return stuck == 0 || stuck+f.ending() <= f.allowance()
		},
		"nothing is surplus while some are missing": func(f PoolFacts, p PoolPlan) bool {
			return p.Create == 0 || len(f.named(p, ReasonSurplus)) == 0
		},
		"who is leaving already is never named": func(f PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Retirement) bool { return f.member(l.Name).Terminating })
		},
		"who a claim is taking is never named": func(f PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Retirement) bool { return f.member(l.Name).Taken })
		},
		"what claims are about to be told of is not replaced yet": func(f PoolFacts, p PoolPlan) bool {
			return p.Create <= max(0, f.Replicas-len(f.counting())-f.Handing)
		},
		"while creations are refused one is tried at a time": func(f PoolFacts, p PoolPlan) bool {
			return !f.CreationsRefused || p.Create <= 1
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
			return !slices.ContainsFunc(p.Retire, func(l Retirement) bool {
				return !has(f.Members, func(m Member) bool { return m.Name == l.Name })
			})
		},
		"every leave has a reason that is known": func(_ PoolFacts, p PoolPlan) bool {
			return !slices.ContainsFunc(p.Retire, func(l Retirement) bool {
				return !slices.Contains([]Reason{ReasonSurplus, ReasonOutdated, ReasonStuck}, l.Reason)
			})
		},
		"who leaves as outdated is, and was refused unless old members are replaced": func(f PoolFacts, p PoolPlan) bool {
			return !has(f.named(p, ReasonOutdated), func(m Member) bool {
				return m.Current || !f.usable() || !m.Refused && !f.replaces(Recreate) && !f.replaces(Rolling)
			})
		},
		"who leaves as stuck is": func(f PoolFacts, p PoolPlan) bool {
			return !has(f.named(p, ReasonStuck), func(m Member) bool { return !m.Stuck })
		},
		"of those that are stuck a pass gives up only a few": func(f PoolFacts, p PoolPlan) bool {
			return len(f.named(p, ReasonStuck)) <= f.allowance()
		},
		"a pass makes no more than a batch": func(f PoolFacts, p PoolPlan) bool {
			return p.Create <= f.Batch
		},
		"recreated, every old member that no claim is taking is named": func(f PoolFacts, p PoolPlan) bool {
			stay := has(f.after(p), func(m Member) bool { return !m.Current && !m.Taken })
			return f.Terminating || !f.replaces(Recreate) || !stay
		},
		"rolled, every old member that is not free is named": func(f PoolFacts, p PoolPlan) bool {
			stay := has(f.after(p), func(m Member) bool { return !m.Current && m.State != Ready })
			return f.Terminating || !f.replaces(Rolling) || !stay
		},
		"a rolling update leaves as many free as it must, or as there were": func(f PoolFacts, p PoolPlan) bool {
			least := min(free(f.kept()), f.Replicas-f.Budget.Unavailable)
			return !f.replaces(Rolling) || free(f.after(p)) >= least
		},
		"a rolling update names no free old member while one that is not free stays": func(f PoolFacts, p PoolPlan) bool {
			names := has(f.named(p, ReasonOutdated), func(m Member) bool { return m.State == Ready && !m.Refused })
			stay := has(f.after(p), func(m Member) bool { return !m.Current && m.State != Ready })
			return !f.replaces(Rolling) || !names || !stay
		},
		"paused, a pool goes on as one that keeps its old members": func(f PoolFacts, p PoolPlan) bool {
			keeps := f
			keeps.Strategy = OnReplenish
			with := PlanPool(keeps)
			return f.Strategy != Rolling || !f.Budget.Paused || p.Create == with.Create && slices.Equal(p.Retire, with.Retire)
		},
		"who is surplus is wanted less than everyone who stays, but for those that claims are taking": func(f PoolFacts, p PoolPlan) bool {
			stay := slices.DeleteFunc(f.counting(), func(m Member) bool { return m.Taken || p.names(m.Name) })
			return !has(f.named(p, ReasonSurplus), func(gone Member) bool {
				return has(stay, func(m Member) bool { return !lessWanted(gone, m) })
			})
		},
		"a pool that has what it shall have plans nothing": func(f PoolFacts, p PoolPlan) bool {
			full := len(f.staying()) == f.Replicas && len(f.counting()) == f.Replicas
			return !full || p.Create == 0 && len(p.Retire) == 0
		},
		"a pool that lacks something does something about it, unless it has to wait": func(f PoolFacts, p PoolPlan) bool {
			does := p.Create > 0 || len(p.Retire) > 0
			full := len(f.Members)+f.Former >= f.Replicas+f.Budget.Surge
			waits := f.Terminating || f.Hold > 0 || !f.usable() || f.Strategy == Rolling || full || f.Handing > 0 ||
				has(f.Members, func(m Member) bool { return m.Taken })
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
		f.Terminating, f.Hold, f.Template, f.TemplateInvalid, f.Handing = false, 0, PresenceShown, false, 0
		for i := range f.Members {
			f.Members[i].Taken = false
		}
		for pass := 0; ; pass++ {
			p := PlanPool(f)
			if p.Create == 0 && len(p.Retire) == 0 && f.ending() == 0 {
				break
			}
			if pass > 40 {
				t.Fatalf("seed %d never rests: %+v", seed, p)
			}
			f.Former = 0
			f.Members = slices.DeleteFunc(f.Members, func(m Member) bool { return m.Terminating || p.names(m.Name) })
			for i := range p.Create {
				f.Members = append(f.Members, Member{Name: fmt.Sprint("new", pass, "-", i), Current: true})
			}
			for i := range f.Members {
				f.Members[i].State = Ready
			}
		}
		once(t, len(f.counting()) == f.Replicas && len(f.staying()) == f.Replicas, seed, f)
	}
}

func TestCountPool(t *testing.T) {
	t.Run("every member is counted where it belongs", func(t *testing.T) {
		NewWithT(t).Expect(CountPool(PoolFacts{Former: 2, Members: []Member{
			{Name: "a", State: Ready, Current: true},
			{Name: "b", State: Ready},
			{Name: "c", State: Warming, Current: true},
			{Name: "d", State: Warming, Refused: true},
			{Name: "e", State: Stale, Current: true},
			{Name: "f", State: Ready, Current: true, Refused: true, Terminating: true},
		}})).To(Equal(PoolCount{Replicas: 5, Ready: 2, Warming: 2, Terminating: 3, Updated: 3, UpdatedReady: 1, Refused: 1}))
	})
	t.Run("the numbers agree", func(t *testing.T) {
		for seed := range uint64(2000) {
			f := randomPool(rand.New(rand.NewPCG(seed, 4)))
			c := CountPool(f)
			right := c.Replicas+c.Terminating == len(f.Members)+f.Former && c.Ready+c.Warming <= c.Replicas &&
				c.UpdatedReady <= min(c.Updated, c.Ready) && c.Updated <= c.Replicas && c.Refused <= c.Replicas
			once(t, right, f, c)
		}
	})
}

func TestPlanPool(t *testing.T) {
	ready := func(name string, born int) Member {
		return Member{Name: name, State: Ready, Current: true, Born: at(born)}
	}
	leave := func(reason Reason, names ...string) (all []Retirement) {
		for _, n := range names {
			all = append(all, Retirement{n, reason})
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
		{"a member that leaves is replaced at once", PoolFacts{Replicas: 1, Members: []Member{{Name: "a", Terminating: true}}}, PoolPlan{Create: 1}},
		{"scaled down, the newest goes first", PoolFacts{Replicas: 1, Members: []Member{ready("a", 1), ready("b", 2)}},
			PoolPlan{Retire: leave(ReasonSurplus, "b")}},
		{"scaled down, those that are not ready go before the ready ones",
			PoolFacts{Replicas: 1, Members: []Member{ready("a", 2), {Name: "b", State: Warming, Current: true, Born: at(1)}}},
			PoolPlan{Retire: leave(ReasonSurplus, "b")}},
		{"scaled down, those of an older revision go before the current ones",
			PoolFacts{Replicas: 1, Members: []Member{ready("a", 2), {Name: "b", State: Ready, Born: at(1)}}},
			PoolPlan{Retire: leave(ReasonSurplus, "b")}},
		{"scaled to nothing, all go", PoolFacts{Members: []Member{ready("a", 1), ready("b", 2)}},
			PoolPlan{Retire: leave(ReasonSurplus, "b", "a")}},
		{"an old member stays after a change of the template", PoolFacts{Replicas: 1, Members: []Member{{Name: "a", State: Ready}}}, PoolPlan{}},
		{"a refused member is replaced once its template was mended",
			PoolFacts{Replicas: 1, Members: []Member{{Name: "a", State: Warming, Refused: true}}},
			PoolPlan{Create: 1, Retire: leave(ReasonOutdated, "a")}},
		{"a refused member of the current template stays, so that creation does not run away",
			PoolFacts{Replicas: 1, Members: []Member{{Name: "a", State: Warming, Refused: true, Current: true}}}, PoolPlan{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.facts.Template, row.facts.Batch, row.facts.Budget.Surge = PresenceShown, 10, 1
			NewWithT(t).Expect(PlanPool(row.facts)).To(Equal(row.plan))
		})
	}
	t.Run("a pool without a template makes nothing and still scales down", func(t *testing.T) {
		g := NewWithT(t)
		for _, p := range []Presence{PresenceUnseen, PresenceHidden, PresenceMissing} {
			g.Expect(PlanPool(PoolFacts{Replicas: 3, Template: p, Batch: 10})).To(Equal(PoolPlan{}))
			g.Expect(PlanPool(PoolFacts{Template: p, Batch: 10, Members: []Member{ready("a", 1)}}).Retire).To(HaveLen(1))
		}
	})
	t.Run("a pool that is being deleted rests", func(t *testing.T) {
		NewWithT(t).Expect(PlanPool(PoolFacts{Terminating: true, Replicas: 3, Template: PresenceShown, Batch: 10})).To(Equal(PoolPlan{}))
	})
}

// TestEveryStepOfAPoolEnds follows the steps of random pools through every answer
// that the API server and the shelf can give.
func TestEveryStepOfAPoolEnds(t *testing.T) {
	longest := 0
	for seed := range uint64(3000) {
		f := randomPool(rand.New(rand.NewPCG(seed, 5)))
		f.LoansKnown, f.Handing, f.Batch = false, 0, 20
		for i := range f.Members {
			f.Members[i].Taken = false // the shelf was not asked yet
		}
		longest = max(longest, poolEnds(t, seed, f))
	}
	t.Logf("at most %d effects", longest)
}

// poolEnds follows a pool's step, and returns after how many effects it ends.
func poolEnds(t *testing.T, seed uint64, f PoolFacts, before ...Decision) int {
	t.Helper()
	d := StepPool(f)
	why := incomplete(d)
	switch n := len(before); {
	case why != "" || n > mostEffects:
		t.Fatalf("seed %d: %s: %v: %+v: %+v", seed, why, before, f, d)
	case (d.About.Plan != nil) != (d.Act == Create || d.Act == Retire):
		t.Fatalf("seed %d: a plan is what is carried out: %+v: %+v", seed, f, d)
	case d.Act == AskShelf && f.LoansKnown, d.Act == ReadTemplate && f.Template != PresenceUnseen:
		t.Fatalf("seed %d: that is known already: %+v: %+v", seed, f, d)
	case d.Ends():
		return n
	}
	longest := 0
	for _, then := range afterPool(f, d) {
		longest = max(longest, poolEnds(t, seed, then, append(slices.Clip(before), d)...))
	}
	return longest
}

// afterPool are the facts of a pool after an effect, with every kind of answer.
func afterPool(f PoolFacts, d Decision) (all []PoolFacts) {
	add := func(change func(*PoolFacts)) {
		then := f
		then.Members = slices.Clone(f.Members)
		change(&then)
		all = append(all, then)
	}
	switch d.Act {
	case ReadTemplate:
		for _, p := range []Presence{PresenceShown, PresenceHidden, PresenceMissing} {
			add(func(f *PoolFacts) { f.Template = p })
		}
		add(func(f *PoolFacts) { f.TemplateUnreadable = true })
	case AskShelf:
		for _, handing := range []int{0, 2} {
			for _, taken := range []bool{false, true} {
				add(func(f *PoolFacts) {
					f.LoansKnown, f.Handing = true, handing
					for i, m := range f.Members {
						f.Members[i].Taken = taken && m.State == Ready && !m.Terminating && i%2 == 0
					}
				})
			}
		}
	case Create:
		born := func(f *PoolFacts, n int) {
			for i := range n {
				f.Members = append(f.Members, Member{Name: fmt.Sprint("new", len(f.Members), "-", i), State: Warming, Current: true})
			}
		}
		add(func(f *PoolFacts) { born(f, d.About.Plan.Create); f.CreationsRefused = false })
		add(func(f *PoolFacts) { f.Refused, f.CreationsRefused = true, true })
		add(func(f *PoolFacts) { born(f, d.About.Plan.Create/2); f.Refused, f.CreationsRefused = true, true })
	case Retire:
		named := func(f *PoolFacts, change func(i int, m *Member)) {
			for i := range f.Members {
				if d.About.Plan.names(f.Members[i].Name) {
					change(i, &f.Members[i])
				}
			}
		}
		add(func(f *PoolFacts) { named(f, func(_ int, m *Member) { m.Terminating = true }) })
		add(func(f *PoolFacts) { // a claim has just taken one
			named(f, func(i int, m *Member) { m.Taken = m.State == Ready && i%2 == 0; m.Terminating = !m.Taken })
		})
	case Rest, Wait, Retry, ReadPool, ReadSandbox, ReadClaim, ReadPod, ProveFresh, Move, Report, Annotate, Adopt, Refuse, Delete, Sync, Label:
	}
	return all
}

func TestStepPool(t *testing.T) {
	three := []Member{{Name: "a", State: Ready, Current: true}, {Name: "b", State: Ready, Current: true}, {Name: "c", State: Ready, Current: true}}
	lent := slices.Clone(three)
	lent[2].Taken = true
	shown := PoolFacts{Replicas: 3, Template: PresenceShown, Batch: 10, Budget: Budget{Surge: 1}, Members: three}
	with := func(change func(*PoolFacts)) PoolFacts {
		f := shown
		change(&f)
		return f
	}
	for _, row := range []struct {
		name  string
		facts PoolFacts
		want  Decision
		plan  *PoolPlan
	}{
		{name: "a pool that is gone rests", facts: PoolFacts{Gone: true}, want: rest(ReasonGone)},
		{name: "a pool that is being deleted rests", facts: with(func(f *PoolFacts) { f.Terminating, f.Replicas = true, 9 }), want: rest(ReasonTerminating)},
		{name: "a pool whose template is not shown reads it", facts: with(func(f *PoolFacts) { f.Template = PresenceUnseen }), want: act(ReadTemplate, ReasonTemplateUnseen)},
		{name: "a pool as it shall be rests", facts: shown, want: rest(ReasonAsPlanned)},
		{name: "a pool that lacks members asks the shelf first", facts: with(func(f *PoolFacts) { f.Replicas = 4 }), want: act(AskShelf, ReasonLoanUnknown)},
		{name: "a pool that lacks members makes them", facts: with(func(f *PoolFacts) { f.Replicas, f.LoansKnown = 4, true }),
			want: act(Create, ReasonMembersMissing), plan: &PoolPlan{Create: 1}},
		{name: "a pool replaces an adopted member when its claim was told", facts: with(func(f *PoolFacts) { f.Replicas, f.LoansKnown, f.Handing = 4, true, 1 }),
			want: act(Wait, ReasonAdopting)},
		{name: "a pool with too many gives some up", facts: with(func(f *PoolFacts) { f.Replicas, f.LoansKnown = 2, true }),
			want: act(Retire, ReasonMembersLeave), plan: &PoolPlan{Retire: []Retirement{{"a", ReasonSurplus}}}},
		{name: "a pool whose surplus a claim is taking gives up another", facts: with(func(f *PoolFacts) { f.Replicas, f.LoansKnown, f.Members = 1, true, lent }),
			want: act(Retire, ReasonMembersLeave), plan: &PoolPlan{Retire: []Retirement{{"a", ReasonSurplus}}}},
		{name: "a pool whose only surplus a claim is taking waits for that", facts: with(func(f *PoolFacts) { f.Replicas, f.LoansKnown, f.Members = 2, true, lent }),
			want: act(Wait, ReasonAdopting)},
		{name: "a pool makes what is missing before it gives anything up",
			facts: with(func(f *PoolFacts) {
				f.LoansKnown, f.Strategy, f.Budget.Surge, f.Members = true, Recreate, 3, []Member{{Name: "a", State: Ready}}
			}),
			want: act(Create, ReasonMembersMissing), plan: &PoolPlan{Create: 3, Retire: []Retirement{{"a", ReasonOutdated}}}},
		{name: "a pool whose members were refused still gives up what it must",
			facts: with(func(f *PoolFacts) {
				f.LoansKnown, f.Refused, f.Strategy, f.Budget.Surge, f.Members = true, true, Recreate, 3, []Member{{Name: "a", State: Ready}}
			}),
			want: act(Retire, ReasonMembersLeave), plan: &PoolPlan{Create: 3, Retire: []Retirement{{"a", ReasonOutdated}}}},
		{name: "a pool whose members were refused tries again", facts: with(func(f *PoolFacts) { f.Replicas, f.LoansKnown, f.Refused = 4, true, true }),
			want: act(Retry, ReasonMembersRefused)},
		{name: "a pool whose template cannot be read tries again", facts: with(func(f *PoolFacts) { f.Template, f.TemplateUnreadable, f.Replicas = PresenceUnseen, true, 4 }),
			want: act(Retry, ReasonTemplateUnreadable)},
		{name: "a pool whose template cannot be read still scales down",
			facts: with(func(f *PoolFacts) {
				f.Template, f.TemplateUnreadable, f.Replicas, f.LoansKnown = PresenceUnseen, true, 2, true
			}),
			want: act(Retire, ReasonMembersLeave), plan: &PoolPlan{Retire: []Retirement{{"a", ReasonSurplus}}}},
		{name: "a pool whose template is hidden waits for the watch", facts: with(func(f *PoolFacts) { f.Template = PresenceHidden }), want: act(Wait, ReasonWatchBehind)},
		{name: "a pool without a template rests for that", facts: with(func(f *PoolFacts) { f.Template, f.Replicas = PresenceMissing, 4 }), want: rest(ReasonTemplateMissing)},
		{name: "a pool whose template is of no use rests for that", facts: with(func(f *PoolFacts) { f.TemplateInvalid, f.Replicas = true, 4 }), want: rest(ReasonTemplateInvalid)},
		{name: "a pool whose members end waits before it makes the next", facts: with(func(f *PoolFacts) { f.Replicas, f.Hold = 4, time.Second }), want: rest(ReasonMembersEnd).in(time.Second)},
		{name: "a pool looks again when a member counts as stuck", facts: with(func(f *PoolFacts) { f.StuckIn = time.Minute }), want: rest(ReasonMembersUnready).in(time.Minute)},
		{name: "a pool looks again when the first of the two is over", facts: with(func(f *PoolFacts) { f.StuckIn, f.Hold = time.Second, time.Minute }), want: rest(ReasonMembersUnready).in(time.Second)},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.want.About.Plan = row.plan
			NewWithT(t).Expect(StepPool(row.facts)).To(Equal(row.want))
		})
	}
}
