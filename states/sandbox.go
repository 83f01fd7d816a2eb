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
	// PodAdoptable: a pod of that name is nobody's, and says that it may be adopted.
	PodAdoptable
)

// PodViews lists every view of a pod.
var PodViews = []PodView{PodNone, PodStarting, PodReady, PodTerminating, PodForeign, PodMultiple, PodAdoptable}

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
	// Problem: it, or what else the sandbox owns, cannot be made as things stand.
	// Invalid: nor will it ever be.
	Problem, Invalid bool
	// Suspended: the sandbox shall have no pod. Expired: nor will it ever.
	Suspended, Expired bool
	// ServiceMissing: the sandbox needs a Service and has none.
	ServiceMissing bool
}

// ReadinessOf says how ready a sandbox is, in one reason. The end of its time comes
// first, for nothing changes that any more, and then a problem: it is what a person
// can act on.
func ReadinessOf(f PodFacts) Reason {
	switch {
	case f.Expired:
		return ReasonExpired
	case f.Invalid:
		return ReasonInvalid
	case f.Problem:
		return ReasonPodProblem
	case f.View == PodMultiple:
		return ReasonPodMultiple
	case f.View == PodNone && f.Suspended:
		return ReasonSuspended
	case f.Suspended:
		return ReasonSuspending
	case f.View == PodForeign:
		return ReasonPodForeign
	case f.View == PodNone || f.View == PodAdoptable:
		return ReasonPodMissing
	case f.Phase == PodPhaseSucceeded:
		return ReasonPodSucceeded
	case f.Phase == PodPhaseFailed:
		return ReasonPodFailed
	case f.View == PodReady && f.ServiceMissing:
		return ReasonServiceMissing
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

// How long a launch may take until it is told. The not-ready status of a new sandbox
// stays unwritten: a launch that goes well is over by then and costs one status
// write. Nobody waits for a pool member's status: until a claim has it, its pod's
// state and the pool's counts say how it is.
const (
	LaunchDelay = 5 * time.Second
	MemberDelay = time.Minute
)

// StatusDelayOf is how long the status of a sandbox may stay as it is, by the age of its
// launch. It may not when it was reported before, when the launch is over, well or badly,
// or when something that a person can act on holds it up.
func StatusDelayOf(f PodFacts, holder Holder, reported bool, age time.Duration) time.Duration {
	over := f.View == PodReady || f.View == PodMultiple || f.View == PodForeign
	stuck := f.Problem || f.Invalid || f.Suspended || f.Expired || f.Unscheduled || f.Phase == PodPhaseSucceeded || f.Phase == PodPhaseFailed
	switch {
	case reported || over || stuck:
		return 0
	case holder == HolderPool:
		return max(MemberDelay-age, 0)
	}
	return max(LaunchDelay-age, 0)
}

// SyncDelayOf is how long the metadata of a pod of an age may stay as it is. While a pod
// is launched the scheduler and the kubelet write it, and a write beside theirs would be
// lost; its next move brings the metadata with it.
func SyncDelayOf(pod PodView, state State, age time.Duration) time.Duration {
	if pod != PodStarting || state != Warming {
		return 0
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

// An Upkeep is what has to be done about an object that a sandbox owns.
type Upkeep uint8

// The upkeeps.
const (
	// UpkeepNone: it is as it should be, or nothing can be done about it.
	UpkeepNone Upkeep = iota
	// UpkeepCreate: it is missing.
	UpkeepCreate
	// UpkeepSync: it is there and not as it should be, or not the sandbox's own yet.
	UpkeepSync
	// UpkeepDelete: it should not be.
	UpkeepDelete
)

// of is the decision that an upkeep asks for.
func (u Upkeep) of(p Part, why Reason) Decision {
	return part([...]Act{Rest, Create, Sync, Delete}[u], p, why)
}

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
	// Suspended: it shall have no pod for now. PodUnseen: it is suspended, no pod is shown,
	// its status does not say yet that its own ends, and the API server was not asked.
	Suspended, PodUnseen bool
	// Expired: its time is over, and it never gets a pod again. Ephemeral: it is
	// deleted then. ExpiresIn is how long until it has to be looked at for that; zero
	// if it has no such time.
	Expired, Ephemeral bool
	ExpiresIn          time.Duration
	// Volumes and Service are what has to be done about its claims for storage, and
	// about its Service.
	Volumes, Service Upkeep
	// Blocked: its pod cannot be made as things stand (a pod spec that does not
	// decode, storage that is somebody else's); only a change helps. Retryable: the API
	// server refused it in this step, and another try may help.
	Blocked, Retryable bool
	// Unprotected: its pod would run without the NetworkPolicy of its template.
	Unprotected bool
	// Holder is who it belongs to.
	Holder Holder
	// Orphan is what is known of it as a member that has lost its pool.
	Orphan Orphan
	// Refused: its claim has refused it.
	Refused bool
	// ClaimEnds: its claim is still there and is being deleted. ClaimUntold: that claim
	// was never told of a sandbox.
	ClaimEnds, ClaimUntold bool
	// Warm: it was made for a pool. Own: it was made for the claim that holds it.
	Warm, Own bool
	// ClaimKnows: the status of its claim names it and says bound.
	ClaimKnows bool
	// Loan is what the shelf says of its adoption.
	Loan Loan
	// Pod is what is known of its pod, and State that pod's state.
	Pod   PodView
	State State
	// Drifted: that pod's labels or annotations are not what they should be.
	Drifted bool
	// SyncDelay is how long they shall still stay so.
	SyncDelay time.Duration
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

// StepSandbox decides the next step of a sandbox and what it owns.
func StepSandbox(f SandboxFacts) Decision {
	switch {
	case f.Gone:
		return rest(ReasonGone)
	case f.Terminating:
		return rest(ReasonTerminating)
	case f.Retired && f.Holder == HolderUnseen: // the mark is not to be believed if the claim was told of it
		return act(ReadClaim, ReasonClaimUnseen)
	case f.Retired && f.Holder == HolderHidden:
		return act(Wait, ReasonWatchBehind)
	case f.Retired:
		return f.leave()
	case f.Holder == HolderEnded:
		return rest(ReasonClaimEnded)
	}
	return f.expiring(f.live())
}

// live decides the next step of a sandbox that has not begun to leave. What it owns
// is made in the order in which it is needed: storage, the pod, the Service.
func (f SandboxFacts) live() Decision {
	lacksPod := f.Pod == PodNone && !f.Blocked && !f.Suspended
	orphaned, orphan := f.adopted()
	switch {
	case f.Holder == HolderUnseen:
		return act(ReadClaim, ReasonClaimUnseen)
	case f.Holder == HolderHidden:
		return act(Wait, ReasonWatchBehind)
	case f.Holder == HolderElsewhere && f.Refused:
		return act(Retire, ReasonOutdated)
	case f.Holder == HolderElsewhere:
		return act(Retire, ReasonSurplus)
	case orphan:
		return orphaned
	case f.Holder == HolderPool && f.Retire != "":
		return act(Retire, f.Retire)
	case f.Holder == HolderPool && f.Expired:
		return act(Retire, ReasonStuck)
	case f.Holder == HolderGone:
		return f.stepPod()
	case f.Expired:
		return f.expire()
	case f.Volumes != UpkeepNone:
		return f.Volumes.of(PartVolumes, ReasonVolumesDiffer)
	case f.Suspended && f.runs():
		return part(Delete, PartPod, ReasonSuspending)
	case lacksPod && !f.Unprotected && f.PodDelay <= 0:
		return part(Create, PartPod, ReasonPodMissing)
	case f.Pod == PodAdoptable && !f.Blocked && !f.Suspended:
		return part(Sync, PartPod, ReasonPodAdoptable)
	case f.Service != UpkeepNone && f.Pod != PodMultiple:
		return f.Service.of(PartService, ReasonServiceDiffers)
	case f.PodUnseen:
		return act(ReadPod, ReasonPodUnseen)
	case f.following():
		return f.delayed(f.hand())
	case f.reports() && f.StatusDelay <= 0:
		return act(Report, f.Readiness)
	case lacksPod && f.Unprotected:
		return f.delayed(act(Wait, ReasonUnprotected))
	case lacksPod:
		return f.delayed(rest(ReasonPodsEnd).in(f.PodDelay))
	case f.owns():
		return f.delayed(f.stepPod())
	}
	return f.delayed(f.end(f.Readiness))
}

// expire ends a sandbox whose time is over: its status says so first, so that
// whoever sees its pod go knows why.
func (f SandboxFacts) expire() Decision {
	switch {
	case f.reports():
		return act(Report, f.Readiness)
	case f.runs():
		return part(Delete, PartPod, ReasonExpired)
	case f.Service == UpkeepDelete:
		return part(Delete, PartService, ReasonExpired)
	case f.Ephemeral:
		return act(Delete, ReasonExpired)
	}
	return f.end(ReasonExpired)
}

// expiring has a step that ends come again when the sandbox's time is over.
func (f SandboxFacts) expiring(d Decision) Decision {
	if d.Ends() && f.ExpiresIn > 0 && (d.After == 0 || f.ExpiresIn < d.After) {
		d.After = f.ExpiresIn
	}
	return d
}

// runs reports whether there is a pod of its own that nobody has deleted yet.
func (f SandboxFacts) runs() bool { return f.Pod == PodStarting || f.Pod == PodReady }

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

// Stays is the state that the pod stays in when no move is due. A claim's pod that a
// hand has called stale is bound all the same: no edge leads back, and none is needed.
func (f SandboxFacts) Stays() State {
	if f.Holder == HolderClaim && f.ClaimKnows && f.State == Stale {
		return Bound
	}
	return f.State
}

// stepPod decides the next move of a sandbox's pod.
func (f SandboxFacts) stepPod() Decision {
	ready := f.Pod == PodReady
	if !f.owns() {
		return f.end(f.Readiness)
	}
	switch f.Holder {
	case HolderPool:
		switch {
		case f.State == Warming && ready:
			return move(EventWarmed, ReasonFree)
		case f.State == Ready && !ready:
			return move(EventCooled, ReasonCooled)
		}
	case HolderNobody:
		if f.State == Warming && ready && !f.Warm { // a warm one is an orphan, and may get a pool again
			return move(EventHanded, ReasonUsers)
		}
	case HolderGone:
		switch {
		case f.ClaimEnds && (f.State == Ready || f.State == Warming && f.Warm):
			// A finalizer may keep the claim for long. Once it is gone the garbage collector
			// deletes the pod, and a move would only be in the way of that.
			return move(EventReserved, ReasonClaimGone)
		case f.State == Binding, f.ClaimEnds && f.ClaimUntold && f.State == Bound:
			return move(EventReleased, ReasonClaimGone)
		}
	case HolderClaim:
		return f.hand()
	case HolderElsewhere, HolderEnded, HolderUnseen, HolderHidden: // decided before: retired, or asked about
	}
	return f.settle()
}

// following reports whether the pod of a claim's sandbox is about to follow. That comes
// before the sandbox's status: a claim becomes Ready by that of its own sandbox, and its
// pod must be its own by then. Nobody waits for what the status says of an adoption.
func (f SandboxFacts) following() bool {
	if f.Holder != HolderClaim || !f.owns() {
		return false
	}
	act := f.hand().Act
	return act == Move || act == AskShelf || act == Wait
}

// settle brings the metadata of a pod in line whose state is right. Of a pod that
// terminates, or that nobody holds any more, it does not matter.
func (f SandboxFacts) settle() Decision {
	switch {
	case !f.Drifted || !f.runs() || f.Holder == HolderGone:
		return f.end(f.Readiness)
	case f.SyncDelay > 0:
		return f.end(f.Readiness).in(f.SyncDelay)
	}
	return part(Sync, PartPod, ReasonMetadataDiffers)
}

// hand moves the pod of a claim's sandbox. The step that adopts a warm sandbox hands its
// pod over and tells the claim; the sandbox rests meanwhile. What is left is a pod that was replaced, and the
// pod of a sandbox that was made for its claim: nobody else ever gets that.
func (f SandboxFacts) hand() Decision {
	adopted := f.State == Ready || f.State == Warming && f.Warm
	untold := adopted || f.State == Bound && f.Warm
	switch {
	case f.ClaimKnows && (f.State == Ready || f.State == Binding),
		f.ClaimKnows && f.State == Warming && f.Pod == PodReady:
		return move(EventHanded, ReasonClaimKnows)
	case f.Own && f.State == Warming && f.Pod == PodReady:
		return move(EventHanded, ReasonOwnReady)
	case f.ClaimKnows:
		return f.settle()
	case !untold:
		return f.end(f.Readiness)
	case f.Loan == LoanUnknown:
		return act(AskShelf, ReasonLoanUnknown)
	case f.Loan == LoanOpen:
		return act(Wait, ReasonAdopting)
	case !adopted: // the claim's next step tells it
		return f.end(f.Readiness)
	}
	return move(EventReserved, ReasonClaimUnaware)
}
