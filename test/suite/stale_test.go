package suite

import (
	"errors"
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// everything is every kind that a controller watches.
var everything = []string{"pods", "sandboxes", "sandboxclaims", "sandboxwarmpools", "sandboxtemplates"}

func TestAClaimThatCameAndWentUnseenHarmsNoneThatIsThere(t *testing.T) {
	w, c := started(t, 2)
	c.Valves.Shut("sandboxclaims")
	w.Create(kit.Claim("a", "p"), kit.Claim("b", "p"))
	first := w.Claims()
	w.Delete(first, "a")
	w.Create(kit.Claim("a", "p"))
	c.Valves.Open()
	w.Await(kit.Right("p", 2, "a", "b"))
}

// The first controller knows the claims and not who has the sandboxes by now:
// its view is of the time before the second one gave them away and died.
func TestALeaderWithAnOldViewOfSandboxesTakesNoneThatIsTaken(t *testing.T) {
	w, first := started(t, 2)
	first.Valves.Shut(everything...)
	second := w.Controller()
	w.Create(kit.Claim("a", "p"), kit.Claim("b", "p"))
	w.Await(kit.Right("p", 2, "a", "b"))
	second.Crash()
	w.Create(kit.Claim("c", "p"))
	wrote := len(first.Wire.Writes())
	first.Valves.Open("sandboxclaims")
	// It tries to take what it believes to be free, unless asking after the other
	// claims' sandboxes has taught it better; it writes something in any case.
	w.Await(func(*kit.Sight) error {
		if len(first.Wire.Writes()) == wrote {
			return errors.New("the first controller has not begun")
		}
		return nil
	})
	first.Valves.Open()
	w.Await(kit.Right("p", 2, "a", "b", "c"))
	keptItsSandbox(t, w, "a", "b")
}

// The other way round: nobody else is there to do it right.
func TestAControllerThatSeesNoSandboxAnyMoreStillServesItsClaims(t *testing.T) {
	w, c := started(t, 3)
	c.Valves.Shut("sandboxes")
	w.Create(kit.Claim("a", "p"), kit.Claim("b", "p"))
	w.Await(kit.Bound("a", "b"))
	c.Valves.Open()
	w.Await(kit.Right("p", 3, "a", "b"))
	keptItsSandbox(t, w, "a", "b")
}

func TestPodsThatBlinkUnseenAreHandedOutToNobodyTwice(t *testing.T) {
	w, c := started(t, 2)
	members := w.Members("p")
	c.Valves.Shut("pods")
	for _, pod := range members {
		w.Kubelet.Blink(pod, false)
	}
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Words("a", states.Bound))
	w.Delete(w.Pods(), members[0])
	for _, pod := range members {
		w.Kubelet.Blink(pod, true)
	}
	c.Valves.Open()
	w.Await(kit.Right("p", 2, "a"))
	keptItsSandbox(t, w, "a")
}

// The controller knows from its own writes alone that the claim is bound, and
// does not see that the claim is gone.
func TestAClaimThatEndsUnseenIsNotBroughtBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, gate := w.Held("sandbox", "adopt")
	w.Create(kit.Template("t"), kit.Pool("p", 2))
	w.Await(kit.Full("p", 2))
	w.Create(kit.Claim("a", "p"))
	w.Await(gate.Reached())
	c.Valves.Shut("sandboxclaims")
	gate.Open()
	w.Await(kit.Bound("a"))
	a, had := w.Claim("a"), w.Sandbox(told(w, "a"))
	w.Delete(w.Claims(), "a")
	w.Await(kit.Gone(a), kit.Gone(had), kit.Full("p", 2))
	c.Valves.Open()
	w.Create(kit.Claim("b", "p"))
	w.Await(kit.Right("p", 2, "b"))
}

func TestAPoolThatShrinksUnseenShrinksOnceItIsSeen(t *testing.T) {
	w, c := started(t, 2)
	c.Valves.Shut("sandboxwarmpools")
	w.Scale("p", 0)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Bound("a"))
	c.Valves.Open()
	w.Await(kit.Right("p", 0, "a"))
}

func TestAControllerThatSleptThroughItAllGoesOnFromThere(t *testing.T) {
	w, first := started(t, 2)
	first.Valves.Shut(everything...)
	second := w.Controller()
	w.Create(kit.Claim("a", "p"), kit.Claim("b", "p"))
	w.Await(kit.Right("p", 2, "a", "b"))
	w.Delete(w.Claims(), "a")
	w.Scale("p", 3)
	w.Await(kit.Right("p", 3, "b"))
	second.Crash()
	w.Create(kit.Claim("c", "p"))
	first.Valves.Open()
	w.Await(kit.Right("p", 3, "b", "c"))
}
