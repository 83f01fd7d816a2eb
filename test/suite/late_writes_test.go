package suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A controller is about to send a write and is not heard of for so long that
// another one brings everything to its end. Then the write arrives.
func TestAWriteThatArrivesLateChangesNothing(t *testing.T) {
	for _, row := range crashes {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			first, gate := w.Held(row.kind, row.verb)
			row.scenario.run(w, gate.Reached())
			w.Await(gate.Reached())
			w.Controller()
			w.Await(world.Converged("p", int(row.scenario.size), row.scenario.claims...))
			gate.Open()
			w.Await(first.Settled(), world.Converged("p", int(row.scenario.size), row.scenario.claims...), world.Annotated(row.scenario.claims...))
		})
	}
}

// More claims have taken a sandbox than pods may be handed over at once. The pods whose
// claims are deleted before their turn are the garbage collector's: nothing is written in
// its way.
func TestThePodsOfClaimsThatAreGoneAreLeftToTheGarbageCollector(t *testing.T) {
	t.Parallel()
	const n, places = 28, 24
	w := kit.New(t)
	gate := kit.NewGate()
	c := w.Prepared(func(c *kit.Controller) {
		ofPool := func(one kit.Write) bool { return one.Is("pod", "bound") && strings.HasPrefix(one.Name, "p-") }
		c.Wire.Inject(kit.Fault{On: ofPool, Always: true, Do: kit.Hold(gate)})
	})
	w.Create(world.Template("t"), world.Pool("p", n), world.Pool("q", 1))
	w.Await(world.Full("p", n), world.Full("q", 1))
	var claims []string
	for i := range n {
		claims = append(claims, fmt.Sprint("c", i))
		w.Create(world.Claim(claims[i], "p"))
	}
	w.Await(func(*world.Snapshot) error {
		if begun, took := len(written(c, "pod bound")), c.Wire.Answered("sandbox", "adopt"); begun != places || took != n {
			return fmt.Errorf("%d sandboxes are taken and %d pods are written, not %d and %d", took, begun, n, places)
		}
		return nil
	})
	held := map[string]bool{} // sandboxes of which a pod's write is under way
	for _, one := range written(c, "pod bound") {
		held[one.Name] = true
	}
	w.Collector.Pause()
	var kept, gone []string
	for _, claim := range claims {
		if names := w.EverHeld(w.Claim(claim).UID); held[names[0]] {
			kept = append(kept, claim)
		} else {
			w.Delete(w.Claims(), claim)
			gone = append(gone, names...)
		}
	}
	w.Create(world.Claim("after", "q")) // whoever has seen it has seen the others go
	w.Await(world.HasState("after", states.Bound))
	gate.Open()
	w.Await(world.Annotated(append(kept, "after")...), c.Settled())
	for _, one := range written(c, "pod bound", "pod binding") {
		if slices.Contains(gone, one.Name) {
			t.Errorf("the pod %s of a claim that is gone was written: %s", one.Name, one.Verb)
		}
	}
	w.Collector.Resume()
	w.Await(world.Full("p", n), world.Full("q", 1), world.Bound(append(kept, "after")...), c.Settled())
}

// A finalizer keeps a claim that was deleted before it was told, for as long as it likes. The
// pod of what it has taken says meanwhile that nobody gets it.
func TestThePodOfAClaimThatAFinalizerKeepsIsNotFree(t *testing.T) {
	w, gate, pod := leaving(t, func(c *ext.SandboxClaim) { c.Finalizers = []string{"users.io/keep"} })
	w.Await(world.PodHasState(pod, states.Stale))
	w.Collector.Resume()
	gate.Open()
	patchClaim(t, w, "a", `{"metadata":{"finalizers":null}}`)
	w.Await(world.Converged("p", 1))
}

// A claim was bound and has lost its sandbox since: the late write that it is
// bound is not believed.
func TestALateWriteDoesNotBringAStaleClaimBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first, gate := w.Held("claimstatus", "bound")
	warm.run(w, gate.Reached())
	w.Await(gate.Reached())
	w.Controller()
	w.Await(world.Bound("a"))
	w.Delete(w.Sandboxes(), w.SandboxOf("a"))
	w.Await(world.HasState("a", states.Stale))
	gate.Open()
	w.Await(first.Settled(), world.HasState("a", states.Stale), world.Full("p", 2))
}

// A pod became ready, was taken and is bound since: the late write that it is free
// is not believed.
func TestALateWriteDoesNotFreeABoundPod(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first, gate := w.Held("pod", "ready")
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(gate.Reached())
	w.Controller()
	w.Await(world.Full("p", 1))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	gate.Open()
	w.Await(first.Settled(), world.Converged("p", 1, "a"))
}

func TestASandboxMadeAgainUnderTheNameAClaimWasToldIsNotTheClaims(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 0), world.Claim("a", "p"))
	w.Await(world.Converged("p", 0, "a"))
	first.Stop()

	// What a slow second leader does: its creation arrives after the sandbox that
	// the claim was told of is gone.
	g := NewWithT(t)
	was, err := w.Sandboxes().Get(w.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Delete(w.Sandboxes(), "a")
	w.Delete(w.Pods(), "a")
	w.Await(world.Deleted(was))
	again := world.Sandbox("a")
	again.Labels, again.OwnerReferences = was.Labels, was.OwnerReferences
	w.Create(again)

	w.Controller()
	w.Await(world.All(
		world.HasState("a", states.Stale),
		world.ClaimSays("a", "SandboxLost", `Sandbox "a" of this claim is gone`),
		func(s *world.Snapshot) error {
			if again, ok := s.Sandboxes["a"]; ok {
				return world.Deleted(again)(s)
			}
			return nil
		},
	))
}
