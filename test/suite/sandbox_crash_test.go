package suite

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// A sandboxLife is what becomes of a sandbox, and what is true in the end.
type sandboxLife struct {
	begins func(*testing.T, *kit.World)
	ends   []world.Condition
}

var (
	launched = sandboxLife{
		func(_ *testing.T, w *kit.World) { w.Create(sandbox(withService, withVolume)) },
		[]world.Condition{world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"), world.PodHasState("s", states.Bound), pods(1)},
	}
	halted = sandboxLife{
		func(_ *testing.T, w *kit.World) { w.Create(sandbox(withService)) },
		[]world.Condition{world.SandboxSays("s", "SandboxSuspended", "Sandbox is suspended"), pods(0)},
	}
	ended = sandboxLife{
		func(_ *testing.T, w *kit.World) { w.Create(sandbox(withService)) },
		[]world.Condition{world.Empty},
	}
)

// A leader dies right before a write of a sandbox, or right after it; the next one
// goes on from there.
func TestALeaderThatDiesAtAWriteOfASandboxIsFollowedByOneThatGoesOn(t *testing.T) {
	for _, row := range []struct {
		kind, verb string
		of         sandboxLife
		then       string
	}{
		{"persistentvolumeclaim", "create", launched, ""},
		{"pod", "create", launched, ""},
		{"service", "create", launched, ""},
		{"sandboxstatus", "report", launched, ""},
		{"pod", "bound", launched, ""},
		{"pod", "delete", halted, `{"operatingMode":"Suspended"}`},
		{"pod", "delete", ended, `{"shutdownPolicy":"Delete","shutdownTime":"2020-01-01T00:00:00Z"}`},
		{"service", "delete", ended, `{"shutdownPolicy":"Delete","shutdownTime":"2020-01-01T00:00:00Z"}`},
		{"sandbox", "delete", ended, `{"shutdownPolicy":"Delete","shutdownTime":"2020-01-01T00:00:00Z"}`},
	} {
		for when, crash := range map[string]func(*kit.Controller) kit.Behaviour{"before": kit.CrashBefore, "after": kit.CrashAfter} {
			t.Run(when+" "+row.kind+" "+row.verb, func(t *testing.T) {
				t.Parallel()
				w := kit.New(t)
				first := w.Prepared(func(c *kit.Controller) {
					c.Wire.Inject(kit.Fault{On: kit.On(row.kind, row.verb), Do: crash(c)})
				})
				row.of.begins(t, w)
				if row.then != "" {
					w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"))
					patch(t, w, row.then)
				}
				w.Await(first.Dead())
				w.Controller()
				w.Await(row.of.ends...)
			})
		}
	}
}

func TestSeveralPodsOfASandboxAllGoWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(sandbox())
	w.Await(plain)
	second(t, w)
	w.Await(world.SandboxSays("s", "MultiplePods", ""))
	patch(t, w, `{"shutdownTime":"2020-01-01T00:00:00Z"}`)
	w.Await(says(notSuspended, "Ready False SandboxExpired: Sandbox has expired", nothing), pods(0))
}

func TestEventsOfSandboxesCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller(func(o *watch.Options) { o.SandboxEvents = false })
	w.Create(sandbox(until(time.Now().Add(time.Hour), agents.ShutdownRetain)))
	w.Await(plain, world.PodHasState("s", states.Bound))
	w.Kubelet.Fail("s")
	w.Await(world.SandboxSays("s", "PodFailed", ""))
	c.Stop()
	NewWithT(t).Expect(events(w, "s")).To(BeEmpty())
}
