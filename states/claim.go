package states

import "time"

// A Freshness is how new the view of a claim's pool and template is.
type Freshness uint8

// The freshnesses.
const (
	// FreshnessUnknown: the view may be older than the claim.
	FreshnessUnknown Freshness = iota
	// FreshnessProven: the view is at least as new as the claim.
	FreshnessProven
	// FreshnessBehind: the API server has something newer; an event will bring it.
	FreshnessBehind
)

// Freshnesses lists every freshness.
var Freshnesses = []Freshness{FreshnessUnknown, FreshnessProven, FreshnessBehind}

// ClaimFacts are what a claim's next step is decided from.
type ClaimFacts struct {
	// Gone: there is no claim of this name.
	Gone bool
	// State is the state that the claim carries.
	State State
	// Terminating: the claim is being deleted.
	Terminating bool
	// Lifetime is how long it lives.
	Lifetime Lifetime
	// Ended: its status says that its lifetime is over, in the words of another
	// program, which knows no states.
	Ended bool
	// Foreign: the sandbox that it would take with it is somebody else's.
	Foreign bool
	// Problem is why its spec cannot be served as it stands, or its own sandbox
	// cannot be made; empty if nothing is known to be wrong. Of a claim that has its
	// sandbox it is what keeps the pod from having what the claim adds to it.
	Problem Reason
	// Named: its status names a sandbox.
	Named bool
	// Holds is what it holds.
	Holds Holding
	// Sandbox is what is known of the sandbox that it names, when it holds none.
	Sandbox Presence
	// Pool and Template are what is known of the two it is served from.
	Pool, Template Presence
	// Strict: it must not get a sandbox of an older template than there was when
	// it was made.
	Strict bool
	// Freshness is how new what is known of the pool and the template is.
	Freshness Freshness
	// Outdated: what it holds and was not told of is not of the template as it is
	// known. It may have been when it was taken.
	Outdated bool
	// Handover is how far the pod of the warm sandbox that it holds has come.
	Handover Handover
	// Quiet: nobody else is being served at this moment.
	Quiet bool
	// Refused: the API server refuses the pod of its own sandbox, which never had
	// one, and pool and template would make another sandbox by now.
	Refused bool
	// NeedsOwn: its spec changes the blueprint, so no warm sandbox will do.
	NeedsOwn bool
	// Offer is the shelf's answer, OfferNone if it was not asked.
	Offer Offer
	// Waited is how long it has been in the shelf's line, and Still for how much of that
	// nobody there was given a member. MaxWait is the longest the line may stand still
	// before its own sandbox is made: as long as the line moves, that would be ready later.
	Waited, Still, MaxWait time.Duration
	// Reported is the reason of the last report that this step knows its status
	// agrees with.
	Reported Reason
	// Mislabelled: the labels or annotations of the sandbox that it holds are not
	// those that follow from the claim, and this step has not mended them.
	Mislabelled bool
	// Misannotated: its annotations do not name the sandbox that it holds, and
	// nobody has been asked to write them.
	Misannotated bool
}

// A Lifetime is how long a claim lives, and what is left of it then.
type Lifetime struct {
	// Ends: it ends some time, and Left is how long that is away. It is over when
	// nothing is left.
	Ends bool
	Left time.Duration
	// Deletes: the claim goes, and all that it owns. Otherwise its sandbox goes, and
	// the claim stays as a record.
	Deletes bool
}

func (l Lifetime) over() bool { return l.Ends && l.Left <= 0 }

// WaitQuietly is how long a waiting claim keeps its status as it is. Most waits
// are over sooner, and a write would only delay them.
const WaitQuietly = time.Second

// StepClaim decides the next step of a claim. Whatever ends the step, a lifetime
// that is not over has the claim looked at again when it is.
func StepClaim(f ClaimFacts) Decision {
	d := f.step()
	left := f.Lifetime.Left
	if lives := f.Lifetime.Ends && left > 0 && !f.Gone && !f.Terminating; lives && d.Ends() && (d.After == 0 || left < d.After) {
		d.After = left
	}
	return d
}

func (f ClaimFacts) step() Decision {
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Terminating:
		return rest(ReasonTerminating)
	case f.State == Stale:
		return f.leave()
	case f.Ended:
		return move(EventExpired, ReasonEnded)
	case f.Lifetime.over() && f.Foreign:
		return move(EventExpired, ReasonExpiredForeign)
	case f.Lifetime.over():
		return move(EventExpired, ReasonExpired)
	case f.Holds != HoldsNone:
		return f.hold()
	case f.Named, f.State == Warming, f.State == Bound:
		return f.miss()
	case f.Problem != "":
		return f.complain()
	}
	return f.serve()
}

// leave takes out what a claim that holds nothing any more has left: itself, if it is
// to go, or else the sandboxes that name it as their owner.
func (f ClaimFacts) leave() Decision {
	switch {
	case f.Lifetime.over() && f.Lifetime.Deletes:
		return act(Delete, ReasonExpiredGoes)
	case f.Holds != HoldsNone:
		d := act(Delete, ReasonStale)
		d.About.Part = PartSandbox
		return d
	}
	return rest(ReasonStale)
}

// complain has the status say what is wrong, and ends the step as the remedy asks.
func (f ClaimFacts) complain() Decision {
	if RemedyOf(f.Problem) == RemedyRetry {
		return f.report(act(Retry, f.Problem))
	}
	return f.report(rest(f.Problem))
}

// report has the status say why a step ends, before it does.
func (f ClaimFacts) report(end Decision) Decision {
	if f.Reported != end.Reason {
		return act(Report, end.Reason)
	}
	return end
}

// hold tells a claim about the sandbox it has.
func (f ClaimFacts) hold() Decision {
	switch {
	case f.State == Binding && f.Holds == HoldsStarting:
		return move(EventColdStart, ReasonOwnStarting)
	case f.State == Binding && f.Holds == HoldsWarm:
		return f.confirm()
	case f.State == Warming && f.Holds == HoldsWarm:
		return f.bind(ReasonAdopted)
	case (f.State == Binding || f.State == Warming) && f.Holds == HoldsReady:
		return f.bind(ReasonOwnReady)
	case f.Refused && f.Holds == HoldsStarting && f.Problem == "":
		return syncSandbox(ReasonPodProblem)
	}
	told := f.report(rest(ReasonHolds))
	if f.Problem != "" {
		told = f.complain()
	}
	switch {
	case told.Ends() && f.Mislabelled:
		return syncSandbox(ReasonMislabelled)
	case told.Ends() && f.Misannotated:
		return act(Annotate, ReasonAnnotations)
	}
	return told
}

// bind tells a claim that it has its sandbox, or what is wrong with what it has.
func (f ClaimFacts) bind(why Reason) Decision {
	if f.Problem != "" {
		why = f.Problem
	}
	return move(EventBound, why)
}

func syncSandbox(why Reason) Decision {
	d := act(Sync, why)
	d.About.Part = PartSandbox
	return d
}

// fresh lets a strict claim go on only with a template that is not older than the
// claim. What it does then is what it was kept from.
func (f ClaimFacts) fresh(then Decision) Decision {
	switch {
	case !f.Strict || f.Freshness == FreshnessProven:
		return then
	case f.Freshness == FreshnessBehind:
		return lags
	}
	return act(ProveFresh, ReasonFreshnessUnknown)
}

// confirm hands the pod of the warm sandbox that a claim has taken over to it, and then
// tells the claim: when the claim is Ready, routers and selectors find its pod. For a
// strict claim both need the proof of freshness, which was asked for beside the
// adoption. A sandbox that turns out to be outdated is refused on the claim first, and
// only then retired: two leaders, or one and a lost answer, cannot both write the
// claim's status, so the claim is told of it or has refused it and never both. What
// another controller has told a claim of stays, however old it is.
func (f ClaimFacts) confirm() Decision {
	f.Strict = f.Strict && !f.Named
	switch {
	case f.Strict && f.Outdated:
		return f.fresh(act(Refuse, ReasonOutdated))
	case f.Problem == ReasonHandoverRefused:
		return f.complain()
	case f.Handover == HandoverDue:
		return f.fresh(f.handOver())
	case f.Handover == HandoverLacksPod:
		return act(Wait, ReasonPodMissing) // its sandbox will say so, which wakes the claim
	}
	return f.fresh(f.bind(ReasonAdopted))
}

// handOver makes the pod the claim's. Beside it the claim is annotated if that slows
// nobody down: who reads the annotations when the claim is Ready finds them.
func (f ClaimFacts) handOver() Decision {
	d := move(EventHanded, ReasonAdopted)
	d.About.Part = PartPod
	if f.Quiet && f.Misannotated {
		d.About.Beside = Annotate
	}
	return d
}

// lags is what a claim does while the API server has something that the watch does
// not show yet.
var lags = act(Wait, ReasonWatchBehind)

// miss looks for a sandbox that a claim names and that the watch does not show.
// Only the API server's own word makes it lost: the claim never silently gets
// another one.
func (f ClaimFacts) miss() Decision {
	switch f.Sandbox {
	case PresenceUnseen:
		return act(ReadSandbox, ReasonSandboxUnseen)
	case PresenceMissing:
		return move(EventLost, ReasonSandboxLost)
	case PresenceShown, PresenceHidden:
	}
	return lags
}

// serve finds a claim its sandbox.
func (f ClaimFacts) serve() Decision {
	switch f.Pool {
	case PresenceUnseen:
		return act(ReadPool, ReasonPoolUnseen)
	case PresenceMissing:
		return f.report(rest(ReasonPoolMissing))
	case PresenceHidden:
		return lags
	case PresenceShown:
	}
	switch {
	case f.NeedsOwn:
	case f.Offer == OfferNone:
		return act(AskShelf, ReasonNoSandbox)
	case f.Offer == OfferTaken:
		return f.adopt()
	case f.Offer == OfferInLine && f.Still < f.MaxWait:
		return f.wait()
	}
	switch f.Template {
	case PresenceUnseen:
		return act(ReadTemplate, ReasonTemplateUnseen)
	case PresenceMissing:
		return f.report(rest(ReasonTemplateMissing))
	case PresenceHidden:
		return lags
	case PresenceShown:
	}
	return f.fresh(act(Create, ReasonNoneWarm))
}

// adopt takes what the shelf gave. A strict claim proves beside the adoption what
// it will need to know after it.
func (f ClaimFacts) adopt() Decision {
	d := act(Adopt, ReasonWarmFree)
	switch {
	case f.Strict && f.Freshness == FreshnessBehind:
		return lags
	case f.Strict && f.Freshness == FreshnessUnknown:
		d.About.Beside = ProveFresh
	}
	return d
}

// wait keeps a claim in line. A pod that becomes ready wakes it; the clock only
// ends the silence and, at last, the wait.
func (f ClaimFacts) wait() Decision {
	left := f.MaxWait - f.Still
	if f.Waited < WaitQuietly {
		return act(Wait, ReasonInLine).in(min(WaitQuietly-f.Waited, left))
	}
	return f.report(act(Wait, ReasonInLine).in(left))
}

// AnnotationFacts are what the next step of a claim's annotations is decided from.
type AnnotationFacts struct {
	// Gone: there is no such claim, or it is being deleted, or holds nothing.
	Gone bool
	// Misannotated: the annotations do not name the sandbox that it holds.
	Misannotated bool
}

// StepAnnotations decides the next step of a claim's annotations. They trail
// behind everything that somebody waits for, so they have a loop of their own.
func StepAnnotations(f AnnotationFacts) Decision {
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Misannotated:
		return act(Annotate, ReasonAnnotations)
	}
	return rest(ReasonHolds)
}
