package suite

import (
	"errors"
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// everything is every kind that a controller watches.
var everything = []string{"pods", "sandboxes", "sandboxclaims", "sandboxwarmpools", "sandboxtemplates"}

func TestAClaimThatCameAndWentUnseenHarmsNoneThatIsThere(t *testing.T) {
	w, c := started(t, 2)
	c.Watches.Shut("sandboxclaims")
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	first := w.Claims()
	w.Delete(first, "a")
	w.Create(world.Claim("a", "p"))
	c.Watches.Open()
	w.Await(world.Converged("p", 2, "a", "b"))
}

// The first controller knows the claims and not who has the sandboxes by now:
// its view is of the time before the second one gave them away and died.
func TestALeaderWithAnOldViewOfSandboxesTakesNoneThatIsTaken(t *testing.T) {
	w, first := started(t, 2)
	first.Watches.Delay(everything...)
	second := w.Controller()
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Converged("p", 2, "a", "b"))
	second.Crash()
	w.Create(world.Claim("c", "p"))
	wrote := len(first.Wire.Writes())
	first.Watches.Open("sandboxclaims")
	// It tries to take what it believes to be free, unless asking after the other
	// claims' sandboxes has taught it better; it writes something in any case.
	w.Await(func(*world.Snapshot) error {
		if len(first.Wire.Writes()) == wrote {
			return errors.New("the first controller has not begun")
		}
		return nil
	})
	first.Watches.Open()
	w.Await(world.Converged("p", 2, "a", "b", "c"))
	keptItsSandbox(t, w, "a", "b")
}

// The other way round: nobody else is there to do it right.
func TestAControllerThatSeesNoSandboxAnyMoreStillServesItsClaims(t *testing.T) {
	w, c := started(t, 3)
	c.Watches.Delay("sandboxes")
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Bound("a", "b"))
	c.Watches.Open()
	w.Await(world.Converged("p", 3, "a", "b"))
	keptItsSandbox(t, w, "a", "b")
}

func TestPodsThatBlinkUnseenAreHandedOutToNobodyTwice(t *testing.T) {
	w, c := started(t, 2)
	members := w.Members("p")
	c.Watches.Shut("pods")
	for _, pod := range members {
		w.Kubelet.SetReady(pod, false)
		w.Await(kubeletSays(pod, false))
	}
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasState("a", states.Bound))
	w.Delete(w.Pods(), members[0])
	for _, pod := range members {
		w.Kubelet.SetReady(pod, true)
	}
	c.Watches.Open()
	w.Await(world.Converged("p", 2, "a"))
	keptItsSandbox(t, w, "a")
}

// The controller knows from its own writes alone that the claim is bound, and
// does not see that the claim is gone.
func TestAClaimThatEndsUnseenIsNotBroughtBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, gate := w.Held("sandbox", "adopt")
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(resting(c, 2))
	w.Create(world.Claim("a", "p"))
	w.Await(gate.Reached())
	c.Watches.Delay("sandboxclaims")
	gate.Open()
	w.Await(resting(c, 2, "a")) // no answer about the claim is still to come
	a, had := w.Claim("a"), w.Sandbox(w.SandboxOf("a"))
	w.Delete(w.Claims(), "a")
	w.Await(world.Deleted(a), world.Deleted(had), world.Full("p", 2))
	c.Watches.Open()
	w.Create(world.Claim("b", "p"))
	w.Await(world.Converged("p", 2, "b"))
}

func TestAPoolThatShrinksUnseenShrinksOnceItIsSeen(t *testing.T) {
	w, c := started(t, 2)
	c.Watches.Shut("sandboxwarmpools")
	w.Scale("p", 0)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d members were retired, and nobody has seen that the pool shrinks", n)
	}
	c.Watches.Open()
	w.Await(world.Converged("p", 0, "a"))
}

func TestAControllerThatSleptThroughItAllGoesOnFromThere(t *testing.T) {
	w, first := started(t, 2)
	first.Watches.Shut(everything...)
	second := w.Controller()
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Converged("p", 2, "a", "b"))
	w.Delete(w.Claims(), "a")
	w.Scale("p", 3)
	w.Await(world.Converged("p", 3, "b"))
	second.Crash()
	w.Create(world.Claim("c", "p"))
	first.Watches.Open()
	w.Await(world.Converged("p", 3, "b", "c"))
}

func TestAPoolWhoseTemplateCannotBeReadSaysSoForgetsNothingAndGoesOnLater(t *testing.T) {
	w, c := started(t, 2)
	was := w.Pool("p").Status
	c.Watches.Shut("sandboxtemplates")
	c.Watches.Fail("sandboxtemplates", true)
	w.Create(world.Template("u"))
	w.PatchPool("p", `{"replicas":3,"sandboxTemplateRef":{"name":"u"}}`)
	for _, kind := range []string{"Degraded", "Progressing", "Ready"} {
		w.Await(world.PoolSays("p", kind, "TemplateUnreadable", `SandboxTemplate "u" cannot be read, and nothing is created meanwhile: a fault of the test`))
	}
	if is := w.Pool("p").Status; is.CurrentRevision != was.CurrentRevision || is.UpdatedReplicas != 2 || is.UpdatedReadyReplicas != 2 ||
		is.ObservedGeneration != was.ObservedGeneration {
		t.Errorf("nothing is known of the template, and the status changed from %+v to %+v", was, is)
	}
	w.Scale("p", 1)
	w.Await(counted("p", 1, 1)) // what needs no template is done
	if is := w.Pool("p").Status; is.UpdatedReplicas != 1 || is.UpdatedReadyReplicas != 1 {
		t.Errorf("more are called current than there are: %+v", is)
	}
	w.Scale("p", 3)
	w.Await(world.PoolSays("p", "Ready", "TemplateUnreadable", "a fault of the test"))
	if n := c.Wire.Count("sandbox", "create"); n != 2 {
		t.Errorf("%d sandboxes were made, and the template of the last ones is not known", n)
	}
	c.Watches.Fail("sandboxtemplates", false)
	w.Scale("p", 2) // or it would wait for the back-off
	w.Await(world.Full("p", 2), world.PoolSays("p", "Degraded", "AsExpected", ""), world.Follows("p", w.Revision("u")))
	c.Watches.Open()
	w.Await(world.Converged("p", 2))
}
