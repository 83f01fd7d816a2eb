package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A scenario is a short story in which a controller dies: it runs until the
// controller is dead, and another one brings it to its end.
type scenario struct {
	size   int32 // of the pool, in the end
	claims []string
	run    func(w *kit.World, dead world.Condition)
}

// The scenarios. Each goes on as soon as the controller has done its part, or is
// dead.
var (
	warm = scenario{2, []string{"a"}, func(w *kit.World, dead world.Condition) {
		w.Create(world.Template("t"), world.Pool("p", 2))
		w.Await(world.Either(dead, world.Full("p", 2)))
		w.Create(world.Claim("a", "p"))
	}}
	own = scenario{0, []string{"a"}, func(w *kit.World, dead world.Condition) {
		w.Kubelet.Hold()
		w.Create(world.Template("t"), world.Pool("p", 0), world.Claim("a", "p"))
		w.Await(world.Either(dead, world.HasState("a", states.Warming)))
		w.Kubelet.Release()
	}}
	mend = scenario{1, nil, func(w *kit.World, dead world.Condition) {
		w.Create(world.Template("t"), world.Pool("p", 1))
		w.Await(world.Either(dead, world.Full("p", 1)))
		w.PatchTemplate("t", `{"networkPolicy":{}}`)
	}}
	loosen = scenario{1, nil, func(w *kit.World, dead world.Condition) {
		w.Create(world.Template("t"), world.Pool("p", 1))
		w.Await(world.Either(dead, world.Full("p", 1)))
		w.PatchTemplate("t", `{"networkPolicyManagement":"Unmanaged"}`)
	}}
	shrink = scenario{1, nil, func(w *kit.World, dead world.Condition) {
		w.Create(world.Template("t"), world.Pool("p", 2))
		w.Await(world.Either(dead, world.Full("p", 2)))
		w.Scale("p", 1)
	}}
)

// crashes are the writes at which a controller dies, by name: every write there
// is on the way of a claim, and of a pool.
var crashes = []struct {
	name, kind, verb string
	scenario         scenario
}{
	{"label the template", "template", "label", warm},
	{"create the policy", "policy", "create", warm},
	{"mend the policy", "policy", "sync", mend},
	{"delete the policy", "policy", "delete", loosen},
	{"create a member", "sandbox", "create", warm},
	{"create a pod", "pod", "create", warm},
	{"report a sandbox", "sandboxstatus", "report", warm},
	{"warmed", "pod", "ready", warm},
	{"report the pool", "poolstatus", "report", warm},
	{"adopt", "sandbox", "adopt", warm},
	{"handed", "pod", "bound", warm},
	{"bound", "claimstatus", "bound", warm},
	{"annotate", "claim", "annotate", warm},
	{"the Event", "event", "event", warm},
	{"cold create", "sandbox", "cold", own},
	{"cold annotate", "claim", "annotate", own},
	{"coldstart", "claimstatus", "warming", own},
	{"create a pod for a claim", "pod", "create", own},
	{"cold handed", "pod", "bound", own},
	{"report a claim's own sandbox", "sandboxstatus", "report", own},
	{"cold bound", "claimstatus", "bound", own},
	{"retire", "sandbox", "retire", shrink},
	{"retired", "pod", "stale", shrink},
	{"delete", "sandbox", "delete", shrink},
}

func TestAControllerDiesAndTheNextOneFinishes(t *testing.T) {
	for _, when := range []struct {
		name string
		does func(*kit.Controller) kit.Behaviour
	}{
		{"right after the write is done", kit.CrashAfter},
		{"right before the write is sent", kit.CrashBefore},
	} {
		for _, row := range crashes {
			t.Run(row.name+"/"+when.name, func(t *testing.T) {
				t.Parallel()
				w := kit.New(t)
				first := w.Prepared(func(c *kit.Controller) {
					c.Wire.Inject(kit.Fault{On: kit.On(row.kind, row.verb), Do: when.does(c)})
				})
				row.scenario.run(w, first.Dead())
				w.Await(first.Dead())
				w.Controller()
				w.Await(world.Converged("p", int(row.scenario.size), row.scenario.claims...), world.Annotated(row.scenario.claims...))
				keptItsSandbox(t, w, row.scenario.claims...)
				w.Await(policyAsWanted("t"))
			})
		}
	}
}

// A hand-over that takes longer shows on the pod. The first leader dies when it has
// adopted the sandbox; the second is kept from handing the pod over, and dies at the
// write that says so.
func TestAControllerDiesInAHandOverThatTakesLonger(t *testing.T) {
	for name, does := range map[string]func(*kit.Controller) kit.Behaviour{
		"reserved/right after the write is done": kit.CrashAfter, "reserved/right before the write is sent": kit.CrashBefore,
	} {
		t.Run(name, func(t *testing.T) {
			w, first := started(t, 2)
			first.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.CrashAfter(first)})
			w.Create(world.Claim("a", "p"))
			w.Await(first.Dead())
			second := w.Prepared(func(c *kit.Controller) {
				failHandover(c, kit.NewGate())
				c.Wire.Inject(kit.Fault{On: kit.On("pod", "binding"), Do: does(c)})
			})
			w.Await(second.Dead())
			w.Controller()
			w.Await(world.Converged("p", 2, "a"), world.Annotated("a"))
			keptItsSandbox(t, w, "a")
		})
	}
}

// A second death is no worse than the first: whatever one leader left half done,
// the next may leave so too.
func TestThreeControllersDieOneAfterAnotherInOneHandOver(t *testing.T) {
	w, first := started(t, 2)
	first.Stop()
	w.Create(world.Claim("a", "p"))
	for _, at := range []struct{ kind, verb string }{{"sandbox", "adopt"}, {"pod", "bound"}, {"claimstatus", "bound"}} {
		c := w.Prepared(func(c *kit.Controller) {
			c.Wire.Inject(kit.Fault{On: kit.On(at.kind, at.verb), Do: kit.CrashAfter(c)})
		})
		w.Await(world.Either(c.Dead(), world.Converged("p", 2, "a"))) // the one before may have got further
	}
	w.Controller()
	w.Await(world.Converged("p", 2, "a"), world.Annotated("a"))
	keptItsSandbox(t, w, "a")
}

// keptItsSandbox checks that claims are bound to the only sandbox they ever held.
func keptItsSandbox(t *testing.T, w *kit.World, claims ...string) {
	t.Helper()
	for _, claim := range claims {
		same(t, w.EverHeld(w.Claim(claim).UID), w.SandboxOf(claim))
	}
}
