package states

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// maxWait is how long the claims of these tests wait in line.
const maxWait = 10 * time.Second

// waits are representative, with for how long the line has stood still: not at all,
// quietly, in the open, too long in a line that moves, too long.
var waits = []struct{ waited, still time.Duration }{
	{}, {WaitQuietly / 2, WaitQuietly / 2}, {WaitQuietly, 0}, {5 * time.Second, 5 * time.Second},
	{maxWait, maxWait - 1}, {maxWait, maxWait}, {time.Hour, time.Second}, {time.Hour, time.Hour},
}

// eachClaim calls test with every value of the facts of a claim.
func eachClaim(test func(f ClaimFacts)) {
	for _, state := range []State{Binding, Warming, Bound, Stale} { // Parse reads no other
		for _, holds := range Holdings {
			for _, sandbox := range Presences {
				for _, pool := range Presences {
					for _, template := range Presences {
						for _, offer := range Offers {
							for _, w := range waits {
								for flags := range 1 << 6 {
									on := func(bit int) bool { return flags&(1<<bit) != 0 }
									f := ClaimFacts{
										State: state, Holds: holds, Sandbox: sandbox, Pool: pool, Template: template,
										Offer: offer, Waited: w.waited, Still: w.still, MaxWait: maxWait,
										Terminating: on(0), Named: on(1), NeedsOwn: on(2), Misannotated: on(3),
									}
									if f.Terminating && w.waited > 0 || on(4) && !on(5) {
										continue
									}
									if on(5) {
										f.Problem = ReasonEnvRejected
									}
									if on(4) {
										f.Problem = ReasonCreateRefused
									}
									reported(f, test)
									if w.waited == 0 {
										handingOver(f, test)
									}
									if w.waited == 0 && !f.Misannotated { // strictness has nothing to do with waiting, nor with annotations
										strictly(f, test)
										livingOrNot(f, test)
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

// reported calls test with a claim that this step has reported nothing of yet, and
// if it is about to, also with one that it has, and one that it has of something else.
func reported(f ClaimFacts, test func(ClaimFacts)) {
	test(f)
	if d := StepClaim(f); d.Act == Report {
		for _, f.Reported = range []Reason{d.Reason, ReasonPoolUnseen} {
			test(f)
		}
	}
}

// strictly calls test with every value of the facts that count for a strict pool.
func strictly(f ClaimFacts, test func(ClaimFacts)) {
	f.Strict = true
	for _, f.Freshness = range Freshnesses {
		for _, f.Outdated = range []bool{false, true} {
			reported(f, test)
		}
	}
}

// handingOver calls test with every value of the facts of a hand-over, if there is one.
func handingOver(f ClaimFacts, test func(ClaimFacts)) {
	if f.Holds != HoldsWarm {
		return
	}
	for _, f.Handover = range Handovers {
		for _, f.Quiet = range []bool{false, true} {
			reported(f, test)
			strictly(f, test)
		}
	}
	f.Problem = ReasonHandoverRefused
	reported(f, test)
}

// livingOrNot calls test with every value of the facts of a claim's end, and of the
// sandbox it holds.
func livingOrNot(f ClaimFacts, test func(ClaimFacts)) {
	for _, left := range []time.Duration{0, time.Second, time.Hour} {
		for _, f.Lifetime.Deletes = range []bool{false, true} {
			for _, f.Foreign = range []bool{false, true} {
				f.Lifetime.Ends, f.Lifetime.Left = true, left
				reported(f, test)
			}
		}
	}
	f.Lifetime, f.Foreign = Lifetime{}, false
	for flags := range 1 << 3 {
		f.Ended, f.Refused, f.Mislabelled = flags&1 != 0, flags&2 != 0, flags&4 != 0
		reported(f, test)
	}
}

func TestEveryClaimIsDecided(t *testing.T) {
	g := NewWithT(t)
	taken := map[Edge]bool{}
	legal := map[[2]string]bool{}
	eachClaim(func(f ClaimFacts) {
		d := StepClaim(f)
		once(t, incomplete(d) == "", f, d)
		if d.Act != Move || d.About.Part == PartPod {
			return
		}
		pair := [2]string{string(f.State), string(d.About.Event)}
		if !legal[pair] {
			judged(g, Claim, f.State, d, f)
			legal[pair] = true
		}
		edge, _ := Claim.Edge(f.State, d.About.Event)
		taken[edge] = true
	})
	for _, e := range Claim.Edges {
		g.Expect(taken[e]).To(BeTrue(), "do facts make a claim go from %s to %s by %s?", e.From, e.To, e.Event)
	}
}

// asks reports whether a claim needs an answer of the shelf to go on.
func (f ClaimFacts) asks() bool {
	return !f.Gone && !f.Terminating && !f.Ended && !f.Lifetime.over() && f.Problem == "" && !f.Named && !f.NeedsOwn &&
		f.State == Binding && f.Holds == HoldsNone && f.Pool == PresenceShown
}

// inLine reports whether a claim waits in line, and may go on to.
func (f ClaimFacts) inLine() bool { return f.asks() && f.Offer == OfferInLine && f.Still < f.MaxWait }

// unreported are the reasons for which a claim's step ends without a word in its
// status: there is none to write, or it will be over soon, or it never changes.
var unreported = []Reason{ReasonGone, ReasonTerminating, ReasonStale, ReasonWatchBehind, ReasonPodMissing}

func TestWhatNoClaimEverDoes(t *testing.T) {
	never := map[string]func(f ClaimFacts, d Decision) bool{
		"one that is terminating does nothing": func(f ClaimFacts, d Decision) bool {
			return !f.Terminating || d == Decision{Reason: ReasonTerminating}
		},
		"one that is stale deletes what it has left, and does nothing else": func(f ClaimFacts, d Decision) bool {
			return f.State != Stale || f.Terminating || d.Act == Delete || d.Act == Rest && d.Reason == ReasonStale
		},
		"what is deleted is a stale claim's own sandbox, or the claim itself when its time is over and it shall go": func(f ClaimFacts, d Decision) bool {
			over := f.Lifetime.Ends && f.Lifetime.Left <= 0 && f.Lifetime.Deletes
			switch {
			case d.Act != Delete:
				return f.State != Stale || f.Terminating || f.Holds == HoldsNone && !over
			case d.About.Part == PartSandbox:
				return f.State == Stale && f.Holds != HoldsNone && !over
			}
			return f.State == Stale && d.About.Part == PartSelf && over
		},
		"one whose lifetime is over becomes stale at once, and no other does for that reason": func(f ClaimFacts, d Decision) bool {
			over := !f.Terminating && f.State != Stale && (f.Ended || f.Lifetime.Ends && f.Lifetime.Left <= 0)
			return over == (d.Act == Move && d.About.Event == EventExpired)
		},
		"one whose lifetime is not over looks again when it is, or before": func(f ClaimFacts, d Decision) bool {
			lives := f.Lifetime.Ends && f.Lifetime.Left > 0 && !f.Terminating && d.Ends()
			return !lives || d.After > 0 && d.After <= f.Lifetime.Left
		},
		"the sandbox it holds is mended once the claim was told, and made anew before that only while it starts": func(f ClaimFacts, d Decision) bool {
			told := f.Reported == ReasonHolds || f.Problem != "" && f.Reported == f.Problem
			switch {
			case d.Act != Sync:
				return true
			case d.Reason == ReasonPodProblem:
				return f.Refused && f.Holds == HoldsStarting && f.State != Binding
			}
			return d.About.Part == PartSandbox && f.Mislabelled && f.Holds != HoldsNone && f.State != Binding && told
		},
		"one that is gone does nothing": func(f ClaimFacts, _ Decision) bool {
			f.Gone = true
			return StepClaim(f) == Decision{Reason: ReasonGone}
		},
		"it is annotated only when it was told, and nothing else is left to say": func(f ClaimFacts, d Decision) bool {
			told := f.Reported == ReasonHolds || f.Problem != "" && f.Reported == f.Problem
			return d.Act != Annotate || f.Misannotated && told && f.Holds != HoldsNone && f.State != Binding
		},
		"it does what claims do": func(_ ClaimFacts, d Decision) bool {
			return d.Act != Retire && d.Act != ReadClaim && d.Act != Label
		},
		"a strict claim takes nothing while the watch is known to be behind": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || !f.Strict || f.Freshness != FreshnessBehind
		},
		"a strict claim's freshness is proven beside its adoption, unless it is already, and no other claim's is": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || (d.About.Beside == ProveFresh) == (f.Strict && f.Freshness == FreshnessUnknown)
		},
		"a strict claim is told only of what is proven to be current, once it was taken from a pool": func(f ClaimFacts, d Decision) bool {
			fresh := f.Freshness == FreshnessProven && !f.Outdated
			return d.About.Event != EventBound || !f.Strict || f.Named || f.Holds != HoldsWarm || f.State != Binding || fresh
		},
		"a claim is told of what it took from a pool only when the pod is its own": func(f ClaimFacts, d Decision) bool {
			return d.About.Event != EventBound || f.Holds != HoldsWarm || f.State != Binding || f.Handover == HandoverDone
		},
		"a pod is handed over only to a claim that holds its sandbox and is not bound yet, and only once": func(f ClaimFacts, d Decision) bool {
			return d.About.Event != EventHanded || d.About.Part == PartPod && f.Holds == HoldsWarm && f.State == Binding && f.Handover == HandoverDue
		},
		"a strict claim's pod is handed over only when its sandbox is proven to be current": func(f ClaimFacts, d Decision) bool {
			fresh := f.Freshness == FreshnessProven && !f.Outdated
			return d.About.Event != EventHanded || !f.Strict || f.Named || fresh
		},
		"a claim is annotated beside the hand-over if nobody else is being served, and only then": func(f ClaimFacts, d Decision) bool {
			return d.About.Event != EventHanded || (d.About.Beside == Annotate) == (f.Quiet && f.Misannotated)
		},
		"a sandbox is refused only when it is proven to be outdated, and the claim was told nothing": func(f ClaimFacts, d Decision) bool {
			old := f.Strict && f.Freshness == FreshnessProven && f.Outdated
			return d.Act != Refuse || old && f.Holds == HoldsWarm && !f.Named && f.State == Binding
		},
		"a strict claim's own sandbox is made only from a template that is proven to be the newest": func(f ClaimFacts, d Decision) bool {
			return d.Act != Create || !f.Strict || f.Freshness == FreshnessProven
		},
		"a sandbox is adopted only when the shelf gave one, for a claim that holds none and was told of none": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || f.Offer == OfferTaken && f.Holds == HoldsNone && !f.Named && f.State == Binding
		},
		"a sandbox is adopted only for a claim that asks": func(f ClaimFacts, d Decision) bool {
			return d.Act != Adopt || f.asks()
		},
		"a claim that was told of a sandbox never gets another one": func(f ClaimFacts, d Decision) bool {
			return !f.Named || d.Act != Adopt && d.Act != Create && d.Act != AskShelf
		},
		"a claim that has a state never gets another sandbox, even if its status was emptied by hand": func(f ClaimFacts, d Decision) bool {
			return f.State == Binding || d.Act != Adopt && d.Act != Create && d.Act != AskShelf
		},
		"a claim that holds a sandbox never gets another one": func(f ClaimFacts, d Decision) bool {
			return f.Holds == HoldsNone || d.Act != Adopt && d.Act != Create && d.Act != AskShelf
		},
		"a claim that cannot be served gets no sandbox": func(f ClaimFacts, d Decision) bool {
			return f.Problem == "" || d.Act != Adopt && d.Act != Create && d.Act != AskShelf
		},
		"a claim that must have its own sandbox takes no other": func(f ClaimFacts, d Decision) bool {
			return !f.NeedsOwn || d.Act != Adopt && d.Act != AskShelf
		},
		"a sandbox is lost only when the API server says so": func(f ClaimFacts, d Decision) bool {
			return d.About.Event != EventLost || f.Sandbox == PresenceMissing && f.Holds == HoldsNone
		},
		"a claim is bound only to what it holds": func(f ClaimFacts, d Decision) bool {
			return d.About.Event != EventBound || f.Holds == HoldsWarm || f.Holds == HoldsReady
		},
		"the reason of a claim's being bound says what it is bound to": func(f ClaimFacts, d Decision) bool {
			if f.Problem != "" {
				return d.About.Event != EventBound || d.Reason == f.Problem
			}
			return d.About.Event != EventBound || (d.Reason == ReasonAdopted) == (f.Holds == HoldsWarm)
		},
		"a claim is warming only while its own sandbox starts": func(f ClaimFacts, d Decision) bool {
			return d.About.Event != EventColdStart || f.Holds == HoldsStarting
		},
		"a sandbox is made only where pool and template are shown": func(f ClaimFacts, d Decision) bool {
			return d.Act != Create || f.Pool == PresenceShown && f.Template == PresenceShown
		},
		"a sandbox is made only when there is nothing to take, and nothing to wait for any longer": func(f ClaimFacts, d Decision) bool {
			return d.Act != Create || f.NeedsOwn || f.Offer == OfferEmpty || f.Offer == OfferInLine && f.Still >= f.MaxWait
		},
		"the shelf is asked only when it was not": func(f ClaimFacts, d Decision) bool {
			return d.Act != AskShelf || f.Offer == OfferNone && f.asks()
		},
		"the sandbox is read only when it is unseen": func(f ClaimFacts, d Decision) bool {
			return d.Act != ReadSandbox || f.Sandbox == PresenceUnseen && f.Holds == HoldsNone
		},
		"the pool is read only when it is unseen": func(f ClaimFacts, d Decision) bool {
			return d.Act != ReadPool || f.Pool == PresenceUnseen
		},
		"the template is read only when it is unseen": func(f ClaimFacts, d Decision) bool {
			return d.Act != ReadTemplate || f.Template == PresenceUnseen
		},
		"the freshness is proven only when it is unknown, and matters": func(f ClaimFacts, d Decision) bool {
			return d.Act != ProveFresh || f.Strict && f.Freshness == FreshnessUnknown
		},
		"nothing is reported twice": func(f ClaimFacts, d Decision) bool {
			return d.Act != Report || d.Reason != f.Reported
		},
		"after a report the step ends for the same reason, and at most mends and annotates before": func(f ClaimFacts, d Decision) bool {
			if d.Act != Report {
				return true
			}
			f.Reported = d.Reason
			f.Mislabelled, f.Misannotated = false, false
			end := StepClaim(f)
			return end.Ends() && end.Reason == d.Reason
		},
		"a step ends only for a reason that was reported, unless nobody needs to read it": func(f ClaimFacts, d Decision) bool {
			quiet := d.Reason == ReasonInLine && f.Waited < WaitQuietly
			return !d.Ends() || quiet || slices.Contains(unreported, d.Reason) || f.Reported == d.Reason
		},
		"only one whose problem another try may mend is tried again": func(f ClaimFacts, d Decision) bool {
			return d.Act != Retry || d.Reason == f.Problem && RemedyOf(f.Problem) == RemedyRetry
		},
		"one whose problem another try may mend does not rest on it": func(f ClaimFacts, d Decision) bool {
			return f.Problem == "" || RemedyOf(f.Problem) != RemedyRetry || d.Act != Rest || d.Reason != f.Problem
		},
		"only one that waits in line, or has an end, looks again by the clock, and in time": func(f ClaimFacts, d Decision) bool {
			return d.After == 0 || f.Lifetime.Ends || f.Offer == OfferInLine && d.After <= f.MaxWait-f.Still
		},
		"one that waits in line keeps its place, and looks again before its wait ends": func(f ClaimFacts, d Decision) bool {
			return !f.inLine() || d.Act == Report || d.Act == Wait && d.Reason == ReasonInLine && d.After > 0 || d.Act == Move && d.About.Event == EventExpired
		},
		"one that waits keeps its status as it is at first": func(f ClaimFacts, d Decision) bool {
			return !f.inLine() || f.Waited >= WaitQuietly || d.Act != Report
		},
		"it waits for the watch only when that is behind": func(f ClaimFacts, d Decision) bool {
			shows := f.Pool != PresenceHidden && f.Template != PresenceHidden && f.Freshness != FreshnessBehind
			sandbox := f.Sandbox == PresenceUnseen || f.Sandbox == PresenceMissing
			return d.Reason != ReasonWatchBehind || !shows || !sandbox
		},
	}
	wrong := map[string]string{}
	eachClaim(func(f ClaimFacts) {
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

// TestTheShelfIsAskedWhenItMatters holds the question to its word: whoever does not
// ask gets the same decision whatever the shelf would say, and whoever asks gets
// one that the shelf decides.
func TestTheShelfIsAskedWhenItMatters(t *testing.T) {
	eachClaim(func(f ClaimFacts) {
		if f.Offer != OfferNone {
			return
		}
		asked := [4]Decision{}
		for _, o := range Offers {
			with := f
			with.Offer = o
			asked[o] = StepClaim(with)
		}
		once(t, f.asks() == (asked[OfferNone].Act == AskShelf) || f.State == Stale, f, asked)
		if asked[OfferNone].Act == AskShelf {
			once(t, (asked[OfferTaken].Act == Adopt) == (!f.Strict || f.Freshness != FreshnessBehind), f, asked[OfferTaken])
			once(t, asked[OfferEmpty].Act != Adopt, f, asked[OfferEmpty])
			known := f.Template == PresenceShown && (!f.Strict || f.Freshness == FreshnessProven)
			once(t, !known || asked[OfferEmpty].Act == Create, f, asked[OfferEmpty])
			return
		}
		for _, o := range Offers {
			once(t, asked[o] == asked[OfferNone], f, asked)
		}
	})
}

// served is a claim whose pool and template are there.
func served() ClaimFacts {
	return ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown, MaxWait: maxWait}
}

func (f ClaimFacts) at(s State) ClaimFacts        { f.State = s; return f }
func (f ClaimFacts) offered(o Offer) ClaimFacts   { f.Offer = o; return f }
func (f ClaimFacts) holding(h Holding) ClaimFacts { f.Holds = h; return f }
func (f ClaimFacts) naming(p Presence) ClaimFacts { f.Named, f.Sandbox = true, p; return f }
func (f ClaimFacts) ofPool(p Presence) ClaimFacts { f.Pool = p; return f }
func (f ClaimFacts) from(p Presence) ClaimFacts   { f.Template = p; return f }
func (f ClaimFacts) after(d time.Duration) ClaimFacts {
	f.Offer, f.Waited, f.Still = OfferInLine, d, d
	return f
}
func (f ClaimFacts) moving() ClaimFacts             { f.Still = 0; return f }
func (f ClaimFacts) said(r Reason) ClaimFacts       { f.Reported = r; return f }
func (f ClaimFacts) needsOwn() ClaimFacts           { f.NeedsOwn = true; return f }
func (f ClaimFacts) misannotated() ClaimFacts       { f.Misannotated = true; return f }
func (f ClaimFacts) troubled(r Reason) ClaimFacts   { f.Problem = r; return f }
func (f ClaimFacts) living(l Lifetime) ClaimFacts   { f.Lifetime = l; return f }
func (f ClaimFacts) mislabelled() ClaimFacts        { f.Mislabelled = true; return f }
func (f ClaimFacts) strict(is Freshness) ClaimFacts { f.Strict, f.Freshness = true, is; return f }
func (f ClaimFacts) outdated() ClaimFacts           { f.Outdated = true; return f }
func (f ClaimFacts) handing(h Handover) ClaimFacts  { f.Handover = h; return f }
func (f ClaimFacts) alone() ClaimFacts              { f.Quiet = true; return f }

// over is the lifetime of a claim that stays as a record.
var over = Lifetime{Ends: true}

func foreign(f ClaimFacts) ClaimFacts { f.Foreign = true; return f }
func ended(f ClaimFacts) ClaimFacts   { f.Ended = true; return f }
func refused(f ClaimFacts) ClaimFacts { f.Refused = true; return f }

func TestStepClaim(t *testing.T) {
	bound := served().at(Bound).naming(PresenceUnseen).holding(HoldsWarm)
	warming := served().at(Warming).naming(PresenceUnseen)
	for _, row := range []struct {
		name   string
		facts  ClaimFacts
		act    Act
		event  Event
		part   Part
		beside Act
		why    Reason
		after  time.Duration
	}{
		{name: "a claim that has nothing asks the shelf", facts: served(), act: AskShelf, why: ReasonNoSandbox},
		{name: "a claim takes the warm sandbox it is offered", facts: served().offered(OfferTaken), act: Adopt, why: ReasonWarmFree},
		{name: "a claim that took a warm sandbox gets its pod", facts: served().holding(HoldsWarm).handing(HandoverDue), act: Move, event: EventHanded, part: PartPod, why: ReasonAdopted},
		{name: "a claim that another controller named a warm sandbox gets its pod", facts: served().naming(PresenceUnseen).strict(FreshnessUnknown).holding(HoldsWarm).outdated().handing(HandoverDue), act: Move, event: EventHanded, part: PartPod, why: ReasonAdopted},
		{name: "a claim whose pod is its own is bound", facts: served().holding(HoldsWarm), act: Move, event: EventBound, why: ReasonAdopted},
		{name: "a claim whose pod vanished in this moment waits until its sandbox says so", facts: served().holding(HoldsWarm).handing(HandoverLacksPod), act: Wait, why: ReasonPodMissing},
		{name: "a claim that is served alone is annotated beside the hand-over", facts: served().holding(HoldsWarm).handing(HandoverDue).misannotated().alone(), act: Move, event: EventHanded, part: PartPod, beside: Annotate, why: ReasonAdopted},
		{name: "a claim that is not served alone is annotated later", facts: served().holding(HoldsWarm).handing(HandoverDue).misannotated(), act: Move, event: EventHanded, part: PartPod, why: ReasonAdopted},
		{name: "a claim that may not have its pod says so", facts: served().holding(HoldsWarm).handing(HandoverDue).troubled(ReasonHandoverRefused), act: Report, why: ReasonHandoverRefused},
		{name: "a claim that said so tries again", facts: served().holding(HoldsWarm).handing(HandoverDue).troubled(ReasonHandoverRefused).said(ReasonHandoverRefused), act: Retry, why: ReasonHandoverRefused},
		{name: "a claim that another controller named a warm sandbox is bound", facts: served().naming(PresenceUnseen).holding(HoldsWarm), act: Move, event: EventBound, why: ReasonAdopted},
		{name: "a bound claim has its status follow its sandbox", facts: bound, act: Report, why: ReasonHolds},
		{name: "a bound claim whose status follows rests", facts: bound.said(ReasonHolds), why: ReasonHolds},
		{name: "a bound claim is annotated once its status follows", facts: bound.misannotated().said(ReasonHolds), act: Annotate, why: ReasonAnnotations},
		{name: "a bound claim's status goes before its annotations", facts: bound.misannotated(), act: Report, why: ReasonHolds},

		{name: "a claim for which nothing is warm gets its own sandbox", facts: served().offered(OfferEmpty), act: Create, why: ReasonNoneWarm},
		{name: "a claim whose own sandbox starts is warming", facts: served().holding(HoldsStarting), act: Move, event: EventColdStart, why: ReasonOwnStarting},
		{name: "a claim whose own sandbox is Ready at once is bound at once", facts: served().holding(HoldsReady), act: Move, event: EventBound, why: ReasonOwnReady},
		{name: "a warming claim says what its own sandbox waits for", facts: warming.holding(HoldsStarting), act: Report, why: ReasonHolds},
		{name: "a warming claim waits for its own sandbox", facts: warming.holding(HoldsStarting).said(ReasonHolds), why: ReasonHolds},
		{name: "a warming claim whose own sandbox is Ready is bound", facts: warming.holding(HoldsReady), act: Move, event: EventBound, why: ReasonOwnReady},
		{name: "a bound claim whose own sandbox is not Ready now stays bound", facts: bound.holding(HoldsStarting).said(ReasonHolds), why: ReasonHolds},
		{name: "a claim that changes the blueprint never asks the shelf", facts: served().needsOwn(), act: Create, why: ReasonNoneWarm},

		{name: "a claim waits quietly at first", facts: served().after(0), act: Wait, why: ReasonInLine, after: WaitQuietly},
		{name: "a claim that waited a while says what for", facts: served().after(WaitQuietly), act: Report, why: ReasonInLine},
		{name: "a claim that said what for waits on", facts: served().after(2 * time.Second).said(ReasonInLine), act: Wait, why: ReasonInLine, after: maxWait - 2*time.Second},
		{name: "a claim that has waited long in a line that moves waits on", facts: served().after(time.Hour).moving().said(ReasonInLine), act: Wait, why: ReasonInLine, after: maxWait},
		{name: "a claim whose line has stood still for too long gets its own sandbox", facts: served().after(maxWait), act: Create, why: ReasonNoneWarm},

		{name: "a claim whose sandbox is not shown reads it", facts: served().at(Bound).naming(PresenceUnseen), act: ReadSandbox, why: ReasonSandboxUnseen},
		{name: "a claim whose sandbox is hidden waits for the watch", facts: served().at(Bound).naming(PresenceHidden), act: Wait, why: ReasonWatchBehind},
		{name: "a claim whose sandbox is gone is stale", facts: served().at(Bound).naming(PresenceMissing), act: Move, event: EventLost, why: ReasonSandboxLost},
		{name: "a warming claim whose sandbox is gone is stale", facts: served().at(Warming).naming(PresenceMissing), act: Move, event: EventLost, why: ReasonSandboxLost},
		{name: "a claim that lost its sandbox gets no other, whatever is offered", facts: served().at(Bound).naming(PresenceMissing).offered(OfferTaken), act: Move, event: EventLost, why: ReasonSandboxLost},
		{name: "a bound claim whose status was emptied by hand gets no other", facts: served().at(Bound), act: ReadSandbox, why: ReasonSandboxUnseen},
		{name: "a stale claim rests", facts: served().at(Stale).offered(OfferTaken), why: ReasonStale},
		{name: "a claim that is gone rests", facts: ClaimFacts{Gone: true}, why: ReasonGone},

		{name: "a claim whose pool is not shown reads it", facts: served().ofPool(PresenceUnseen), act: ReadPool, why: ReasonPoolUnseen},
		{name: "a claim whose pool is hidden waits for the watch", facts: served().ofPool(PresenceHidden), act: Wait, why: ReasonWatchBehind},
		{name: "a claim whose pool does not exist says so", facts: served().ofPool(PresenceMissing), act: Report, why: ReasonPoolMissing},
		{name: "a claim whose pool does not exist says so once", facts: served().ofPool(PresenceMissing).said(ReasonPoolMissing), why: ReasonPoolMissing},
		{name: "a claim whose template is not shown reads it", facts: served().from(PresenceUnseen).offered(OfferEmpty), act: ReadTemplate, why: ReasonTemplateUnseen},
		{name: "a claim whose template is hidden waits for the watch", facts: served().from(PresenceHidden).offered(OfferEmpty), act: Wait, why: ReasonWatchBehind},
		{name: "a claim whose template does not exist says so", facts: served().from(PresenceMissing).offered(OfferEmpty), act: Report, why: ReasonTemplateMissing},
		{name: "a claim takes what is warm although the template is gone", facts: served().from(PresenceMissing).offered(OfferTaken), act: Adopt, why: ReasonWarmFree},
		{name: "a strict claim takes nothing while the watch is behind", facts: served().strict(FreshnessBehind).offered(OfferTaken), act: Wait, why: ReasonWatchBehind},
		{name: "a strict claim does not get the pod of what it took before that is proven", facts: served().strict(FreshnessUnknown).holding(HoldsWarm).handing(HandoverDue), act: ProveFresh, why: ReasonFreshnessUnknown},
		{name: "a strict claim does not get the pod of what is proven to be outdated", facts: served().strict(FreshnessProven).holding(HoldsWarm).handing(HandoverDue).outdated(), act: Refuse, why: ReasonOutdated},
		{name: "a strict claim is not told of what it took before that is proven", facts: served().strict(FreshnessUnknown).holding(HoldsWarm), act: ProveFresh, why: ReasonFreshnessUnknown},
		{name: "a strict claim is not told of what it took while the watch is behind", facts: served().strict(FreshnessBehind).holding(HoldsWarm).outdated(), act: Wait, why: ReasonWatchBehind},
		{name: "a strict claim is told of what it took once that is proven", facts: served().strict(FreshnessProven).holding(HoldsWarm), act: Move, event: EventBound, why: ReasonAdopted},
		{name: "a strict claim does not refuse what only looks outdated", facts: served().strict(FreshnessUnknown).holding(HoldsWarm).outdated(), act: ProveFresh, why: ReasonFreshnessUnknown},
		{name: "a strict claim refuses what it took once that is proven to be outdated", facts: served().strict(FreshnessProven).holding(HoldsWarm).outdated(), act: Refuse, why: ReasonOutdated},
		{name: "a strict claim that was told keeps what is outdated", facts: bound.strict(FreshnessProven).outdated().said(ReasonHolds), why: ReasonHolds},
		{name: "a claim that takes any is told of what is outdated", facts: served().holding(HoldsWarm).outdated(), act: Move, event: EventBound, why: ReasonAdopted},
		{name: "a strict claim proves the template before its own sandbox is made", facts: served().strict(FreshnessUnknown).offered(OfferEmpty), act: ProveFresh, why: ReasonFreshnessUnknown},
		{name: "a strict claim makes no sandbox while the watch is behind", facts: served().strict(FreshnessBehind).offered(OfferEmpty), act: Wait, why: ReasonWatchBehind},
		{name: "a strict claim's own sandbox is made from a template that is proven", facts: served().strict(FreshnessProven).offered(OfferEmpty), act: Create, why: ReasonNoneWarm},
		{name: "a strict claim's own sandbox was proven when it was made", facts: served().strict(FreshnessUnknown).holding(HoldsReady), act: Move, event: EventBound, why: ReasonOwnReady},

		{name: "a claim that cannot be served says so", facts: served().troubled(ReasonEnvRejected), act: Report, why: ReasonEnvRejected},
		{name: "a claim that said that it cannot be served rests", facts: served().troubled(ReasonEnvRejected).said(ReasonEnvRejected), why: ReasonEnvRejected},
		{name: "a claim that says another thing than what is wrong says that", facts: served().troubled(ReasonEnvRejected).said(ReasonPoolMissing), act: Report, why: ReasonEnvRejected},
		{name: "a claim whose sandbox was refused says so", facts: served().troubled(ReasonCreateRefused), act: Report, why: ReasonCreateRefused},
		{name: "a claim whose sandbox was refused tries again once it said so", facts: served().troubled(ReasonCreateRefused).said(ReasonCreateRefused), act: Retry, why: ReasonCreateRefused},
		{name: "a claim that was spoiled after it got its sandbox says so", facts: bound.troubled(ReasonInvalidMetadata), act: Report, why: ReasonInvalidMetadata},
		{name: "a claim that was spoiled after it got its sandbox keeps it", facts: bound.troubled(ReasonInvalidMetadata).said(ReasonInvalidMetadata), why: ReasonInvalidMetadata},
		{name: "a claim that was spoiled while its own sandbox started is bound and says so", facts: warming.holding(HoldsReady).troubled(ReasonInvalidMetadata), act: Move, event: EventBound, why: ReasonInvalidMetadata},

		{name: "a bound claim looks again when its time is over", facts: bound.living(Lifetime{Ends: true, Left: time.Hour}).said(ReasonHolds), why: ReasonHolds, after: time.Hour},
		{name: "a claim in line looks again when its time is over, if that comes first", facts: served().after(2 * time.Second).living(Lifetime{Ends: true, Left: time.Second}).said(ReasonInLine), act: Wait, why: ReasonInLine, after: time.Second},
		{name: "a claim in line looks again when its wait is over, if that comes first", facts: served().after(2 * time.Second).living(Lifetime{Ends: true, Left: time.Hour}).said(ReasonInLine), act: Wait, why: ReasonInLine, after: maxWait - 2*time.Second},
		{name: "a claim that cannot be served looks again when its time is over", facts: served().troubled(ReasonEnvRejected).living(Lifetime{Ends: true, Left: time.Hour}).said(ReasonEnvRejected), why: ReasonEnvRejected, after: time.Hour},
		{name: "a bound claim whose time is over is stale", facts: bound.living(over), act: Move, event: EventExpired, why: ReasonExpired},
		{name: "a claim whose time is over before it has anything is stale, whatever is offered", facts: served().living(over).offered(OfferTaken), act: Move, event: EventExpired, why: ReasonExpired},
		{name: "a claim whose time is over and whose name is another's sandbox says so", facts: foreign(served().living(over)), act: Move, event: EventExpired, why: ReasonExpiredForeign},
		{name: "a claim that had ended before Kiln came is stale", facts: ended(served().offered(OfferTaken)), act: Move, event: EventExpired, why: ReasonEnded},
		{name: "a claim whose time is over rests once it is stale", facts: served().at(Stale).living(over), why: ReasonStale},
		{name: "a claim that is to go with its time goes once it is stale", facts: served().at(Stale).holding(HoldsWarm).living(Lifetime{Ends: true, Deletes: true}), act: Delete, why: ReasonExpiredGoes},
		{name: "a claim that lost its sandbox goes when its time is over", facts: served().at(Stale).living(Lifetime{Ends: true, Left: time.Hour, Deletes: true}), why: ReasonStale, after: time.Hour},

		{name: "a bound claim's sandbox is mended once the status follows", facts: bound.mislabelled().misannotated().said(ReasonHolds), act: Sync, part: PartSandbox, why: ReasonMislabelled},
		{name: "a stale claim deletes the sandbox it holds", facts: served().at(Stale).holding(HoldsReady).living(over), act: Delete, part: PartSandbox, why: ReasonStale},
		{name: "a claim whose own sandbox was refused makes it anew when its template is mended", facts: refused(warming.holding(HoldsStarting)), act: Sync, part: PartSandbox, why: ReasonPodProblem},
		{name: "a claim whose own sandbox was made anew and refused says so", facts: refused(warming.holding(HoldsStarting)).troubled(ReasonCreateRefused), act: Report, why: ReasonCreateRefused},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			d := StepClaim(row.facts)
			judged(g, Claim, row.facts.State, d, row.facts)
			g.Expect(d).To(Equal(Decision{Act: row.act, About: About{Event: row.event, Part: row.part, Beside: row.beside}, After: row.after, Reason: row.why}))
		})
	}
	t.Run("a strict claim takes what is warm and proves the freshness beside that", func(t *testing.T) {
		d := StepClaim(served().strict(FreshnessUnknown).offered(OfferTaken))
		NewWithT(t).Expect(d).To(Equal(Decision{Act: Adopt, About: About{Beside: ProveFresh}, Reason: ReasonWarmFree}))
	})
}
