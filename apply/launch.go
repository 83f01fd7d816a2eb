package apply

import (
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// Await adds a function that says whether claims wait for members of a pool, by its UID.
// It is added before anything is written.
func (a *Applier) Await(awaited func(pool types.UID) bool) { a.awaited = append(a.awaited, awaited) }

// memberClass is the class of what brings a pool's member up. As long as nobody waits
// for members, everything that claims do goes before. Once claims wait in line, what
// they wait for is as urgent as a sandbox that is made for one claim: a refill that let
// those pass, one after the other, would have the line stand still.
func (a *Applier) memberClass(pool types.UID) class {
	for _, awaited := range a.awaited {
		if awaited(pool) {
			return classTake
		}
	}
	return classWarm
}

// launchClass is the class of what brings a sandbox up: of a pool's member it follows who waits.
func (a *Applier) launchClass(s *agents.Sandbox) class {
	if owner := OwnerOf(s); owner.Kind == states.OwnerPool {
		return a.memberClass(types.UID(owner.UID))
	}
	return ownerClass(s)
}

// moveClass is the class of a move of a sandbox's pod. With warmed a launch is over.
func (a *Applier) moveClass(s *agents.Sandbox, event states.Event) class {
	if event == states.EventWarmed {
		return a.launchClass(s)
	}
	return podClass[event]
}
