package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// A controller is about to send a write and is not heard of for so long that
// another one brings everything to its end. Then the write arrives.
func TestAWriteThatArrivesLateChangesNothing(t *testing.T) {
	for _, row := range deaths {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			first, gate := w.Held(row.kind, row.verb)
			row.plot.tell(w, gate.Reached())
			w.Await(gate.Reached())
			w.Controller()
			w.Await(kit.Right("p", int(row.plot.size), row.plot.claims...))
			gate.Open()
			w.Await(first.Settled(), kit.Right("p", int(row.plot.size), row.plot.claims...), kit.Noted(row.plot.claims...))
		})
	}
}

// A claim was bound and has lost its sandbox since: the late word that it is
// bound is not believed.
func TestALateWordDoesNotBringAStaleClaimBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first, gate := w.Held("claimstatus", "bound")
	warm.tell(w, gate.Reached())
	w.Await(gate.Reached())
	w.Controller()
	w.Await(kit.Bound("a"))
	w.Delete(w.Sandboxes(), told(w, "a"))
	w.Await(kit.Words("a", states.Stale))
	gate.Open()
	w.Await(first.Settled(), kit.Words("a", states.Stale), kit.Full("p", 2))
}

// A pod became ready, was taken and is bound since: the late word that it is free
// is not believed.
func TestALateWordDoesNotFreeABoundPod(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first, gate := w.Held("pod", "ready")
	w.Create(kit.Template("t"), kit.Pool("p", 1))
	w.Await(gate.Reached())
	w.Controller()
	w.Await(kit.Full("p", 1))
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 1, "a"))
	gate.Open()
	w.Await(first.Settled(), kit.Right("p", 1, "a"))
}
