package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// A plot is a short story in which a controller dies: it is told until the
// controller is dead, and another one brings it to its end.
type plot struct {
	size   int32 // of the pool, in the end
	claims []string
	tell   func(w *kit.World, dead kit.Wish)
}

// The plots. Each goes on as soon as the controller has done its part, or is
// dead.
var (
	warm = plot{2, []string{"a"}, func(w *kit.World, dead kit.Wish) {
		w.Create(kit.Template("t"), kit.Pool("p", 2))
		w.Await(kit.Either(dead, kit.Full("p", 2)))
		w.Create(kit.Claim("a", "p"))
	}}
	own = plot{0, []string{"a"}, func(w *kit.World, dead kit.Wish) {
		w.Kubelet.Hold()
		w.Create(kit.Template("t"), kit.Pool("p", 0), kit.Claim("a", "p"))
		w.Await(kit.Either(dead, kit.Words("a", states.Warming)))
		w.Kubelet.Release()
	}}
	shrink = plot{1, nil, func(w *kit.World, dead kit.Wish) {
		w.Create(kit.Template("t"), kit.Pool("p", 2))
		w.Await(kit.Either(dead, kit.Full("p", 2)))
		w.Scale("p", 1)
	}}
)

// deaths are the writes at which a controller dies, by name: every write there
// is on the way of a claim, and of a pool.
var deaths = []struct {
	name, kind, verb string
	plot             plot
}{
	{"label the template", "template", "label", warm},
	{"create a member", "sandbox", "create", warm},
	{"create a pod", "pod", "create", warm},
	{"report a sandbox", "sandboxstatus", "report", warm},
	{"warmed", "pod", "ready", warm},
	{"report the pool", "poolstatus", "report", warm},
	{"adopt", "sandbox", "adopt", warm},
	{"record", "claim", "record", warm},
	{"bound", "claimstatus", "bound", warm},
	{"reserved", "pod", "binding", warm},
	{"confirmed", "pod", "bound", warm},
	{"the Event", "event", "event", warm},
	{"cold create", "sandbox", "cold", own},
	{"cold record", "claim", "record", own},
	{"coldstart", "claimstatus", "warming", own},
	{"create a pod for a claim", "pod", "create", own},
	{"report a claim's own sandbox", "sandboxstatus", "report", own},
	{"cold bound", "claimstatus", "bound", own},
	{"handed", "pod", "bound", own},
	{"retire", "sandbox", "retire", shrink},
	{"retired", "pod", "stale", shrink},
	{"delete", "sandbox", "delete", shrink},
}

func TestAControllerDiesAndTheNextOneFinishes(t *testing.T) {
	for _, when := range []struct {
		name string
		deed func(*kit.Controller) kit.Deed
	}{
		{"right after the write is done", kit.CrashAfter},
		{"right before the write is sent", kit.CrashBefore},
	} {
		for _, row := range deaths {
			t.Run(row.name+"/"+when.name, func(t *testing.T) {
				t.Parallel()
				w := kit.New(t)
				first := w.Doomed(func(c *kit.Controller) {
					c.Wire.Inject(kit.Fault{On: kit.On(row.kind, row.verb), Do: when.deed(c)})
				})
				row.plot.tell(w, first.Dead())
				w.Await(first.Dead())
				w.Controller()
				w.Await(kit.Right("p", int(row.plot.size), row.plot.claims...), kit.Noted(row.plot.claims...))
				keptItsSandbox(t, w, row.plot.claims...)
			})
		}
	}
}

// A second death is no worse than the first: whatever one leader left half done,
// the next may leave so too.
func TestThreeControllersDieOneAfterAnotherInOneHandOver(t *testing.T) {
	w, first := started(t, 2)
	first.Stop()
	w.Create(kit.Claim("a", "p"))
	for _, at := range []struct{ kind, verb string }{{"sandbox", "adopt"}, {"claimstatus", "bound"}, {"pod", "binding"}} {
		c := w.Doomed(func(c *kit.Controller) {
			c.Wire.Inject(kit.Fault{On: kit.On(at.kind, at.verb), Do: kit.CrashAfter(c)})
		})
		w.Await(kit.Either(c.Dead(), kit.Right("p", 2, "a"))) // the one before may have got further
	}
	w.Controller()
	w.Await(kit.Right("p", 2, "a"), kit.Noted("a"))
	keptItsSandbox(t, w, "a")
}

// keptItsSandbox checks that claims are bound to the only sandbox they ever held.
func keptItsSandbox(t *testing.T, w *kit.World, claims ...string) {
	t.Helper()
	for _, claim := range claims {
		same(t, w.EverHeld(claim), told(w, claim))
	}
}
