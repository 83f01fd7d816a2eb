package states

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// patience is how long the claims of these tests wait in line.
const patience = 10 * time.Second

// waits are representative: not at all, silently, in the open, too long.
var waits = []time.Duration{0, Quiet / 2, Quiet, 5 * time.Second, patience, time.Hour}

// eachClaim calls test with every value of the facts of a claim.
func eachClaim(test func(f ClaimFacts)) {
	for _, state := range words {
		for _, holds := range Holdings {
			for _, sandbox := range Presences {
				for _, pool := range Presences {
					for _, template := range Presences {
						for _, offer := range Offers {
							for _, waited := range waits {
								for flags := range 1 << 6 {
									on := func(bit int) bool { return flags&(1<<bit) != 0 }
									f := ClaimFacts{
										State: state, Holds: holds, Sandbox: sandbox, Pool: pool, Template: template,
										Offer: offer, Waited: waited, Patience: patience,
										Deleting: on(0), Invalid: on(1), Told: on(2), Own: on(3), Due: on(4), Misnoted: on(5),
									}
									test(f)
									if waited == 0 && !f.Misnoted { // strictness has nothing to do with waiting, nor with notes
										strictly(f, test)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// strictly calls test with every value of the facts that count for a strict pool.
func strictly(f ClaimFacts, test func(ClaimFacts)) {
	f.Strict = true
	for _, f.View = range Views {
		for _, f.Outdated = range []bool{false, true} {
			test(f)
		}
	}
}

// byClock are the edges that no facts lead to: the clock's own, written when a
// claim's lifetime is over.
var byClock = []Event{ClaimExpired}

// possible reports whether facts can be gathered: a claim never carries the word
// ready, for Parse does not read it.
func (f ClaimFacts) possible() bool { return f.State != Ready }

func TestEveryClaimIsDecided(t *testing.T) {
	g := NewWithT(t)
	taken := map[Edge]bool{}
	legal := map[[2]string]bool{}
	eachClaim(func(f ClaimFacts) {
		if !f.possible() {
			return
		}
		d := StepClaim(f)
		once(t, d.Reason != "" && d.After >= 0 && (d.Act == Move || d.Event == ""), f, d)
		if d.Act != Move {
			return
		}
		pair := [2]string{string(f.State), string(d.Event)}
		if !legal[pair] {
			judged(g, Claim, f.State, d, f)
			legal[pair] = true
		}
		edge, _ := Claim.Edge(f.State, d.Event)
		taken[edge] = true
	})
	for _, e := range Claim.Edges {
		g.Expect(taken[e]).To(Equal(!slices.Contains(byClock, e.Event)), "do facts make a claim go from %s to %s by %s?", e.From, e.To, e.Event)
	}
}

func TestWhatNoClaimEverDoes(t *testing.T) {
	never := map[string]func(f ClaimFacts, d Decision) bool{
		"one that is being deleted does nothing": func(f ClaimFacts, d Decision) bool {
			return !f.Deleting || d == Decision{Reason: d.Reason}
		},
		"one that is stale does nothing": func(f ClaimFacts, d Decision) bool {
			return f.State != Stale || d == Decision{Reason: d.Reason}
		},
		"a note is written only for a claim that was told, and when nothing else is left to say": func(f ClaimFacts, d Decision) bool {
			return d.Act != Note || f.Misnoted && !f.Due && f.Holds != HoldsNone && f.State != Binding
		},
		"a claim deletes nothing": func(_ ClaimFacts, d Decision) bool {
			return d.Act != Delete
		},
		"a claim retires nothing": func(_ ClaimFacts, d Decision) bool {
			return d.Act != Retire
		},
		"a strict claim takes nothing while the watch is known to be behind": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || !f.Strict || f.View != Behind
		},
		"a strict claim is told only of what is proven to be current, once it was taken from a pool": func(f ClaimFacts, d Decision) bool {
			fresh := f.View == Proven && !f.Outdated
			return d.Event != ClaimBound || !f.Strict || f.Told || f.Holds != HoldsWarm || f.State != Binding || fresh
		},
		"a sandbox is refused only when it is proven to be outdated, and the claim was told nothing": func(f ClaimFacts, d Decision) bool {
			old := f.Strict && f.View == Proven && f.Outdated
			return d.Act != Refuse || old && f.Holds == HoldsWarm && !f.Told && f.State == Binding
		},
		"a strict claim's own sandbox is made only from a template that is proven to be the newest": func(f ClaimFacts, d Decision) bool {
			return d.Act != Create || !f.Strict || f.View == Proven
		},
		"a sandbox is adopted only when the shelf gave one, for a claim that holds none and was told of none": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || f.Offer == Taken && f.Holds == HoldsNone && !f.Told && f.State == Binding
		},
		"a sandbox is adopted only for a claim that asks": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || f.Asks()
		},
		"a claim that was told of a sandbox never gets another one": func(f ClaimFacts, d Decision) bool {
			return !f.Told || d.Act != Adopt && d.Act != Create
		},
		"a claim that has its word never gets another sandbox, even if its status was emptied by hand": func(f ClaimFacts, d Decision) bool {
			return f.State == Binding || d.Act != Adopt && d.Act != Create
		},
		"a claim that holds a sandbox never gets another one": func(f ClaimFacts, d Decision) bool {
			return f.Holds == HoldsNone || d.Act != Adopt && d.Act != Create
		},
		"a claim that can not be served gets no sandbox": func(f ClaimFacts, d Decision) bool {
			return !f.Invalid || d.Act != Adopt && d.Act != Create
		},
		"a claim that must have its own sandbox takes no other": func(f ClaimFacts, d Decision) bool {
			return !f.Own || d.Act != Adopt
		},
		"a sandbox is lost only when the API server says so": func(f ClaimFacts, d Decision) bool {
			return d.Event != ClaimLost || f.Sandbox == Missing && f.Holds == HoldsNone
		},
		"a claim is bound only to what it holds": func(f ClaimFacts, d Decision) bool {
			return d.Event != ClaimBound || f.Holds == HoldsWarm || f.Holds == HoldsReady
		},
		"a claim is warming only while its own sandbox starts": func(f ClaimFacts, d Decision) bool {
			return d.Event != ClaimCold || f.Holds == HoldsStarting
		},
		"a sandbox is made only where pool and template are known": func(f ClaimFacts, d Decision) bool {
			return d.Act != Create || f.Pool == Present && f.Template == Present
		},
		"a sandbox is made only when there is nothing to take and no patience left to wait": func(f ClaimFacts, d Decision) bool {
			return d.Act != Create || f.Own || f.Offer != Taken && (f.Offer != InLine || f.Waited >= f.Patience)
		},
		"nothing is asked about that is not unseen": func(f ClaimFacts, d Decision) bool {
			return d.Act != Check || f.Sandbox == Unseen || f.Pool == Unseen || f.Template == Unseen || f.Strict && f.View == Unproven
		},
		"a status that does not differ is not written": func(f ClaimFacts, d Decision) bool {
			return d.Act != Report || f.Due
		},
		"only one that waits in line looks again by the clock, and in time": func(f ClaimFacts, d Decision) bool {
			return d.After == 0 || f.Offer == InLine && d.After <= f.Patience-f.Waited
		},
		"one that waits in line always looks again before its patience ends": func(f ClaimFacts, d Decision) bool {
			waits := f.Asks() && f.Offer == InLine && f.Waited < f.Patience
			return !waits || d.After > 0
		},
		"one that waits keeps silent at first": func(f ClaimFacts, d Decision) bool {
			silent := f.Asks() && f.Offer == InLine && f.Waited < Quiet
			return !silent || d.Act == Rest
		},
	}
	wrong := map[string]string{}
	eachClaim(func(f ClaimFacts) {
		if !f.possible() {
			return
		}
		d := StepClaim(f)
		for name, right := range never {
			if !right(f, d) {
				wrong[name] = fmt.Sprintf("%+v: %+v", f, d)
			}
		}
	})
	for name := range never {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(wrong[name]).To(BeEmpty()) })
	}
}

// TestTheShelfIsAskedWhenItMatters holds Asks to its word: whoever is not told
// to ask gets the same answer whatever the shelf would say, and whoever is told
// to gets one that the shelf decides.
func TestTheShelfIsAskedWhenItMatters(t *testing.T) {
	eachClaim(func(f ClaimFacts) {
		if !f.possible() || f.Offer != NotAsked {
			return
		}
		asked := map[Offer]Decision{}
		for _, o := range Offers {
			with := f
			with.Offer = o
			asked[o] = StepClaim(with)
		}
		if f.Asks() {
			once(t, (asked[Taken].Act == Adopt) == (!f.Strict || f.View != Behind), f, asked[Taken])
			once(t, asked[Bare].Act != Adopt, f, asked[Bare])
			known := f.Template == Present && (!f.Strict || f.View == Proven)
			once(t, !known || asked[Bare].Act == Create, f, asked[Bare])
			once(t, asked[NotAsked] == asked[Bare], f, asked)
			return
		}
		for _, o := range Offers {
			once(t, asked[o] == asked[NotAsked], f, asked)
		}
	})
}

// served is a claim whose pool and template are there.
func served() ClaimFacts {
	return ClaimFacts{State: Binding, Pool: Present, Template: Present, Patience: patience, Due: true}
}

func (f ClaimFacts) in(s State) ClaimFacts            { f.State = s; return f }
func (f ClaimFacts) offered(o Offer) ClaimFacts       { f.Offer = o; return f }
func (f ClaimFacts) holding(h Holding) ClaimFacts     { f.Holds = h; return f }
func (f ClaimFacts) toldOf(p Presence) ClaimFacts     { f.Told, f.Sandbox = true, p; return f }
func (f ClaimFacts) ofPool(p Presence) ClaimFacts     { f.Pool = p; return f }
func (f ClaimFacts) from(p Presence) ClaimFacts       { f.Template = p; return f }
func (f ClaimFacts) after(d time.Duration) ClaimFacts { f.Offer, f.Waited = InLine, d; return f }
func (f ClaimFacts) said() ClaimFacts                 { f.Due = false; return f }
func (f ClaimFacts) needsOwn() ClaimFacts             { f.Own = true; return f }
func (f ClaimFacts) invalid() ClaimFacts              { f.Invalid = true; return f }
func (f ClaimFacts) strict(v View) ClaimFacts         { f.Strict, f.View = true, v; return f }
func (f ClaimFacts) outdated() ClaimFacts             { f.Outdated = true; return f }

func TestStepClaim(t *testing.T) {
	for _, row := range []struct {
		name  string
		facts ClaimFacts
		act   Act
		event Event
		after time.Duration
	}{
		{name: "a claim takes the warm sandbox it is offered", facts: served().offered(Taken), act: Adopt},
		{name: "a claim that took a warm sandbox is bound", facts: served().holding(HoldsWarm), act: Move, event: ClaimBound},
		{name: "a bound claim whose sandbox changed says so", facts: served().in(Bound).toldOf(Unseen).holding(HoldsWarm), act: Report},
		{name: "a bound claim whose sandbox did not change rests", facts: served().in(Bound).toldOf(Unseen).holding(HoldsWarm).said()},

		{name: "a claim for which nothing is warm gets its own sandbox", facts: served().offered(Bare), act: Create},
		{name: "a claim whose own sandbox starts is warming", facts: served().holding(HoldsStarting), act: Move, event: ClaimCold},
		{name: "a claim whose own sandbox is Ready at once is bound at once", facts: served().holding(HoldsReady), act: Move, event: ClaimBound},
		{name: "a warming claim waits for its own sandbox", facts: served().in(Warming).toldOf(Unseen).holding(HoldsStarting).said()},
		{name: "a warming claim says what its own sandbox waits for", facts: served().in(Warming).toldOf(Unseen).holding(HoldsStarting), act: Report},
		{name: "a warming claim whose own sandbox is Ready is bound", facts: served().in(Warming).toldOf(Unseen).holding(HoldsReady), act: Move, event: ClaimBound},
		{name: "a bound claim whose own sandbox is not Ready now stays bound", facts: served().in(Bound).toldOf(Unseen).holding(HoldsStarting).said()},
		{name: "a claim that changes the blueprint never asks the shelf", facts: served().needsOwn(), act: Create},

		{name: "a claim waits silently at first", facts: served().after(0), after: Quiet},
		{name: "a claim that waited a while says what for", facts: served().after(Quiet), act: Report, after: patience - Quiet},
		{name: "a claim that said what for waits on", facts: served().after(2 * time.Second).said(), after: patience - 2*time.Second},
		{name: "a claim out of patience gets its own sandbox", facts: served().after(patience), act: Create},

		{name: "a claim whose sandbox is not shown asks about it", facts: served().in(Bound).toldOf(Unseen), act: Check},
		{name: "a claim whose sandbox is hidden waits for the watch", facts: served().in(Bound).toldOf(Hidden)},
		{name: "a claim whose sandbox is gone is stale", facts: served().in(Bound).toldOf(Missing), act: Move, event: ClaimLost},
		{name: "a warming claim whose sandbox is gone is stale", facts: served().in(Warming).toldOf(Missing), act: Move, event: ClaimLost},
		{name: "a claim that lost its sandbox gets no other, whatever is offered", facts: served().in(Bound).toldOf(Missing).offered(Taken), act: Move, event: ClaimLost},
		{name: "a bound claim whose status was emptied by hand gets no other", facts: served().in(Bound), act: Check},
		{name: "a stale claim rests", facts: served().in(Stale).offered(Taken)},

		{name: "a claim whose pool is not shown asks about it", facts: served().ofPool(Unseen), act: Check},
		{name: "a claim whose pool is hidden waits for the watch", facts: served().ofPool(Hidden)},
		{name: "a claim whose pool does not exist says so", facts: served().ofPool(Missing), act: Report},
		{name: "a claim whose pool does not exist says so once", facts: served().ofPool(Missing).said()},
		{name: "a claim whose template is not shown asks about it", facts: served().from(Unseen).offered(Bare), act: Check},
		{name: "a claim whose template is hidden waits for the watch", facts: served().from(Hidden).offered(Bare)},
		{name: "a claim whose template does not exist says so", facts: served().from(Missing).offered(Bare), act: Report},
		{name: "a claim takes what is warm although the template is gone", facts: served().from(Missing).offered(Taken), act: Adopt},
		{name: "a strict claim takes what is warm and asks beside that", facts: served().strict(Unproven).offered(Taken), act: Adopt},
		{name: "a strict claim takes nothing while the watch is behind", facts: served().strict(Behind).offered(Taken)},
		{name: "a strict claim is not told of what it took before that is proven", facts: served().strict(Unproven).holding(HoldsWarm), act: Check},
		{name: "a strict claim is not told of what it took while the watch is behind", facts: served().strict(Behind).holding(HoldsWarm).outdated()},
		{name: "a strict claim is told of what it took once that is proven", facts: served().strict(Proven).holding(HoldsWarm), act: Move, event: ClaimBound},
		{name: "a strict claim does not refuse what only looks outdated", facts: served().strict(Unproven).holding(HoldsWarm).outdated(), act: Check},
		{name: "a strict claim refuses what it took once that is proven to be outdated", facts: served().strict(Proven).holding(HoldsWarm).outdated(), act: Refuse},
		{name: "a strict claim that was told keeps what is outdated", facts: served().strict(Proven).in(Bound).toldOf(Unseen).holding(HoldsWarm).outdated().said()},
		{name: "a claim that takes any is told of what is outdated", facts: served().holding(HoldsWarm).outdated(), act: Move, event: ClaimBound},
		{name: "a strict claim asks before its own sandbox is made", facts: served().strict(Unproven).offered(Bare), act: Check},
		{name: "a strict claim makes no sandbox while the watch is behind", facts: served().strict(Behind).offered(Bare)},
		{name: "a strict claim's own sandbox is made from a template that is proven", facts: served().strict(Proven).offered(Bare), act: Create},
		{name: "a strict claim's own sandbox was proven when it was made", facts: served().strict(Unproven).holding(HoldsReady), act: Move, event: ClaimBound},

		{name: "a claim that can not be served says so", facts: served().invalid(), act: Report},
		{name: "a claim that was spoiled after it got its sandbox keeps it", facts: served().invalid().in(Bound).toldOf(Unseen).holding(HoldsWarm).said()},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			d := StepClaim(row.facts)
			judged(g, Claim, row.facts.State, d, row.facts)
			g.Expect(d).To(Equal(Decision{Act: row.act, Event: row.event, After: row.after, Reason: d.Reason}))
		})
	}
}
