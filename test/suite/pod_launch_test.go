package suite

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// The scheduler and the kubelet write a pod that is launched. Labels that somebody gives it
// meanwhile come with its next move, and not in a write that theirs would make lose; only
// when the launch takes long they have one of their own.
func TestTheLabelsOfAPodThatIsLaunchedComeWithItsMove(t *testing.T) {
	red := podHas("s", map[string]string{"colour": "red"}, nil)
	for _, row := range []struct {
		name   string
		late   time.Duration // how much later it is by the controller's clock than when all began
		synced int           // writes of their own
	}{
		{"a launch that goes well", 0, 0},
		{"a launch that takes long", time.Minute, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			w := kit.New(t)
			w.Kubelet.Hold()
			now := time.Now().Add(row.late)
			c := w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return now } })
			w.Create(world.Sandbox("s"))
			w.Await(world.PodHasState("s", states.Warming))
			w.PatchSandbox("s", `{"service":true,"podTemplate":{"metadata":{"labels":{"colour":"red"}}}}`)
			w.Await(c.Wrote("service", "create", 1))
			w.PatchSandbox("s", `{"service":false}`)
			w.Await(c.Wrote("service", "delete", 1), c.Wrote("pod", "warming", row.synced)) // the step that saw the label is over
			w.Kubelet.Release("s")
			w.Await(world.PodHasState("s", states.Bound), red, c.Wrote("pod", "bound", 1))
			g.Expect(c.Wire.Count("pod", "warming")).To(Equal(row.synced))
		})
	}
}
