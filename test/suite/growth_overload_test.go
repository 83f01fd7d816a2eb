package suite

import (
	"fmt"
	"testing"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// Scheduler and kubelet write a pod that is starting again and again. Nobody writes its
// label meanwhile: with far more claims than members no write is lost.
func TestManyClaimsOnAnEmptyPoolCauseNoConflict(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Kubelet.Chatter(4)
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 5))
	w.Await(world.Full("p", 5))
	var names []string
	for i := range stage.Number("KILN_OVERLOAD", 60) {
		names = append(names, fmt.Sprint("c", i))
		w.Create(world.Claim(names[i], "p"))
	}
	w.Await(world.Converged("p", 5, names...))
	c.Stop()
	for _, result := range []string{"lost", "gone", "refused", "retry"} {
		if n := c.Counts().Sum(world.Result(result)); n > 0 {
			t.Errorf("%d writes were %s:\n%s", n, result, c.Counts())
		}
	}
	t.Logf("%d claims:\n%s", len(names), c.Counts())
}
