package apply

import (
	"slices"

	"k8s.io/client-go/tools/cache"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// Await adds a function that says whether a claim waits for a pool's member.
// It is added before anything is written.
func (a *Applier) Await(awaited func(member cache.ObjectName) bool) {
	a.awaited = append(a.awaited, awaited)
}

// launchClass is the class of what brings a sandbox up and keeps what belongs to it in
// order. What a claim waits for is as urgent as making it: its own sandbox, and as many of
// a pool's starting members as claims wait in line. All others make room: a burst that
// empties a pool has as many members to replace as claims are served, and the few that
// still wait would share the server with all of those.
func (a *Applier) launchClass(s *agents.Sandbox) class {
	waits := func(awaited func(cache.ObjectName) bool) bool { return awaited(cache.MetaObjectToName(s)) }
	owner := OwnerOf(s).Kind
	if owner == states.OwnerClaim || owner == states.OwnerPool && slices.ContainsFunc(a.awaited, waits) {
		return classTake
	}
	return classWarm
}

// moveClass is the class of a move of a sandbox's pod. With warmed a launch is over.
func (a *Applier) moveClass(s *agents.Sandbox, event states.Event) class {
	if event == states.EventWarmed {
		return a.launchClass(s)
	}
	return podClass[event]
}
