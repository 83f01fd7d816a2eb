package suite

import (
	"testing"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// The writes at the end of a claim, each as a point at which a controller dies.
func TestAControllerDiesWhileAClaimEndsAndTheNextOneFinishes(t *testing.T) {
	for _, when := range []struct {
		name string
		does func(*kit.Controller) kit.Behaviour
	}{
		{"right after the write is done", kit.CrashAfter},
		{"right before the write is sent", kit.CrashBefore},
	} {
		for _, row := range []struct {
			name, kind, verb string
			policy           ext.ShutdownPolicy
		}{
			{"expired", "claimstatus", "stale", ext.ShutdownRetain},
			{"delete what an ended claim had", "sandbox", "delete", ext.ShutdownRetain},
			{"expired, to be deleted", "claimstatus", "stale", ext.ShutdownDelete},
			{"delete an ended claim", "claim", "delete", ext.ShutdownDelete},
		} {
			t.Run(row.name+"/"+when.name, func(t *testing.T) {
				t.Parallel()
				w := kit.New(t)
				first := w.Prepared(func(c *kit.Controller) {
					c.Wire.Inject(kit.Fault{On: kit.On(row.kind, row.verb), Do: when.does(c)})
				})
				w.Create(world.Template("t"), world.Pool("p", 1))
				w.Await(world.Full("p", 1))
				w.Create(world.Claim("a", "p"))
				w.Await(world.Bound("a"))
				claim := w.Claim("a")
				patchClaim(t, w, "a", `{"spec":{"lifecycle":{"shutdownTime":"2020-01-01T00:00:00Z","shutdownPolicy":"`+string(row.policy)+`"}}}`)
				w.Await(first.Dead())
				w.Controller()
				if row.policy == ext.ShutdownDelete {
					w.Await(world.Deleted(claim), world.Converged("p", 1))
					return
				}
				w.Await(holdsNothing("a"), world.Full("p", 1), world.Counted("p", 1))
			})
		}
	}
}
