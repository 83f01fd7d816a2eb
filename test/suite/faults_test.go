package suite

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// What can go wrong with a write.
var faults = []struct {
	name string
	does kit.Behaviour
}{
	{"its answer is lost", kit.LoseAnswer},
	{"it is lost", kit.Drop},
	{"409", kit.Answer(http.StatusConflict, metav1.StatusReasonConflict)},
	{"429 with Retry-After", kit.Busy(1)},
	{"500", kit.Answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
	{"504", kit.Answer(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)},
	{"504 and it was done", kit.DoneBut(kit.Answer(http.StatusGatewayTimeout, metav1.StatusReasonTimeout))},
}

// Two claims on a pool of two, and one fault at one write: at the first, at the
// second, and so on to the last. KILN_FAULTS says how many of the faults each write
// meets; CI has it meet all.
func TestOneFaultAtAnyWriteOfTwoClaimsChangesNothing(t *testing.T) {
	writes := 0
	if !t.Run("without a fault", func(t *testing.T) {
		w, c := twoClaims(t, nil)
		w.Await(c.Wrote("event", "event", 2))
		c.Stop()
		writes = len(c.Wire.Writes())
	}) {
		t.FailNow()
	}
	t.Logf("the story takes %d writes", writes)
	for i := range writes {
		for k := range min(stage.Number("KILN_FAULTS", 2), len(faults)) {
			fault := faults[(i+3*k)%len(faults)]
			t.Run(fmt.Sprintf("%s/write %d", fault.name, i+1), func(t *testing.T) {
				t.Parallel()
				w, _ := twoClaims(t, &kit.Fault{On: kit.Any, Skip: i, Do: fault.does})
				keptItsSandbox(t, w, "a", "b")
				if most := w.MostMembers(w.Pool("p").UID); most > 2+1 {
					t.Errorf("the pool had %d members at once; 2 are wanted, and 1 was in doubt", most)
				}
			})
		}
	}
}

// twoClaims tells the story, with a fault in it, to its end.
func twoClaims(t *testing.T, fault *kit.Fault) (*kit.World, *kit.Controller) {
	t.Helper()
	w := kit.New(t)
	c := w.Prepared(func(c *kit.Controller) {
		if fault != nil {
			c.Wire.Inject(*fault)
		}
	})
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(world.Full("p", 2))
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Converged("p", 2, "a", "b"), world.Annotated("a", "b"))
	return w, c
}

// Two writes end their step, so nothing but the fault itself brings it back.
func TestALastWriteThatLosesIsMadeAgain(t *testing.T) {
	for _, row := range []struct{ kind, verb string }{{"template", "label"}, {"poolstatus", "report"}} {
		t.Run(row.kind, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			w.Prepared(func(c *kit.Controller) {
				for range 3 { // what wakes the key besides is used up
					c.Wire.Inject(kit.Fault{On: kit.On(row.kind, row.verb), Do: kit.Answer(http.StatusConflict, metav1.StatusReasonConflict)})
				}
			})
			w.Create(world.Template("t"), world.Pool("p", 0))
			w.Await(world.Converged("p", 0))
		})
	}
}
