package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestASandboxThatTheIncumbentEndedNeverGetsAPodAgain(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Replay("testdata/takeover/expired.yaml")
	c := w.Controller()
	w.Create(world.Sandbox("mine"))
	w.Await(world.PodHasState("mine", states.Bound), world.SandboxSays("ended", "SandboxExpired", ""), c.Settled())
	if verbs := writesTo(c, "pod", "ended"); len(verbs) > 0 {
		t.Errorf("a pod was made: %q", verbs)
	}
	unhurt(t, c)
}
