package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// ConditionReady is the condition of a Sandbox, and of a claim, that says that it can be used.
const ConditionReady = "Ready"

// Await adds a function that says whether a claim waits for a pool's member.
// It is added before anything is written.
func (a *Applier) Await(awaited func(member cache.ObjectName) bool) {
	a.awaited = append(a.awaited, awaited)
}

// Hurry tells that a claim waits for a pool's member from now on: what the member's launch
// has to write, and what waits for its place, is as urgent as what brings up the
// sandbox of a claim.
func (a *Applier) Hurry(member cache.ObjectName) {
	a.gate.hurry(member)
}

// awaits reports whether a claim waits for a pool's member.
func (a *Applier) awaits(member cache.ObjectName) bool {
	return slices.ContainsFunc(a.awaited, func(awaited func(cache.ObjectName) bool) bool { return awaited(member) })
}

// launch is the urgency of a write that brings a sandbox up or keeps what belongs to it in
// order. What a claim waits for is of the class that is given: its own sandbox, and as many
// of a pool's starting members as claims wait in line. All others make room: a burst that
// empties a pool has as many members to replace as claims are served, and the few that
// still wait would share the server with all of those.
func (a *Applier) launch(s *agents.Sandbox, hurried class) urgency {
	switch OwnerOf(s).Kind {
	case states.OwnerClaim:
		return urgency{class: hurried}
	case states.OwnerPool:
		return urgency{class: classWarm, hurried: hurried, member: cache.MetaObjectToName(s), awaited: a.awaits}
	case states.OwnerNone, states.OwnerSandbox, states.OwnerOther:
	}
	return urgency{class: classWarm}
}

// ofMove is the urgency of a move of a sandbox's pod. With warmed a launch is over, and
// the claim that waits for it is told next.
func (a *Applier) ofMove(s *agents.Sandbox, event states.Event) urgency {
	if event == states.EventWarmed {
		return a.launch(s, classTell)
	}
	return urgency{class: podClass[event]}
}

// ofReport is the urgency of a sandbox's status. With the one that makes it Ready a launch
// is over, and the claim that waits for it is told next.
func (a *Applier) ofReport(s *agents.Sandbox, want agents.SandboxStatus) urgency {
	if meta.IsStatusConditionTrue(want.Conditions, ConditionReady) && !meta.IsStatusConditionTrue(s.Status.Conditions, ConditionReady) {
		return a.launch(s, classTell)
	}
	return a.launch(s, classTake)
}
