package suite

import (
	"fmt"
	"testing"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A pool that was emptied has more to make than may be under way at once. The server
// answers nothing of that here, so what waits for its place waits for ever, unless it is
// hurried: claims come, and as many pods as those wait for are asked for. Behind the last
// of them the rest of the pool still waits.
func TestWhatWaitsForItsPlaceIsHurriedWhenAClaimComesToWaitForIt(t *testing.T) {
	t.Parallel()
	const members, places, n = 20, 12, 16
	w := kit.New(t)
	gate := kit.NewGate()
	c := w.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: kit.On("pod", "create"), Always: true, Do: kit.Hold(gate)})
	})
	begun := func(pods int) world.Condition {
		return func(*world.Snapshot) error {
			all := written(c, "pod create")
			for _, r := range all {
				if r.Ended != 0 { // it was given up after half a minute, and has left its place
					return fmt.Errorf("the pod %s was answered", r.Name)
				}
			}
			if len(all) != pods {
				return fmt.Errorf("%d pods are asked for, not %d", len(all), pods)
			}
			return nil
		}
	}
	w.Create(world.Template("t"), world.Pool("p", members))
	w.Await(begun(places))
	var claims []string
	for i := range n {
		claims = append(claims, fmt.Sprint("c", i))
		w.Create(world.Claim(claims[i], "p"))
	}
	w.Await(begun(n))
	gate.Open()
	w.Await(world.Converged("p", members, claims...), world.Annotated(claims...))
	if cold := written(c, "claimstatus coldstart"); len(cold) > 0 {
		t.Errorf("%d claims got sandboxes of their own, though as many members were starting", len(cold))
	}
}
