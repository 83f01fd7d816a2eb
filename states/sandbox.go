package states

import "time"

// A PodView is what is known of a sandbox's pod.
type PodView uint8

// The views of a pod.
const (
	// PodNone: there is none.
	PodNone PodView = iota
	// PodStarting: it exists and is not Ready.
	PodStarting
	// PodReady: it runs, is Ready and has an address.
	PodReady
	// PodTerminating: it is being deleted; another takes its name when it is gone.
	PodTerminating
	// PodForeign: a pod of that name belongs to somebody else.
	PodForeign
	// PodMultiple: more than one pod names this sandbox as its controller.
	PodMultiple
)

// PodViews lists every view of a pod.
var PodViews = []PodView{PodNone, PodStarting, PodReady, PodTerminating, PodForeign, PodMultiple}

// A PodPhase is how far a pod's containers have come.
type PodPhase uint8

// The phases of a pod.
const (
	PodPhasePending PodPhase = iota
	PodPhaseRunning
	PodPhaseSucceeded
	PodPhaseFailed
)

// PodFacts are what a sandbox's readiness is decided from.
type PodFacts struct {
	View  PodView
	Phase PodPhase
	// SaysReady: its Ready condition is true, whatever else it lacks.
	SaysReady bool
	// Unscheduled: no node has room for it, or a gate is not lifted.
	Unscheduled bool
	// Problem: it cannot be made as things stand.
	Problem bool
	// Suspended: the sandbox shall have no pod.
	Suspended bool
}

// ReadinessOf says how ready a sandbox is, in one reason. A problem comes first: it
// is what a person can act on.
func ReadinessOf(f PodFacts) Reason {
	switch {
	case f.Problem:
		return ReasonPodProblem
	case f.View == PodMultiple:
		return ReasonPodMultiple
	case f.View == PodForeign:
		return ReasonPodForeign
	case f.View == PodNone && f.Suspended:
		return ReasonSuspended
	case f.View == PodNone:
		return ReasonPodMissing
	case f.Phase == PodPhaseSucceeded:
		return ReasonPodSucceeded
	case f.Phase == PodPhaseFailed:
		return ReasonPodFailed
	case f.View == PodReady:
		return ReasonPodReady
	case f.View == PodTerminating:
		return ReasonPodTerminating
	case f.Phase == PodPhasePending:
		return ReasonPodPending
	case f.SaysReady:
		return ReasonPodNoAddress
	}
	return ReasonPodUnready
}

// How long the not-ready status of a new sandbox stays unwritten. A launch that
// goes well is over by then and costs one status write. Nobody waits for a pool
// member's status: until a claim has it, its pod's state and the pool's counts say
// how it is.
const (
	LaunchDelay = 5 * time.Second
	MemberDelay = time.Minute
)

// StatusDelayOf is how long the status of a sandbox of an age may stay as it is. It
// may not when it was reported before, when the launch is over, well or badly, or
// when something that a person can act on holds it up.
func StatusDelayOf(f PodFacts, holder Holder, reported bool, age time.Duration) time.Duration {
	over := f.View == PodReady || f.View == PodMultiple || f.View == PodForeign
	stuck := f.Problem || f.Suspended || f.Unscheduled || f.Phase == PodPhaseSucceeded || f.Phase == PodPhaseFailed
	switch {
	case reported || over || stuck:
		return 0
	case holder == HolderPool:
		return max(MemberDelay-age, 0)
	}
	return max(LaunchDelay-age, 0)
}

// A Loan is what the shelf says of a member that a claim may be taking.
type Loan uint8

// The loans.
const (
	// LoanUnknown: the shelf was not asked.
	LoanUnknown Loan = iota
	// LoanOpen: a claim's step has taken it and is not over.
	LoanOpen
	// LoanClosed: no step is about to tell a claim of it.
	LoanClosed
)

// Loans lists every loan.
var Loans = []Loan{LoanUnknown, LoanOpen, LoanClosed}

// SandboxFacts are what a sandbox's next step is decided from. A sandbox and
// its pod are decided together: they share a key.
type SandboxFacts struct {
	// Gone: there is no sandbox of this name.
	Gone bool
	// Terminating: the sandbox is being deleted, or the pool it belongs to is.
	Terminating bool
	// Retired: it carries the mark that it will never be handed out.
	Retired bool
	// Retire is the reason for which its pool gives it up; empty if it does not.
	Retire Reason
	// Blocked: its pod cannot be made as things stand (a pod spec that does not
	// decode, or a suspended sandbox); only a change helps. Retryable: the API
	// server refused it in this step, and another try may help.
	Blocked, Retryable bool
	// Holder is who it belongs to.
	Holder Holder
	// Refused: its claim has refused it.
	Refused bool
	// Warm: it was made for a pool.
	Warm bool
	// ClaimKnows: the status of its claim names it and says bound.
	ClaimKnows bool
	// Loan is what the shelf says of its adoption.
	Loan Loan
	// Pod is what is known of its pod, and State that pod's state.
	Pod   PodView
	State State
	// Readiness is how ready it is, in one reason: what its status has to say.
	Readiness Reason
	// Reported is the readiness of the last report that this step knows its status
	// agrees with.
	Reported Reason
	// StatusDelay is how long its status shall still stay as it is: a launch that
	// goes well is reported once, when it is over.
	StatusDelay time.Duration
	// PodDelay is how long the next pod has to wait, because the last ones vanished
	// as fast as they were made.
	PodDelay time.Duration
}

// StepSandbox decides the next step of a sandbox and its pod.
func StepSandbox(f SandboxFacts) Decision {
	lacksPod := f.Pod == PodNone && !f.Blocked && f.Holder != HolderGone
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Terminating:
		return rest(ReasonTerminating)
	case f.Retired:
		return f.leave()
	case f.Holder == HolderUnseen:
		return act(ReadClaim, ReasonClaimUnseen)
	case f.Holder == HolderHidden:
		return act(Wait, ReasonWatchBehind)
	case f.Holder == HolderElsewhere && f.Refused:
		return act(Retire, ReasonOutdated)
	case f.Holder == HolderElsewhere:
		return act(Retire, ReasonSurplus)
	case f.Holder == HolderPool && f.Retire != "":
		return act(Retire, f.Retire)
	case lacksPod && f.PodDelay <= 0:
		return act(Create, ReasonPodMissing)
	case f.reports() && f.StatusDelay <= 0:
		return act(Report, f.Readiness)
	case lacksPod:
		return f.delayed(rest(ReasonPodsEnd).in(f.PodDelay))
	case f.owns():
		return f.delayed(f.stepPod())
	}
	return f.delayed(f.end(f.Readiness))
}

// reports reports whether the status may differ from what it should be. Nobody
// reads the status of a sandbox whose claim has vanished.
func (f SandboxFacts) reports() bool { return f.Holder != HolderGone && f.Reported != f.Readiness }

// delayed has a step that ends come again when the status is due.
func (f SandboxFacts) delayed(d Decision) Decision {
	if !d.Ends() || !f.reports() {
		return d
	}
	if d.After == 0 || f.StatusDelay < d.After {
		d.After = f.StatusDelay
	}
	return d
}

// end ends the step: what was refused is tried again, ever more rarely.
func (f SandboxFacts) end(why Reason) Decision {
	if f.Retryable {
		return act(Retry, why)
	}
	return rest(why)
}

// owns reports whether there is one pod whose state is ours to move. One that is
// terminating still is, so that it does not go on saying that it is free.
func (f SandboxFacts) owns() bool {
	return f.Pod == PodStarting || f.Pod == PodReady || f.Pod == PodTerminating
}

// leave takes a retired sandbox out: its pod's state first, so that everyone sees
// it, then the object.
func (f SandboxFacts) leave() Decision {
	if f.owns() {
		for _, event := range []Event{EventRetired, EventReleased} {
			if _, ok := Pod.Edge(f.State, event); ok {
				return move(event, ReasonRetired)
			}
		}
	}
	return act(Delete, ReasonRetired)
}

// stepPod decides the next move of a sandbox's pod.
func (f SandboxFacts) stepPod() Decision {
	ready := f.Pod == PodReady
	switch f.Holder {
	case HolderPool:
		switch {
		case f.State == Warming && ready:
			return move(EventWarmed, ReasonFree)
		case f.State == Ready && !ready:
			return move(EventCooled, ReasonCooled)
		}
	case HolderNobody:
		if f.State == Warming && ready {
			return move(EventHanded, ReasonUsers)
		}
	case HolderGone:
		switch {
		case f.State == Ready, f.State == Warming && f.Warm:
			return move(EventReserved, ReasonClaimGone)
		case f.State == Binding:
			return move(EventReleased, ReasonClaimGone)
		}
	case HolderClaim:
		return f.hand()
	case HolderElsewhere, HolderUnseen, HolderHidden: // decided before: retired, or asked about
	}
	return f.end(f.Readiness)
}

// hand moves the pod of a claim's sandbox. Its state rests while the step that
// adopted it is still on its way to tell the claim: then it is bound in one move.
func (f SandboxFacts) hand() Decision {
	adopted := f.State == Ready || f.State == Warming && f.Warm
	switch {
	case f.ClaimKnows && (f.State == Ready || f.State == Binding),
		f.ClaimKnows && f.State == Warming && f.Pod == PodReady:
		return move(EventHanded, ReasonClaimKnows)
	case f.ClaimKnows || !adopted:
		return f.end(f.Readiness)
	case f.Loan == LoanUnknown:
		return act(AskShelf, ReasonLoanUnknown)
	case f.Loan == LoanOpen:
		return act(Wait, ReasonAdopting)
	}
	return move(EventReserved, ReasonClaimUnaware)
}
