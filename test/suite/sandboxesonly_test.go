package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// As the agent-sandbox controller without --extensions: the other kinds need not even
// be installed.
func TestSandboxesAloneAreServedWhereTheOtherKindsCannotBeRead(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Prepared(func(c *kit.Controller) {
		for _, kind := range []string{"sandboxclaims", "sandboxwarmpools", "sandboxtemplates"} {
			c.Watches.Fail(kind, true)
		}
	}, func(o *watch.Options) { o.SandboxesOnly = true })
	w.Create(world.Sandbox("mine"))
	w.Await(world.PodHasState("mine", states.Bound), world.Reported)
}
