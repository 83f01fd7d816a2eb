package states

import "slices"

// A Presence is what is known of an object that another one names.
type Presence uint8

// The presences.
const (
	// PresenceUnseen: the watch has not shown it and nobody has asked the API server.
	PresenceUnseen Presence = iota
	// PresenceShown: it exists and the watch shows it.
	PresenceShown
	// PresenceHidden: the API server has it, the watch does not show it yet; an
	// event will.
	PresenceHidden
	// PresenceMissing: the API server itself says that there is none.
	PresenceMissing
)

// Presences lists every presence.
var Presences = []Presence{PresenceUnseen, PresenceShown, PresenceHidden, PresenceMissing}

// An OwnerKind is the kind of an object's controller.
type OwnerKind uint8

// The kinds of owners.
const (
	OwnerNone OwnerKind = iota
	OwnerPool
	OwnerClaim
	OwnerSandbox
	OwnerOther
)

// An Owner is an object's controller reference.
type Owner struct {
	Kind      OwnerKind
	Name, UID string
}

// A Sandbox is what decisions need to know of a sandbox, as plain values.
type Sandbox struct {
	Name, UID string
	Owner     Owner
	// ClaimUID is the claim that Kiln gave it to, as a label says.
	ClaimUID string
	// Warm: it was made for a pool. Pool is the hash of the name of the one whose free
	// member it is.
	Warm bool
	Pool string
	// Ready is its Ready condition.
	Ready bool
	// PodRefused: the API server does not accept its pod.
	PodRefused bool
	// Idle: it shall have no pod, because it is suspended or its time is over.
	Idle bool
	// Retired: it carries the mark that it will never be handed out.
	Retired bool
	// Terminating: it is being deleted.
	Terminating bool
}

// leaves reports whether a sandbox is on its way out.
func (s Sandbox) leaves() bool { return s.Retired || s.Terminating }

// A ClaimView is what decisions about sandboxes need to know of a claim.
type ClaimView struct {
	UID   string
	State State
	// SandboxName and SandboxUID are the sandbox that its status names. A status
	// that the agent-sandbox controller wrote has no UID.
	SandboxName, SandboxUID string
	// Refused are the UIDs of the sandboxes that it will never have.
	Refused []string
	// Terminating: it is being deleted.
	Terminating bool
}

// Names reports whether a claim's status names a sandbox: this very one, and not
// another that had its name.
func (c ClaimView) Names(s Sandbox) bool {
	return c.SandboxName == s.Name && (c.SandboxUID == "" || c.SandboxUID == s.UID)
}

// Knows reports whether a claim was told that it has a sandbox.
func (c ClaimView) Knows(s Sandbox) bool { return c.Names(s) && c.State == Bound }

// Refuses reports whether a claim will never have a sandbox, because that turned
// out to be outdated.
func (c ClaimView) Refuses(s Sandbox) bool { return slices.Contains(c.Refused, s.UID) }

// disowns reports whether a claim has refused a sandbox, or names another.
func (c ClaimView) disowns(s Sandbox) bool {
	return c.Refuses(s) || c.SandboxName != "" && !c.Names(s)
}

// Owns reports whether a claim is a sandbox's owner and may have it.
func (c ClaimView) Owns(s Sandbox) bool {
	leaves := s.Terminating || s.Retired && !c.Keeps(s)
	return s.Owner.Kind == OwnerClaim && s.Owner.UID == c.UID && !leaves && !c.disowns(s)
}

// Keeps reports whether a claim was told of a sandbox that it owns, and has not ended.
// Nobody retires such a one: a mark that says so is a hand's.
func (c ClaimView) Keeps(s Sandbox) bool {
	told := c.SandboxName != "" && c.Names(s) && !c.Refuses(s)
	return told && s.Owner.Kind == OwnerClaim && s.Owner.UID == c.UID && c.State != Stale && !c.Terminating
}

// Held finds the sandbox that a claim holds, by its index, or -1. It is the one
// that its status names, if the claim owns that, and otherwise the first by name
// of those it owns: two controllers who look at the same sandboxes mean the same
// one.
func (c ClaimView) Held(all []Sandbox) int {
	held := -1
	for i, s := range all {
		if c.Owns(s) && (held < 0 || s.Name < all[held].Name) {
			held = i
		}
	}
	return held
}

// Loses is what a claim must take for the fate of the sandbox that its status
// names, once the API server was asked: one that exists and is not the claim's any
// more is as lost as one that does not.
func (c ClaimView) Loses(s Sandbox, is Presence) Presence {
	if c.SandboxName == "" { // a hand emptied the status
		return PresenceMissing
	}
	if kept := c.Names(s) && c.Owns(s); is == PresenceShown && !kept {
		return PresenceMissing
	}
	return is
}

// OwnOf reports whether a sandbox was made for the claim that owns it: nobody else ever
// gets it.
func (s Sandbox) OwnOf(c ClaimView) bool {
	return !s.Warm && c.UID != "" && s.ClaimUID == c.UID && s.Owner.Kind == OwnerClaim && s.Owner.UID == c.UID
}

// A Holding is what a claim holds.
type Holding uint8

// The holdings.
const (
	// HoldsNone: no sandbox names it as its owner.
	HoldsNone Holding = iota
	// HoldsWarm: one from a pool, complete when it was taken.
	HoldsWarm
	// HoldsStarting: its own, not Ready yet.
	HoldsStarting
	// HoldsReady: its own, and Ready.
	HoldsReady
)

// Holdings lists every holding.
var Holdings = []Holding{HoldsNone, HoldsWarm, HoldsStarting, HoldsReady}

// HoldingOf says what it is to hold a sandbox. Warm is what Kiln gave to the claim that
// owns it: what a hand gave, whatever it says, is told when it is Ready.
func HoldingOf(s Sandbox) Holding {
	switch {
	case s.Warm && s.ClaimUID == s.Owner.UID:
		return HoldsWarm
	case s.Ready:
		return HoldsReady
	}
	return HoldsStarting
}

// A Handover is how far the pod of a warm sandbox has come on its way to the claim
// that holds the sandbox.
type Handover uint8

// The hand-overs.
const (
	// HandoverDone: the pod is the claim's, or nothing is there to hand over.
	HandoverDone Handover = iota
	// HandoverDue: the pod is there, and does not say that it is the claim's.
	HandoverDue
	// HandoverLacksPod: the sandbox says that it is Ready, and its pod is gone.
	HandoverLacksPod
)

// Handovers lists every hand-over.
var Handovers = []Handover{HandoverDone, HandoverDue, HandoverLacksPod}

// HandoverOf says how far the hand-over of a sandbox's pod has come. A pod that a user
// called stale stays so: no edge leads back.
func HandoverOf(s Sandbox, pod PodView, is State) Handover {
	switch {
	case pod == PodStarting || pod == PodReady:
		if is == Bound || is == Stale {
			return HandoverDone
		}
		return HandoverDue
	case s.Ready:
		return HandoverLacksPod
	}
	return HandoverDone
}

// A Holder is who a sandbox belongs to.
type Holder uint8

// The holders.
const (
	// HolderNobody is a sandbox that a user made directly.
	HolderNobody Holder = iota
	// HolderPool is a pool member: free, or on its way there.
	HolderPool
	// HolderClaim is a sandbox whose claim exists and names no other.
	HolderClaim
	// HolderGone is a sandbox whose claim has vanished.
	HolderGone
	// HolderElsewhere is a sandbox that its claim will never have: the claim has
	// refused it, or names another one. That happens when two leaders serve one
	// claim, or a response is lost.
	HolderElsewhere
	// HolderEnded is a sandbox whose claim is stale: it holds nothing any more, and
	// deletes the sandbox.
	HolderEnded
	// HolderUnseen is a sandbox of a claim that the watch does not show, and that
	// may only be too new for it.
	HolderUnseen
	// HolderHidden is one whose claim the API server has, as it said when it was
	// asked, and the watch still does not show.
	HolderHidden
)

// Holders lists every holder.
var Holders = []Holder{HolderNobody, HolderPool, HolderClaim, HolderGone, HolderElsewhere, HolderEnded, HolderUnseen, HolderHidden}

// HolderOf says whose a sandbox is. The claim is the one of its owner's name, and
// is says what is known of that.
func HolderOf(s Sandbox, claim ClaimView, is Presence) Holder {
	switch {
	case s.Owner.Kind == OwnerPool:
		return HolderPool
	case s.Owner.Kind != OwnerClaim:
		return HolderNobody
	case is == PresenceUnseen:
		return HolderUnseen
	case is == PresenceHidden:
		return HolderHidden
	case is == PresenceMissing, claim.UID != s.Owner.UID, claim.Terminating:
		return HolderGone
	case s.ClaimUID == claim.UID && claim.disowns(s):
		return HolderElsewhere
	case claim.State == Stale:
		return HolderEnded
	}
	return HolderClaim
}

// A Place is where a sandbox belongs on the shelf of its pool.
type Place uint8

// The places.
const (
	// PlaceNone: it is no member that a claim may ever take.
	PlaceNone Place = iota
	// PlaceComing: it is starting.
	PlaceComing
	// PlaceFree: a claim may take it now.
	PlaceFree
)

// PlaceOf says where a sandbox belongs. Free is what its pod's state says and its
// pod's readiness confirms, and nothing less. What its pool has given up has no
// place, and in a strict pool what is not current has none.
func PlaceOf(m Member, s Sandbox, strict bool) Place {
	switch {
	case s.Owner.Kind != OwnerPool, s.leaves(), s.Idle, m.Terminating, s.PodRefused, strict && !m.Current:
		return PlaceNone
	case m.Pod == PodReady && m.State == Ready:
		return PlaceFree
	}
	return PlaceComing
}
