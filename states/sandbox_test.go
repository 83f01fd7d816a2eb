package states

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// pauses are a hush and a wait each: either longer than the other.
var pauses = [][2]time.Duration{{0, 0}, {0, time.Second}, {time.Second, 0}, {time.Second, time.Minute}, {time.Minute, time.Second}}

// eachSandbox calls test with every value of the facts of a sandbox.
func eachSandbox(test func(f SandboxFacts)) {
	for _, holder := range Holders {
		for _, pod := range PodViews {
			for _, word := range words {
				for flags := range 1 << 6 {
					on := func(bit int) bool { return flags&(1<<bit) != 0 }
					for _, pause := range pauses {
						test(SandboxFacts{
							Deleting: on(0), Retired: on(1), Halted: on(2), Warm: on(3), Told: on(4), Due: on(5),
							Holder: holder, Pod: pod, Word: word, Hush: pause[0], Wait: pause[1],
						})
					}
				}
			}
		}
	}
}

// judged checks what is true of every decision, whatever it is about.
func judged(g *WithT, c Chart, from State, d Decision, facts any) {
	g.Expect(d.Reason).NotTo(BeEmpty(), "%+v", facts)
	g.Expect(d.After).To(BeNumerically(">=", 0), "%+v", facts)
	g.Expect(d.Rests()).To(Equal(d.Act == Rest))
	if d.Act != Move {
		g.Expect(d.Event).To(BeEmpty(), "%+v: %+v", facts, d)
		return
	}
	_, err := c.Judge(from, d.Event)
	g.Expect(err).NotTo(HaveOccurred(), "%+v: %+v", facts, d)
}

// once keeps a test of many thousand values quick: gomega is asked only about
// those that are wrong.
func once(t *testing.T, right bool, facts any, d any) {
	t.Helper()
	if !right {
		t.Fatalf("%+v: %+v", facts, d)
	}
}

func TestEverySandboxIsDecided(t *testing.T) {
	g := NewWithT(t)
	taken := map[Edge]bool{}
	legal := map[[2]string]bool{}
	eachSandbox(func(f SandboxFacts) {
		d := StepSandbox(f)
		once(t, d.Reason != "" && d.After >= 0 && (d.Act == Move || d.Event == ""), f, d)
		if d.Act != Move {
			return
		}
		pair := [2]string{string(f.Word), string(d.Event)}
		if !legal[pair] {
			judged(g, Pod, f.Word, d, f)
			legal[pair] = true
		}
		edge, _ := Pod.Edge(f.Word, d.Event)
		taken[edge] = true
	})
	for _, e := range Pod.Edges {
		g.Expect(taken[e]).To(BeTrue(), "no facts make a pod go from %s to %s by %s", e.From, e.To, e.Event)
	}
}

func TestWhatNoSandboxEverDoes(t *testing.T) {
	for name, right := range map[string]func(f SandboxFacts, d Decision) bool{
		"one that is being deleted does nothing": func(f SandboxFacts, d Decision) bool {
			return !f.Deleting || d == Decision{Reason: d.Reason}
		},
		"one that its pool, its claim, its user or a vanished claim holds is never retired": func(f SandboxFacts, d Decision) bool {
			return d.Act != Retire || f.Holder == ByTwin
		},
		"nothing is deleted that was not retired before": func(f SandboxFacts, d Decision) bool {
			return d.Act != Delete || f.Retired
		},
		"a retired one is deleted only when its pod says so, or has no word to say": func(f SandboxFacts, d Decision) bool {
			return d.Act != Delete || !f.owns() || f.Word == Stale || f.Word == Bound
		},
		"a retired one only leaves": func(f SandboxFacts, d Decision) bool {
			leaves := d.Act == Delete || d.Event == Retired || d.Event == Released
			return !f.Retired || f.Deleting || leaves
		},
		"the retired event needs a retired sandbox": func(f SandboxFacts, d Decision) bool {
			return d.Event != Retired || f.Retired
		},
		"a claim that is unseen is asked about before anything happens": func(f SandboxFacts, d Decision) bool {
			return f.Holder != ByUnseen || f.Deleting || f.Retired || d.Act == Check
		},
		"nothing else is asked about": func(f SandboxFacts, d Decision) bool {
			return d.Act != Check || f.Holder == ByUnseen
		},
		"a sandbox adopts nothing": func(_ SandboxFacts, d Decision) bool { return d.Act != Adopt },
		"a pod is made only where there is none": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || f.Pod == NoPod && !f.Halted && !f.Retired
		},
		"no pod is made for a claim that vanished": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || f.Holder != ByGhost
		},
		"the word of a pod that is somebody else's, or of one among many, is left alone": func(f SandboxFacts, d Decision) bool {
			return d.Act != Move || f.owns()
		},
		"a pod becomes free only in a pool, and only when it is Ready": func(f SandboxFacts, d Decision) bool {
			return d.Event != Warmed || f.Holder == ByPool && f.Pod == PodReady
		},
		"a pod is confirmed only when its claim knows": func(f SandboxFacts, d Decision) bool {
			return d.Event != Confirmed || f.Told && f.Holder == ByClaim
		},
		"a pod is reserved only for a claim that took it": func(f SandboxFacts, d Decision) bool {
			return d.Event != Reserved || f.Holder == ByClaim || f.Holder == ByGhost
		},
		"a pod is handed over only when it is Ready, and to no pool": func(f SandboxFacts, d Decision) bool {
			return d.Event != Handed || f.Pod == PodReady && (f.Holder == ByClaim || f.Holder == ByNobody)
		},
		"a bound pod stays bound": func(f SandboxFacts, d Decision) bool {
			return f.Word != Bound || d.Act != Move
		},
		"a status that is due is told, now or when the hush is over": func(f SandboxFacts, d Decision) bool {
			return !f.Due || f.Deleting || f.Retired || d.Act != Rest || d.After > 0 && d.After <= f.Hush
		},
		"a status that is not due is not told": func(f SandboxFacts, d Decision) bool {
			return f.Due || d.Act != Report
		},
		"no pod is made before its wait is over": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || f.Wait <= 0
		},
		"a pod that has to wait is looked after in time": func(f SandboxFacts, d Decision) bool {
			return !f.lacksPod() || d.Act != Rest || d.After > 0 && d.After <= f.Wait
		},
		"nobody looks again but for a status or a pod that is still to come": func(f SandboxFacts, d Decision) bool {
			return d.After == 0 || f.Due && d.After == f.Hush || f.lacksPod() && d.After == f.Wait
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSandbox(func(f SandboxFacts) {
				d := StepSandbox(f)
				once(t, right(f, d), f, d)
			})
		})
	}
}

// TestNoSandboxCircles follows each sandbox along its own moves: a pod that
// nothing happens to comes to rest within as many steps as the chart has edges.
func TestNoSandboxCircles(t *testing.T) {
	eachSandbox(func(f SandboxFacts) {
		was := f
		for range Pod.Edges {
			d := StepSandbox(f)
			if d.Act != Move {
				return
			}
			edge, _ := Pod.Edge(f.Word, d.Event)
			f.Word = edge.To
		}
		t.Fatalf("%+v never rests", was)
	})
}

// lacksPod reports whether a sandbox shall have a pod and has none.
func (f SandboxFacts) lacksPod() bool {
	shall := !f.Deleting && !f.Retired && !f.Halted && f.Holder != ByGhost && f.Holder != ByTwin && f.Holder != ByUnseen
	return shall && f.Pod == NoPod
}

// member is a sandbox of a pool, with a pod and its word.
func member(word State, pod PodView) SandboxFacts {
	return SandboxFacts{Holder: ByPool, Warm: true, Pod: pod, Word: word}
}

func (f SandboxFacts) heldBy(h Holder) SandboxFacts { f.Holder = h; return f }
func (f SandboxFacts) told() SandboxFacts           { f.Told = true; return f }
func (f SandboxFacts) retired() SandboxFacts        { f.Retired = true; return f }
func (f SandboxFacts) waits() SandboxFacts          { f.Wait = time.Minute; return f }
func (f SandboxFacts) due(hush time.Duration) SandboxFacts {
	f.Due, f.Hush = true, hush
	return f
}

// own is a sandbox that was made for one claim.
func own(word State, pod PodView) SandboxFacts {
	return SandboxFacts{Holder: ByClaim, Pod: pod, Word: word}
}

func TestStepSandbox(t *testing.T) {
	for _, row := range []struct {
		name  string
		facts SandboxFacts
		act   Act
		event Event
		after time.Duration
	}{
		{name: "a new member gets its pod", facts: member(Warming, NoPod), act: Create},
		{name: "a member whose pod is starting waits for it", facts: member(Warming, PodStarting)},
		{name: "a member whose pod became Ready is free", facts: member(Warming, PodReady), act: Move, event: Warmed},
		{name: "a free member rests", facts: member(Ready, PodReady)},
		{name: "a free member that lost readiness is not free", facts: member(Ready, PodStarting), act: Move, event: Cooled},
		{name: "a free member whose pod is being deleted is not free", facts: member(Ready, PodLeaving), act: Move, event: Cooled},
		{name: "a member whose pod vanished gets another one", facts: member(Ready, NoPod), act: Create},
		{name: "a member whose pod is leaving waits until it is gone", facts: member(Warming, PodLeaving)},
		{name: "a member whose pods vanished too often waits with the next", facts: member(Warming, NoPod).waits(), after: time.Minute},
		{name: "a member that waits with the next pod says so first", facts: member(Warming, NoPod).waits().due(0), act: Report},
		{name: "a member that waits with the next pod says so when its hush is over, if that is sooner", facts: member(Warming, NoPod).waits().due(time.Second), after: time.Second},
		{name: "a wait holds up no pod that is there", facts: member(Warming, PodReady).waits(), act: Move, event: Warmed},
		{name: "a claim's own sandbox waits with the next pod, too", facts: own(Warming, NoPod).waits(), after: time.Minute},
		{name: "a retired member does not wait for a pod", facts: member(Warming, NoPod).waits().retired(), act: Delete},
		{name: "a suspended sandbox does not wait for a pod", facts: SandboxFacts{Halted: true}.waits()},
		{name: "a ghost does not wait for a pod", facts: member(Warming, NoPod).heldBy(ByGhost).waits()},
		{name: "a retired member says so on its pod first", facts: member(Ready, PodReady).retired(), act: Move, event: Retired},
		{name: "a retired member that never was Ready says so too", facts: member(Warming, PodStarting).retired(), act: Move, event: Retired},
		{name: "a retired member that said so is deleted", facts: member(Stale, PodReady).retired(), act: Delete},
		{name: "a retired member without a pod is deleted", facts: member(Warming, NoPod).retired(), act: Delete},

		{name: "an adopted member is reserved", facts: member(Ready, PodReady).heldBy(ByClaim), act: Move, event: Reserved},
		{name: "an adopted member is reserved also when it lost readiness", facts: member(Warming, PodStarting).heldBy(ByClaim), act: Move, event: Reserved},
		{name: "an adopted member is reserved although its claim knows already", facts: member(Ready, PodReady).heldBy(ByClaim).told(), act: Move, event: Reserved},
		{name: "a reserved member waits until its claim knows", facts: member(Binding, PodReady).heldBy(ByClaim)},
		{name: "a reserved member whose claim knows is bound", facts: member(Binding, PodReady).heldBy(ByClaim).told(), act: Move, event: Confirmed},
		{name: "a reserved member whose claim knows is bound although it is not Ready now", facts: member(Binding, PodStarting).heldBy(ByClaim).told(), act: Move, event: Confirmed},
		{name: "a bound member that lost readiness stays bound", facts: member(Bound, PodStarting).heldBy(ByClaim).told()},
		{name: "a bound member whose pod vanished gets another one", facts: member(Warming, NoPod).heldBy(ByClaim).told(), act: Create},
		{name: "that other pod waits to become Ready", facts: member(Warming, PodStarting).heldBy(ByClaim).told()},
		{name: "that other pod is the claim's at once", facts: member(Warming, PodReady).heldBy(ByClaim).told(), act: Move, event: Handed},

		{name: "a claim's own sandbox gets its pod", facts: own(Warming, NoPod), act: Create},
		{name: "a claim's own sandbox starts", facts: own(Warming, PodStarting)},
		{name: "a claim's own sandbox is handed over when it is Ready", facts: own(Warming, PodReady), act: Move, event: Handed},

		{name: "a sandbox that a user made gets its pod", facts: own(Warming, NoPod).heldBy(ByNobody), act: Create},
		{name: "a sandbox that a user made is its own when Ready", facts: own(Warming, PodReady).heldBy(ByNobody), act: Move, event: Handed},
		{name: "a sandbox that a user made is left alone from then on", facts: own(Bound, PodStarting).heldBy(ByNobody)},
		{name: "a suspended sandbox gets no pod", facts: SandboxFacts{Halted: true}},
		{name: "a suspended sandbox says so", facts: SandboxFacts{Halted: true}.due(0), act: Report},

		{name: "a sandbox whose claim is unseen asks about it", facts: member(Ready, PodReady).heldBy(ByUnseen), act: Check},
		{name: "a ghost's free pod is reserved first", facts: member(Ready, PodReady).heldBy(ByGhost), act: Move, event: Reserved},
		{name: "a ghost's reserved pod is released", facts: member(Binding, PodReady).heldBy(ByGhost), act: Move, event: Released},
		{name: "a ghost's bound pod waits for the garbage collector", facts: member(Bound, PodReady).heldBy(ByGhost)},
		{name: "a ghost without a pod gets none", facts: member(Warming, NoPod).heldBy(ByGhost)},

		{name: "a twin is retired", facts: member(Ready, PodReady).heldBy(ByTwin), act: Retire},
		{name: "a retired twin that was reserved is released", facts: member(Binding, PodReady).heldBy(ByTwin).retired(), act: Move, event: Released},
		{name: "a retired twin that was never reserved is retired", facts: member(Ready, PodReady).heldBy(ByTwin).retired(), act: Move, event: Retired},
		{name: "a retired twin whose pod is bound is deleted", facts: own(Bound, PodReady).heldBy(ByTwin).retired(), act: Delete},

		{name: "a pod of somebody else's is left alone", facts: member(Warming, PodForeign)},
		{name: "many pods are left alone", facts: member(Warming, PodMany)},
		{name: "many pods are said in the status", facts: member(Warming, PodMany).due(0), act: Report},

		{name: "a launch that goes well is told when it is over", facts: member(Warming, PodStarting).due(time.Minute), after: time.Minute},
		{name: "a launch that takes long is told", facts: member(Warming, PodStarting).due(0), act: Report},
		{name: "a hush does not hold up the word", facts: member(Warming, PodReady).due(time.Minute), act: Move, event: Warmed},
		{name: "the status goes before the word when it is due", facts: member(Warming, PodReady).due(0), act: Report},
		{name: "a deleted sandbox is left to the garbage collector", facts: SandboxFacts{Deleting: true, Retired: true, Word: Ready, Pod: PodReady}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			d := StepSandbox(row.facts)
			judged(g, Pod, row.facts.Word, d, row.facts)
			g.Expect(d).To(Equal(Decision{Act: row.act, Event: row.event, After: row.after, Reason: d.Reason}))
		})
	}
}

func TestTheListsAreComplete(t *testing.T) {
	for name, list := range map[string][]uint8{
		"holders": numbers(Holders), "pod views": numbers(PodViews), "presences": numbers(Presences),
		"holdings": numbers(Holdings), "offers": numbers(Offers), "views": numbers(Views), "strategies": numbers(Strategies),
	} {
		t.Run(name, func(t *testing.T) {
			for i, n := range list {
				NewWithT(t).Expect(n).To(Equal(uint8(i)), "a value is missing or twice in the list")
			}
		})
	}
	t.Run("every act has a name of its own", func(t *testing.T) {
		var names []string
		for a := Rest; a <= Delete; a++ {
			names = append(names, a.String())
		}
		slices.Sort(names)
		NewWithT(t).Expect(slices.Compact(slices.Clone(names))).To(Equal(names))
	})
}

func numbers[E ~uint8](list []E) []uint8 {
	var out []uint8
	for _, e := range list {
		out = append(out, uint8(e))
	}
	return out
}
