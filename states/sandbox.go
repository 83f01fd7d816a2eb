package states

import "time"

// A Holder is who a sandbox belongs to, as its controller reference says.
type Holder uint8

// The holders.
const (
	// ByNobody is a sandbox that a user made directly.
	ByNobody Holder = iota
	// ByPool is a pool member: free, or on its way there.
	ByPool
	// ByClaim is a sandbox whose claim exists and has been told of no other.
	ByClaim
	// ByGhost is a sandbox whose claim has vanished.
	ByGhost
	// ByTwin is a sandbox of which its claim will never be told: it has refused
	// it, was told of another one, or is stale and holds nothing any more. The last
	// two happen when two leaders serve one claim, or a response is lost.
	ByTwin
	// ByUnseen is a sandbox of a claim that the watch does not show, and that
	// may only be too new for it.
	ByUnseen
)

// Holders lists every holder.
var Holders = []Holder{ByNobody, ByPool, ByClaim, ByGhost, ByTwin, ByUnseen}

// A PodView is what is known of a sandbox's pod.
type PodView uint8

// The views of a pod.
const (
	// NoPod: there is none.
	NoPod PodView = iota
	// PodStarting: it exists and is not Ready.
	PodStarting
	// PodReady: it runs, is Ready and has an address.
	PodReady
	// PodLeaving: it is being deleted; another takes its name when it is gone.
	PodLeaving
	// PodForeign: a pod of that name belongs to somebody else.
	PodForeign
	// PodMany: more than one pod names this sandbox as its controller.
	PodMany
)

// PodViews lists every view of a pod.
var PodViews = []PodView{NoPod, PodStarting, PodReady, PodLeaving, PodForeign, PodMany}

// SandboxFacts are what a sandbox's next step is decided from. A sandbox and
// its pod are decided together: they share a key.
type SandboxFacts struct {
	// Deleting: the sandbox is being deleted, or the object it belongs to is.
	Deleting bool
	// Retired: it carries the mark that it will never be handed out.
	Retired bool
	// Halted: its pod can not be made as things stand (a pod spec that does not
	// decode, or a suspended sandbox); only a change of the sandbox helps.
	Halted bool
	// Holder is who it belongs to.
	Holder Holder
	// Warm: it was born in a pool.
	Warm bool
	// Told: the status of its claim names it and says bound.
	Told bool
	// Pod is what is known of its pod, and Word that pod's state.
	Pod  PodView
	Word State
	// Wait is how long the next pod has to wait, because the last ones vanished as
	// fast as they were made.
	Wait time.Duration
	// Due: the status it should have differs from the one it has.
	Due bool
	// Hush is how long that status shall still be kept back: a launch that goes
	// well is told once, when it is over.
	Hush time.Duration
}

// StepSandbox decides the next step of a sandbox and its pod.
func StepSandbox(f SandboxFacts) Decision {
	lacksPod := f.Pod == NoPod && !f.Halted && f.Holder != ByGhost
	switch {
	case f.Deleting:
		return rest("being deleted: the garbage collector does the rest")
	case f.Retired:
		return leave(f)
	case f.Holder == ByUnseen:
		return act(Check, "the watch does not show its claim")
	case f.Holder == ByTwin:
		return act(Retire, "its claim will never be told of it")
	case lacksPod && f.Wait <= 0:
		return act(Create, "it has no pod")
	case f.Due && f.Hush <= 0:
		return act(Report, "its status changed")
	case lacksPod && f.Due:
		return rest("its pods vanish as fast as they are made").in(min(f.Wait, f.Hush))
	case lacksPod:
		return rest("its pods vanish as fast as they are made").in(f.Wait)
	}
	d := rest("it has no pod of its own to move")
	if f.owns() {
		d = stepPod(f)
	}
	if d.Rests() && f.Due {
		return d.in(f.Hush)
	}
	return d
}

// owns reports whether there is one pod whose word is ours to move. One that is
// leaving still is, so that it does not go on saying that it is free.
func (f SandboxFacts) owns() bool {
	return f.Pod == PodStarting || f.Pod == PodReady || f.Pod == PodLeaving
}

// leave takes a retired sandbox out: the word first, so that everyone sees it,
// then the object.
func leave(f SandboxFacts) Decision {
	if f.owns() {
		for _, event := range []Event{Retired, Released} {
			if _, ok := Pod.Edge(f.Word, event); ok {
				return move(event, "its sandbox was retired")
			}
		}
	}
	return act(Delete, "retired, and its pod says so")
}

// stepPod decides the next move of a sandbox's pod.
func stepPod(f SandboxFacts) Decision {
	ready := f.Pod == PodReady
	switch f.Holder {
	case ByPool:
		switch {
		case f.Word == Warming && ready:
			return move(Warmed, "Ready and free")
		case f.Word == Ready && !ready:
			return move(Cooled, "lost readiness in the pool")
		}
	case ByNobody:
		if f.Word == Warming && ready {
			return move(Handed, "Ready, made by a user")
		}
	case ByGhost:
		switch {
		case f.Word == Ready, f.Word == Warming && f.Warm:
			return move(Reserved, "adopted, and its claim vanished")
		case f.Word == Binding:
			return move(Released, "its claim vanished")
		}
	case ByClaim:
		switch {
		case f.Word == Ready, f.Word == Warming && f.Warm && !f.Told:
			return move(Reserved, "adopted")
		case f.Word == Warming && ready:
			return move(Handed, "Ready, and its claim's own")
		case f.Word == Binding && f.Told:
			return move(Confirmed, "its claim knows")
		}
	case ByTwin, ByUnseen: // decided before: retired, or asked about
	}
	return rest("nothing to move")
}
