package states

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// pauses are a delay of the status and one of the pod each: either longer than the
// other.
var pauses = [][2]time.Duration{{0, 0}, {0, time.Second}, {time.Second, 0}, {time.Second, time.Minute}, {time.Minute, time.Second}}

// beside are what there may be to do about a sandbox beside the state of its pod.
var beside = []SandboxFacts{
	{Suspended: true}, {Suspended: true, PodUnseen: true}, {Suspended: true, Blocked: true}, {Suspended: true, Volumes: UpkeepCreate, Service: UpkeepSync},
	{Expired: true}, {Expired: true, Ephemeral: true, Service: UpkeepDelete}, {Expired: true, Suspended: true},
	{ExpiresIn: 2 * time.Second}, {Volumes: UpkeepCreate}, {Volumes: UpkeepSync, Service: UpkeepCreate},
	{Service: UpkeepCreate, ExpiresIn: time.Hour}, {Service: UpkeepSync}, {Service: UpkeepDelete}, {Drifted: true}, {Drifted: true, SyncDelay: time.Second},
}

// with are the facts of a sandbox and what there is to do beside.
func (f SandboxFacts) with(more SandboxFacts) SandboxFacts {
	f.Suspended, f.Expired, f.Ephemeral, f.ExpiresIn = more.Suspended, more.Expired, more.Ephemeral, more.ExpiresIn
	f.PodUnseen = more.PodUnseen
	f.Volumes, f.Service, f.Drifted, f.Blocked = more.Volumes, more.Service, more.Drifted, f.Blocked || more.Blocked
	f.SyncDelay = more.SyncDelay
	f.Readiness = ReadinessOf(PodFacts{View: f.Pod, Phase: PodPhaseRunning, Problem: f.Blocked, Suspended: f.Suspended, Expired: f.Expired})
	if f.Reported != "" {
		f.Reported = f.Readiness
	}
	return f
}

// eachSandbox calls test with every value of the facts of a sandbox.
func eachSandbox(test func(f SandboxFacts)) {
	for _, holder := range Holders {
		for _, pod := range PodViews {
			for _, state := range words {
				for _, loan := range loans {
					for flags := range 1 << 11 {
						on := func(bit int) bool { return flags&(1<<bit) != 0 }
						f := SandboxFacts{
							Terminating: on(0), Retired: on(1), Blocked: on(2), Warm: on(3), ClaimKnows: on(4), Retryable: on(5),
							Refused: on(6), Unprotected: on(9), ClaimEnds: on(10), Holder: holder, Pod: pod, State: state, Loan: loan,
						}
						f.ClaimUntold = f.ClaimEnds && f.ClaimKnows
						if f.Holder == HolderClaim { // the same bit, for it has no other use there
							f.ClaimEnds, f.ClaimUntold, f.Own = false, false, on(10) && !f.Warm
						}
						if f.ClaimEnds && f.Holder != HolderGone || on(10) && f.Holder == HolderClaim && f.Warm || f.Retryable && !f.Blocked || f.Refused && f.Holder != HolderElsewhere || f.Unprotected && f.Pod != PodNone {
							continue
						}
						f.Readiness = ReadinessOf(PodFacts{View: pod, Phase: PodPhaseRunning, Problem: f.Blocked})
						if on(7) {
							f.Reported = f.Readiness
						}
						if on(8) {
							f.Retire = ReasonStuck
						}
						for _, pause := range pauses {
							f.StatusDelay, f.PodDelay = pause[0], pause[1]
							test(f)
						}
						f.StatusDelay, f.PodDelay = 0, 0
						for _, more := range beside {
							test(f.with(more))
						}
					}
				}
			}
		}
	}
}

func TestEverySandboxIsDecided(t *testing.T) {
	g := NewWithT(t)
	taken := map[Edge]bool{}
	legal := map[[2]string]bool{}
	eachSandbox(func(f SandboxFacts) {
		d := StepSandbox(f)
		once(t, incomplete(d) == "", f, d)
		if d.Act != Move {
			return
		}
		pair := [2]string{string(f.State), string(d.About.Event)}
		if !legal[pair] {
			judged(g, Pod, f.State, d, f)
			legal[pair] = true
		}
		edge, _ := Pod.Edge(f.State, d.About.Event)
		taken[edge] = true
	})
	for _, e := range Pod.Edges {
		g.Expect(taken[e]).To(BeTrue(), "no facts make a pod go from %s to %s by %s", e.From, e.To, e.Event)
	}
}

// lives reports whether a sandbox has not begun to leave.
func (f SandboxFacts) lives() bool { return !f.Gone && !f.Terminating && !f.Retired }

// retires reports whether a sandbox is given up.
func (f SandboxFacts) retires() bool {
	return f.Holder == HolderElsewhere || f.Holder == HolderPool && (f.Retire != "" || f.Expired)
}

// hasHolder reports whether it is known whose a sandbox is.
func (f SandboxFacts) hasHolder() bool { return f.Holder != HolderUnseen && f.Holder != HolderHidden }

// stays reports whether a sandbox lives and nobody gives it up.
func (f SandboxFacts) stays() bool {
	return f.lives() && f.hasHolder() && !f.retires() && f.Holder != HolderEnded
}

// lacksPod reports whether a sandbox shall have a pod and has none.
func (f SandboxFacts) lacksPod() bool {
	return f.stays() && f.Holder != HolderGone && !f.Blocked && !f.Suspended && !f.Expired && f.Pod == PodNone
}

func TestWhatNoSandboxEverDoes(t *testing.T) {
	never := map[string]func(f SandboxFacts, d Decision) bool{
		"one that is gone does nothing": func(f SandboxFacts, _ Decision) bool {
			f.Gone = true
			return StepSandbox(f) == Decision{Reason: ReasonGone}
		},
		"one that is terminating does nothing": func(f SandboxFacts, d Decision) bool {
			return !f.Terminating || d == Decision{Reason: ReasonTerminating}
		},
		"it does what sandboxes do": func(_ SandboxFacts, d Decision) bool {
			return d.Act != Adopt && d.Act != Refuse && d.Act != Annotate && d.Act != Label && d.Act != ReadPool &&
				d.Act != ReadTemplate && d.Act != ReadSandbox && d.Act != ProveFresh
		},
		"one is retired only when its claim has another or has refused it, or its pool gives it up": func(f SandboxFacts, d Decision) bool {
			return d.Act != Retire || f.retires()
		},
		"one that its claim, its user or a vanished claim holds is never retired": func(f SandboxFacts, d Decision) bool {
			return d.Act != Retire || f.Holder != HolderClaim && f.Holder != HolderNobody && f.Holder != HolderGone
		},
		"one that is given up is retired, for the reason it is given up for": func(f SandboxFacts, d Decision) bool {
			why := f.Retire
			if why == "" { // its time is over
				why = ReasonStuck
			}
			if f.Holder == HolderElsewhere {
				why = ReasonSurplus
			}
			if f.Refused {
				why = ReasonOutdated
			}
			return !f.lives() || !f.retires() || d == act(Retire, why)
		},
		"no sandbox is deleted that was not retired before, and whose time is not over": func(f SandboxFacts, d Decision) bool {
			return d.Act != Delete || d.About.Part != PartSelf || f.Retired || f.Expired && f.Ephemeral && f.Holder != HolderPool
		},
		"a sandbox whose time is over is deleted only when that was reported, and its pod and its Service go": func(f SandboxFacts, d Decision) bool {
			return d.Act != Delete || f.Retired || !f.Expired || f.Reported == ReasonExpired && (d.About.Part != PartSelf || !f.runs() && f.Service != UpkeepDelete)
		},
		"no pod is deleted but of a sandbox that is suspended, or whose time is over": func(f SandboxFacts, d Decision) bool {
			return d.Act != Delete || d.About.Part != PartPod || (f.Suspended || f.Expired) && f.runs() && f.Holder != HolderGone
		},
		"storage is never deleted, and everything else before the pod waits for it": func(f SandboxFacts, d Decision) bool {
			first := d.About.Part == PartVolumes || d.Act == ReadClaim || d.Act == Wait || d.Act == Retire || d.Ends()
			waits := !f.stays() || f.Volumes == UpkeepNone || f.Expired || f.Holder == HolderGone
			return (d.About.Part != PartVolumes || d.Act != Delete) && (waits || first)
		},
		"nothing is made for a sandbox whose time is over": func(f SandboxFacts, d Decision) bool {
			return !f.Expired || d.Act != Create && d.Act != Sync
		},
		"a Service is left alone while several pods are there": func(f SandboxFacts, d Decision) bool {
			return d.About.Part != PartService || f.Pod != PodMultiple || f.Expired
		},
		"one whose claim holds nothing any more is left to the claim": func(f SandboxFacts, d Decision) bool {
			return !f.lives() || f.Holder != HolderEnded || d == rest(ReasonClaimEnded)
		},
		"a retired one is deleted only when its pod says so, or has no state to say it with": func(f SandboxFacts, d Decision) bool {
			return d.Act != Delete || !f.Retired || !f.owns() || f.State == Stale
		},
		"a retired one only leaves": func(f SandboxFacts, d Decision) bool {
			leaves := d.Act == Delete || d.About.Event == EventRetired || d.About.Event == EventReleased
			unknown := f.Holder == HolderUnseen && d.Act == ReadClaim || f.Holder == HolderHidden && d.Act == Wait
			return !f.Retired || f.Terminating || leaves || unknown
		},
		"the retired event needs a retired sandbox": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventRetired || f.Retired
		},
		"a claim that is unseen is read before anything happens": func(f SandboxFacts, d Decision) bool {
			return f.Holder != HolderUnseen || !f.lives() || d.Act == ReadClaim
		},
		"a claim that was read and that the watch does not show is waited for": func(f SandboxFacts, d Decision) bool {
			return f.Holder != HolderHidden || !f.lives() || d.Act == Wait && d.Reason == ReasonWatchBehind
		},
		"no other claim is read": func(f SandboxFacts, d Decision) bool {
			return d.Act != ReadClaim || f.Holder == HolderUnseen
		},
		"the shelf is asked only when it was not, and only about what a claim that was not told holds": func(f SandboxFacts, d Decision) bool {
			return d.Act != AskShelf || f.Loan == LoanUnknown && f.Holder == HolderClaim && !f.ClaimKnows
		},
		"a pod is made only where there is none": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || d.About.Part != PartPod || f.Pod == PodNone && !f.Blocked && !f.Suspended && !f.Retired
		},
		"no pod is made for a claim that vanished": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || f.Holder != HolderGone
		},
		"the state of a pod that is somebody else's, or of one among several, is left alone": func(f SandboxFacts, d Decision) bool {
			return d.Act != Move || f.owns()
		},
		"a pod becomes free only in a pool, and only when it is Ready": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventWarmed || f.Holder == HolderPool && f.Pod == PodReady
		},
		"a pod is reserved only when it was adopted": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventReserved || f.Holder == HolderClaim || f.Holder == HolderGone
		},
		"a pod of a claim that is there no more is left to the garbage collector": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventReserved || f.Holder != HolderGone || f.ClaimEnds
		},
		"a pod is reserved only when its claim does not know": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventReserved || f.Holder != HolderClaim || !f.ClaimKnows
		},
		"a pod is never reserved while its loan is open, or before that is known": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventReserved || f.Holder != HolderClaim || f.Loan == LoanClosed
		},
		"a pod whose loan is open rests as it is, and its step keeps waiting": func(f SandboxFacts, d Decision) bool {
			rests := f.stays() && f.Holder == HolderClaim && !f.ClaimKnows && f.Loan == LoanOpen && d.Act != Create && d.Act != Report
			rests = rests && !f.Expired && !f.Suspended && f.Volumes == UpkeepNone && f.Service == UpkeepNone
			adopted := f.owns() && (f.State == Ready || (f.State == Warming || f.State == Bound) && f.Warm)
			return !rests || !adopted || d.Act == Wait && d.Reason == ReasonAdopting
		},
		"a pod is handed over only to a claim that knows or for which it was made, or to a user, and to no pool": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventHanded || f.Holder == HolderClaim && (f.ClaimKnows || f.Own) || f.Holder == HolderNobody
		},
		// Scheduler and kubelet write it at the same time, and one of the writes is lost.
		"the label of a pod that is starting is left alone, unless it leaves or was warm when it was taken": func(f SandboxFacts, d Decision) bool {
			starts := d.Act == Move && f.Pod == PodStarting && f.State == Warming
			return !starts || d.About.Event == EventRetired || d.About.Event == EventReserved && f.Warm
		},
		"a pod that is starting is handed over only when it is Ready": func(f SandboxFacts, d Decision) bool {
			return d.About.Event != EventHanded || f.State != Warming || f.Pod == PodReady
		},
		"a pod is handed over in one move, from whatever its state is": func(f SandboxFacts, d Decision) bool {
			knows := f.stays() && f.Holder == HolderClaim && f.ClaimKnows && f.Pod == PodReady && (d.Act == Move || d.Ends())
			knows = knows && !f.Expired
			return !knows || f.State == Bound || f.State == Stale || d == move(EventHanded, ReasonClaimKnows)
		},
		"a bound pod stays bound, unless its claim will never be told of it": func(f SandboxFacts, d Decision) bool {
			never := f.Retired || f.Holder == HolderGone && f.ClaimEnds && f.ClaimUntold
			return f.State != Bound || d.Act != Move || never && d.About.Event == EventReleased
		},
		"a status that may differ is reported, now or when its delay is over": func(f SandboxFacts, d Decision) bool {
			return !f.stays() || !f.reports() || !d.Ends() || d.Reason == ReasonAdopting || d.After > 0 && d.After <= f.StatusDelay
		},
		"a report says how ready it is, and nothing is reported twice": func(f SandboxFacts, d Decision) bool {
			return d.Act != Report || d.Reason == f.Readiness && d.Reason != f.Reported
		},
		"the status of a sandbox whose claim has vanished is not written": func(f SandboxFacts, d Decision) bool {
			return d.Act != Report || f.Holder != HolderGone
		},
		"a status is written before the pod's state when its time has come, unless a claim holds it": func(f SandboxFacts, d Decision) bool {
			return d.Act != Move || f.Retired || !f.reports() || f.StatusDelay > 0 || f.Holder == HolderClaim
		},
		"no status is written beside an adoption": func(f SandboxFacts, d Decision) bool {
			adopting := f.Holder == HolderClaim && f.Warm && !f.ClaimKnows && f.Loan == LoanOpen && f.owns() && (f.State == Ready || f.State == Warming || f.State == Bound)
			return d.Act != Report || !adopting || f.Expired
		},
		"what was refused is tried again, once that was reported or will be": func(f SandboxFacts, d Decision) bool {
			return !f.Retryable || !f.stays() || d.Act != Rest
		},
		"nothing else is tried again": func(f SandboxFacts, d Decision) bool {
			return d.Act != Retry || f.Retryable
		},
		"no pod is made before its delay is over": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || d.About.Part != PartPod || f.PodDelay <= 0
		},
		"no pod is made that would run without protection": func(f SandboxFacts, d Decision) bool {
			return d.Act != Create || d.About.Part != PartPod || !f.Unprotected
		},
		"a pod that is delayed is looked after in time": func(f SandboxFacts, d Decision) bool {
			return !f.lacksPod() || f.Unprotected || !d.Ends() || d.After > 0 && d.After <= f.PodDelay
		},
		"no pod's metadata is written before its delay is over": func(f SandboxFacts, d Decision) bool {
			return d.Reason != ReasonMetadataDiffers || f.SyncDelay <= 0
		},
		"metadata whose delay is not over is looked after in time": func(f SandboxFacts, d Decision) bool {
			now := f
			now.SyncDelay = 0
			return StepSandbox(now).Reason != ReasonMetadataDiffers || f.SyncDelay <= 0 || d.After > 0 && d.After <= f.SyncDelay
		},
		"a sandbox that will end is looked at in time": func(f SandboxFacts, d Decision) bool {
			return f.Holder == HolderEnded || !f.lives() || f.ExpiresIn == 0 || !d.Ends() || d.After > 0 && d.After <= f.ExpiresIn
		},
		"nobody looks again but for a status, a pod, its metadata or an end that is still to come": func(f SandboxFacts, d Decision) bool {
			return d.After == 0 || d.After == f.ExpiresIn || f.reports() && d.After == f.StatusDelay || f.lacksPod() && d.After == f.PodDelay ||
				f.Drifted && d.After == f.SyncDelay
		},
	}
	wrong := map[string]string{}
	eachSandbox(func(f SandboxFacts) {
		d := StepSandbox(f)
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
			edge, _ := Pod.Edge(f.State, d.About.Event)
			f.State = edge.To
		}
		t.Fatalf("%+v never rests", was)
	})
}

// member is a sandbox of a pool, with a pod and its state. What a pod says is
// reported already.
func member(state State, pod PodView) SandboxFacts {
	readiness := ReadinessOf(PodFacts{View: pod})
	return SandboxFacts{Holder: HolderPool, Warm: true, Pod: pod, State: state, Readiness: readiness, Reported: readiness}
}

func (f SandboxFacts) heldBy(h Holder) SandboxFacts  { f.Holder = h; return f }
func (f SandboxFacts) knows() SandboxFacts           { f.ClaimKnows = true; return f }
func (f SandboxFacts) lent(l Loan) SandboxFacts      { f.Loan = l; return f }
func (f SandboxFacts) retired() SandboxFacts         { f.Retired = true; return f }
func (f SandboxFacts) refused() SandboxFacts         { f.Refused = true; return f }
func (f SandboxFacts) ending() SandboxFacts          { f.ClaimEnds = true; return f }
func (f SandboxFacts) untold() SandboxFacts          { f.ClaimUntold = true; return f }
func (f SandboxFacts) givenUp(r Reason) SandboxFacts { f.Retire = r; return f }
func (f SandboxFacts) podDelayed() SandboxFacts      { f.PodDelay = time.Minute; return f }
func (f SandboxFacts) due(delay time.Duration) SandboxFacts {
	f.Reported, f.StatusDelay = "", delay
	return f
}

// users is a sandbox that a user made.
func users(state State, pod PodView) SandboxFacts { return own(state, pod).heldBy(HolderNobody) }

// own is a sandbox that was made for one claim.
func own(state State, pod PodView) SandboxFacts {
	f := member(state, pod)
	f.Holder, f.Warm, f.Own = HolderClaim, false, true
	return f
}

// assigned is a sandbox that a user made and gave to a claim.
func assigned(state State, pod PodView) SandboxFacts {
	f := own(state, pod)
	f.Own = false
	return f
}

func TestStepSandbox(t *testing.T) {
	adopted := member(Ready, PodReady).heldBy(HolderClaim)
	suspended := SandboxFacts{Suspended: true, Readiness: ReasonSuspended, Reported: ReasonSuspended}
	refusedPod := SandboxFacts{Holder: HolderPool, Blocked: true, Retryable: true, Readiness: ReasonPodProblem, Reported: ReasonPodProblem}
	for _, row := range []struct {
		name  string
		facts SandboxFacts
		act   Act
		event Event
		why   Reason
		after time.Duration
		part  Part
	}{
		{name: "a new member gets its pod", facts: member(Warming, PodNone), act: Create, why: ReasonPodMissing, part: PartPod},
		{name: "a member whose pod is starting waits for it", facts: member(Warming, PodStarting), why: ReasonPodPending},
		{name: "a member whose pod became Ready is free", facts: member(Warming, PodReady), act: Move, event: EventWarmed, why: ReasonFree},
		{name: "a free member rests", facts: member(Ready, PodReady), why: ReasonPodReady},
		{name: "a free member that lost readiness is not free", facts: member(Ready, PodStarting), act: Move, event: EventCooled, why: ReasonCooled},
		{name: "a free member whose pod is being deleted is not free", facts: member(Ready, PodTerminating), act: Move, event: EventCooled, why: ReasonCooled},
		{name: "a member whose pods vanish waits before the next one", facts: member(Warming, PodNone).podDelayed(), why: ReasonPodsEnd, after: time.Minute},
		{name: "a member whose pods vanish says so first", facts: member(Warming, PodNone).podDelayed().due(0), act: Report, why: ReasonPodMissing},
		{name: "a member that its pool gives up is retired", facts: member(Ready, PodReady).givenUp(ReasonOutdated), act: Retire, why: ReasonOutdated},
		{name: "a member that its pool gives up gets no pod first", facts: member(Warming, PodNone).givenUp(ReasonSurplus), act: Retire, why: ReasonSurplus},
		{name: "a member that its pool gave up and a claim adopted is the claim's", facts: adopted.givenUp(ReasonSurplus).lent(LoanOpen), act: Wait, why: ReasonAdopting},

		{name: "a retired member's pod says so", facts: member(Ready, PodReady).retired(), act: Move, event: EventRetired, why: ReasonRetired},
		{name: "a retired member that is warming says so", facts: member(Warming, PodStarting).retired(), act: Move, event: EventRetired, why: ReasonRetired},
		{name: "a retired member whose pod says so is deleted", facts: member(Stale, PodReady).retired(), act: Delete, why: ReasonRetired},
		{name: "a retired member without a pod is deleted", facts: member(Warming, PodNone).retired(), act: Delete, why: ReasonRetired},

		{name: "an adopted member asks whether its claim's step is under way", facts: adopted, act: AskShelf, why: ReasonLoanUnknown},
		{name: "an adopted member waits while its claim's step is under way", facts: adopted.lent(LoanOpen), act: Wait, why: ReasonAdopting},
		{name: "an adopted member whose claim's step ended before the hand-over is reserved", facts: adopted.lent(LoanClosed), act: Move, event: EventReserved, why: ReasonClaimUnaware},
		{name: "an adopted member is reserved also when it lost readiness", facts: member(Warming, PodStarting).heldBy(HolderClaim).lent(LoanClosed), act: Move, event: EventReserved, why: ReasonClaimUnaware},
		{name: "an adopted member whose claim knows is handed over at once", facts: adopted.knows(), act: Move, event: EventHanded, why: ReasonClaimKnows},
		{name: "an adopted member whose claim knows is handed over whatever the shelf says", facts: adopted.knows().lent(LoanOpen), act: Move, event: EventHanded, why: ReasonClaimKnows},
		{name: "an adopted member whose claim knows waits to be Ready if it is warming", facts: member(Warming, PodStarting).heldBy(HolderClaim).knows(), why: ReasonPodPending},
		{name: "a reserved member waits until its claim knows", facts: member(Binding, PodReady).heldBy(HolderClaim), why: ReasonPodReady},
		{name: "a reserved member whose claim knows is handed over", facts: member(Binding, PodReady).heldBy(HolderClaim).knows(), act: Move, event: EventHanded, why: ReasonClaimKnows},
		{name: "a reserved member whose claim knows is handed over although it is not Ready now", facts: member(Binding, PodStarting).heldBy(HolderClaim).knows(), act: Move, event: EventHanded, why: ReasonClaimKnows},
		{name: "a member that was handed over waits until its claim is told", facts: member(Bound, PodReady).heldBy(HolderClaim).lent(LoanOpen), act: Wait, why: ReasonAdopting},
		{name: "a member that was handed over stays so when that step ended without telling", facts: member(Bound, PodReady).heldBy(HolderClaim).lent(LoanClosed), why: ReasonPodReady},
		{name: "a member that was handed over and retired is released", facts: member(Bound, PodReady).heldBy(HolderElsewhere).retired(), act: Move, event: EventReleased, why: ReasonRetired},
		{name: "a member that was handed over is released if its claim ends without being told", facts: member(Bound, PodReady).heldBy(HolderGone).ending().untold(), act: Move, event: EventReleased, why: ReasonClaimGone},
		{name: "a member that its claim was told of stays bound while the claim ends", facts: member(Bound, PodReady).heldBy(HolderGone).ending(), why: ReasonPodReady},
		{name: "a bound member that lost readiness stays bound", facts: member(Bound, PodStarting).heldBy(HolderClaim).knows(), why: ReasonPodPending},
		{name: "a bound member whose pod vanished gets another one", facts: member(Warming, PodNone).heldBy(HolderClaim).knows(), act: Create, why: ReasonPodMissing, part: PartPod},
		{name: "that other pod is the claim's at once when it is Ready", facts: member(Warming, PodReady).heldBy(HolderClaim).knows(), act: Move, event: EventHanded, why: ReasonClaimKnows},

		{name: "a claim's own sandbox gets its pod", facts: own(Warming, PodNone), act: Create, why: ReasonPodMissing, part: PartPod},
		{name: "a claim's own sandbox starts", facts: own(Warming, PodStarting), why: ReasonPodPending},
		{name: "a claim's own sandbox is handed over when it is Ready, before its status says so", facts: own(Warming, PodReady).due(0), act: Move, event: EventHanded, why: ReasonOwnReady},
		{name: "then its status says so", facts: own(Bound, PodReady).due(0), act: Report, why: ReasonPodReady},
		{name: "a claim's own sandbox is handed over when it is Ready and its claim knows", facts: own(Warming, PodReady).knows(), act: Move, event: EventHanded, why: ReasonClaimKnows},
		{name: "a sandbox that a user gave to a claim waits until the claim knows", facts: assigned(Warming, PodReady), why: ReasonPodReady},
		{name: "a sandbox that a user gave to a claim is handed over once the claim knows", facts: assigned(Warming, PodReady).knows(), act: Move, event: EventHanded, why: ReasonClaimKnows},

		{name: "a sandbox that a user made gets its pod", facts: own(Warming, PodNone).heldBy(HolderNobody), act: Create, why: ReasonPodMissing, part: PartPod},
		{name: "a sandbox that a user made is the user's when Ready", facts: own(Warming, PodReady).heldBy(HolderNobody), act: Move, event: EventHanded, why: ReasonUsers},
		{name: "a sandbox that a user made is left alone from then on", facts: own(Bound, PodStarting).heldBy(HolderNobody), why: ReasonPodPending},
		{name: "a suspended sandbox gets no pod", facts: suspended, why: ReasonSuspended},
		{name: "a suspended sandbox says so", facts: suspended.due(0), act: Report, why: ReasonSuspended},
		{name: "a suspended sandbox that shows no pod asks whether somebody else's has its name", facts: suspended.due(0).with(SandboxFacts{Suspended: true, PodUnseen: true}), act: ReadPod, why: ReasonPodUnseen},
		{name: "a suspended sandbox has its pod deleted", facts: users(Bound, PodReady).with(SandboxFacts{Suspended: true}), act: Delete, why: ReasonSuspending, part: PartPod},
		{name: "a suspended sandbox whose pod is being deleted waits", facts: users(Bound, PodTerminating).with(SandboxFacts{Suspended: true}), why: ReasonSuspending},
		{name: "a suspended sandbox leaves a pod of somebody else's alone", facts: users(Warming, PodForeign).with(SandboxFacts{Suspended: true}), why: ReasonSuspending},
		{name: "a member that a hand has suspended is not free any more", facts: member(Ready, PodTerminating).with(SandboxFacts{Suspended: true}), act: Move, event: EventCooled, why: ReasonCooled},
		{name: "a claim's sandbox that is suspended keeps its state", facts: member(Bound, PodTerminating).heldBy(HolderClaim).knows().with(SandboxFacts{Suspended: true}), why: ReasonSuspending},
		{name: "a sandbox that is resumed waits until the old pod is gone", facts: users(Bound, PodTerminating), why: ReasonPodTerminating},

		{name: "a sandbox whose time is over says so first", facts: users(Bound, PodReady).with(SandboxFacts{Expired: true}).due(0), act: Report, why: ReasonExpired},
		{name: "then its pod goes", facts: users(Bound, PodReady).with(SandboxFacts{Expired: true}), act: Delete, why: ReasonExpired, part: PartPod},
		{name: "then its Service", facts: users(Bound, PodTerminating).with(SandboxFacts{Expired: true, Service: UpkeepDelete}), act: Delete, why: ReasonExpired, part: PartService},
		{name: "one that is kept stays", facts: users(Bound, PodTerminating).with(SandboxFacts{Expired: true}), why: ReasonExpired},
		{name: "and gets no pod again", facts: users(Warming, PodNone).with(SandboxFacts{Expired: true}), why: ReasonExpired},
		{name: "one that is not kept goes too", facts: users(Bound, PodTerminating).with(SandboxFacts{Expired: true, Ephemeral: true}), act: Delete, why: ReasonExpired},
		{name: "a sandbox whose time will be over is looked at then", facts: users(Bound, PodReady).with(SandboxFacts{ExpiresIn: time.Hour}), why: ReasonPodReady, after: time.Hour},
		{name: "a member whose time is over will never be handed out", facts: member(Ready, PodReady).with(SandboxFacts{Expired: true}), act: Retire, why: ReasonStuck},
		{name: "a sandbox whose claim vanished is left to the garbage collector though its time is over", facts: users(Bound, PodReady).heldBy(HolderGone).with(SandboxFacts{Expired: true}), why: ReasonExpired},

		{name: "storage comes before the pod", facts: users(Warming, PodNone).with(SandboxFacts{Volumes: UpkeepCreate, Service: UpkeepCreate}), act: Create, why: ReasonVolumesDiffer, part: PartVolumes},
		{name: "storage that may be adopted is", facts: users(Warming, PodNone).with(SandboxFacts{Volumes: UpkeepSync}), act: Sync, why: ReasonVolumesDiffer, part: PartVolumes},
		{name: "the pod comes before the Service", facts: users(Warming, PodNone).with(SandboxFacts{Service: UpkeepCreate}), act: Create, why: ReasonPodMissing, part: PartPod},
		{name: "the Service comes before the status", facts: users(Warming, PodStarting).with(SandboxFacts{Service: UpkeepCreate}).due(0), act: Create, why: ReasonServiceDiffers, part: PartService},
		{name: "a Service that drifted is mended", facts: users(Bound, PodReady).with(SandboxFacts{Service: UpkeepSync}), act: Sync, why: ReasonServiceDiffers, part: PartService},
		{name: "a Service that nobody wants goes", facts: users(Bound, PodReady).with(SandboxFacts{Service: UpkeepDelete}), act: Delete, why: ReasonServiceDiffers, part: PartService},
		{name: "a pod that may be adopted is", facts: users(Warming, PodAdoptable), act: Sync, why: ReasonPodAdoptable, part: PartPod},
		{name: "a pod whose labels drifted is mended", facts: users(Bound, PodReady).with(SandboxFacts{Drifted: true}), act: Sync, why: ReasonMetadataDiffers, part: PartPod},
		{name: "a free pod's labels are mended too", facts: member(Ready, PodReady).with(SandboxFacts{Drifted: true}), act: Sync, why: ReasonMetadataDiffers, part: PartPod},
		{name: "a move mends the labels with it", facts: member(Warming, PodReady).with(SandboxFacts{Drifted: true}), act: Move, event: EventWarmed, why: ReasonFree},
		{name: "the labels of a pod that is launched wait", facts: users(Warming, PodStarting).with(SandboxFacts{Drifted: true, SyncDelay: time.Second}), why: ReasonPodUnready, after: time.Second},
		{name: "the labels of a pod whose launch takes long are mended", facts: users(Warming, PodStarting).with(SandboxFacts{Drifted: true}), act: Sync, why: ReasonMetadataDiffers, part: PartPod},
		{name: "the labels of a pod that terminates do not matter", facts: users(Bound, PodTerminating).with(SandboxFacts{Drifted: true}), why: ReasonPodTerminating},
		{name: "the labels of a pod whose claim does not know are left alone", facts: member(Binding, PodReady).heldBy(HolderClaim).with(SandboxFacts{Drifted: true}), why: ReasonPodReady},

		{name: "a sandbox whose pod is refused says so", facts: refusedPod.due(0), act: Report, why: ReasonPodProblem},
		{name: "a sandbox whose pod is refused tries again", facts: refusedPod, act: Retry, why: ReasonPodProblem},

		{name: "a sandbox whose claim is unseen reads it", facts: adopted.heldBy(HolderUnseen), act: ReadClaim, why: ReasonClaimUnseen},
		{name: "a sandbox whose claim is hidden waits for the watch", facts: adopted.heldBy(HolderHidden), act: Wait, why: ReasonWatchBehind},
		{name: "the free pod of a claim that is being deleted is reserved first", facts: adopted.heldBy(HolderGone).ending(), act: Move, event: EventReserved, why: ReasonClaimGone},
		{name: "the free pod of a claim that vanished waits for the garbage collector", facts: adopted.heldBy(HolderGone), why: ReasonPodReady},
		{name: "the reserved pod of a claim that vanished is released", facts: member(Binding, PodReady).heldBy(HolderGone), act: Move, event: EventReleased, why: ReasonClaimGone},
		{name: "the bound pod of a claim that vanished waits for the garbage collector", facts: member(Bound, PodReady).heldBy(HolderGone), why: ReasonPodReady},
		{name: "a sandbox whose claim vanished gets no pod", facts: member(Warming, PodNone).heldBy(HolderGone), why: ReasonPodMissing},
		{name: "a sandbox whose claim vanished reports nothing", facts: member(Bound, PodStarting).heldBy(HolderGone).due(0), why: ReasonPodPending},

		{name: "a sandbox whose claim has another is retired", facts: adopted.heldBy(HolderElsewhere), act: Retire, why: ReasonSurplus},
		{name: "a sandbox that its claim has refused is retired", facts: adopted.heldBy(HolderElsewhere).refused(), act: Retire, why: ReasonOutdated},
		{name: "a retired one that was reserved is released", facts: member(Binding, PodReady).heldBy(HolderElsewhere).retired(), act: Move, event: EventReleased, why: ReasonRetired},
		{name: "a retired one that was never reserved is retired", facts: adopted.heldBy(HolderElsewhere).retired(), act: Move, event: EventRetired, why: ReasonRetired},
		{name: "a retired one whose pod was handed over says so", facts: own(Bound, PodReady).retired(), act: Move, event: EventReleased, why: ReasonRetired},

		{name: "a pod of somebody else's is left alone", facts: member(Warming, PodForeign), why: ReasonPodForeign},
		{name: "several pods are left alone", facts: member(Warming, PodMultiple), why: ReasonPodMultiple},
		{name: "several pods are said in the status", facts: member(Warming, PodMultiple).due(0), act: Report, why: ReasonPodMultiple},

		{name: "a launch that goes well is reported when it is over", facts: member(Warming, PodStarting).due(time.Minute), why: ReasonPodPending, after: time.Minute},
		{name: "a launch that takes long is reported", facts: member(Warming, PodStarting).due(0), act: Report, why: ReasonPodPending},
		{name: "a delayed status does not hold up the state", facts: member(Warming, PodReady).due(time.Minute), act: Move, event: EventWarmed, why: ReasonFree},
		{name: "the status goes before the state when its time has come", facts: member(Warming, PodReady).due(0), act: Report, why: ReasonPodReady},
		{name: "a sandbox that is being deleted is left to the garbage collector", facts: SandboxFacts{Terminating: true, Retired: true, State: Ready, Pod: PodReady}, why: ReasonTerminating},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			d := StepSandbox(row.facts)
			judged(g, Pod, row.facts.State, d, row.facts)
			g.Expect(d).To(Equal(Decision{Act: row.act, About: About{Event: row.event, Part: row.part}, After: row.after, Reason: row.why}))
		})
	}
}

func TestHowReadyASandboxIs(t *testing.T) {
	for _, row := range []struct {
		name string
		is   PodFacts
		want Reason
	}{
		{"without a pod it lacks one", PodFacts{}, ReasonPodMissing},
		{"suspended it has none", PodFacts{Suspended: true}, ReasonSuspended},
		{"suspended while its pod still ends, it is suspending", PodFacts{Suspended: true, View: PodTerminating, Phase: PodPhaseRunning}, ReasonSuspending},
		{"suspended with a pod of somebody else's in its place, it is not suspended", PodFacts{Suspended: true, View: PodForeign}, ReasonSuspending},
		{"when its time is over nothing else counts", PodFacts{Expired: true, Problem: true, Invalid: true, View: PodReady}, ReasonExpired},
		{"what will never be accepted is told as that", PodFacts{Problem: true, Invalid: true}, ReasonInvalid},
		{"a pod that may be adopted is none yet", PodFacts{View: PodAdoptable}, ReasonPodMissing},
		{"a pod that is Ready lacks its Service", PodFacts{View: PodReady, Phase: PodPhaseRunning, ServiceMissing: true}, ReasonServiceMissing},
		{"what is wrong comes before everything else", PodFacts{Problem: true, View: PodMultiple, Suspended: true}, ReasonPodProblem},
		{"several pods are none of its own", PodFacts{View: PodMultiple, Phase: PodPhaseFailed}, ReasonPodMultiple},
		{"a pod of somebody else's is not its own, whatever became of it", PodFacts{View: PodForeign, Phase: PodPhaseSucceeded}, ReasonPodForeign},
		{"a pod that ended well has succeeded, even while it is being deleted", PodFacts{View: PodTerminating, Phase: PodPhaseSucceeded}, ReasonPodSucceeded},
		{"a pod that ended badly has failed", PodFacts{View: PodStarting, Phase: PodPhaseFailed}, ReasonPodFailed},
		{"a pod that is being deleted is not Ready any more", PodFacts{View: PodTerminating, Phase: PodPhaseRunning, SaysReady: true}, ReasonPodTerminating},
		{"a pod that does not run yet is pending", PodFacts{View: PodStarting, Unscheduled: true}, ReasonPodPending},
		{"a pod that runs is not Ready", PodFacts{View: PodStarting, Phase: PodPhaseRunning}, ReasonPodUnready},
		{"a pod that says it is Ready may lack its address", PodFacts{View: PodStarting, Phase: PodPhaseRunning, SaysReady: true}, ReasonPodNoAddress},
		{"a pod that is Ready and has an address is ready", PodFacts{View: PodReady, Phase: PodPhaseRunning, SaysReady: true}, ReasonPodReady},
	} {
		t.Run(row.name, func(t *testing.T) { NewWithT(t).Expect(ReadinessOf(row.is)).To(Equal(row.want)) })
	}
}

func TestHowLongAStatusMayStayAsItIs(t *testing.T) {
	starting := PodFacts{View: PodStarting}
	for _, row := range []struct {
		name     string
		is       PodFacts
		holder   Holder
		reported bool
		age      time.Duration
		want     time.Duration
	}{
		{name: "a launch that goes well is reported when it is over", is: starting, holder: HolderClaim, age: time.Second, want: LaunchDelay - time.Second},
		{name: "a member's launch even later", is: starting, holder: HolderPool, age: time.Second, want: MemberDelay - time.Second},
		{name: "a launch that takes too long is reported", is: starting, holder: HolderClaim, age: LaunchDelay},
		{name: "a member's too", is: starting, holder: HolderPool, age: time.Hour},
		{name: "a sandbox whose pod is not made yet is as quiet", is: PodFacts{}, holder: HolderNobody, want: LaunchDelay},
		{name: "what was reported before changes at once", is: starting, holder: HolderPool, reported: true},
		{name: "a launch that is over is reported", is: PodFacts{View: PodReady, Phase: PodPhaseRunning}, holder: HolderPool},
		{name: "a pod that cannot be made is reported", is: PodFacts{Problem: true}, holder: HolderPool},
		{name: "a pod of somebody else's is reported", is: PodFacts{View: PodForeign}, holder: HolderPool},
		{name: "several pods are reported", is: PodFacts{View: PodMultiple}, holder: HolderPool},
		{name: "a pod without room is reported", is: PodFacts{View: PodStarting, Unscheduled: true}, holder: HolderPool},
		{name: "a pod that ended is reported", is: PodFacts{View: PodStarting, Phase: PodPhaseFailed}, holder: HolderPool},
		{name: "what will never be accepted is reported", is: PodFacts{Invalid: true}, holder: HolderPool},
		{name: "a sandbox whose time is over is reported", is: PodFacts{Expired: true}, holder: HolderNobody},
		{name: "a suspended sandbox is reported", is: PodFacts{Suspended: true}, holder: HolderNobody},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(StatusDelayOf(row.is, row.holder, row.reported, row.age)).To(Equal(row.want))
		})
	}
}

func TestTheMetadataOfAPodIsLeftAloneWhileItIsLaunched(t *testing.T) {
	for _, row := range []struct {
		pod   PodView
		state State
		age   time.Duration
		want  time.Duration
	}{
		{PodStarting, Warming, time.Second, LaunchDelay - time.Second},
		{PodStarting, Warming, LaunchDelay, 0},
		{PodStarting, Warming, time.Hour, 0},
		{PodStarting, Bound, time.Second, 0},
		{PodReady, Warming, time.Second, 0},
	} {
		NewWithT(t).Expect(SyncDelayOf(row.pod, row.state, row.age)).To(Equal(row.want), "%+v", row)
	}
}
