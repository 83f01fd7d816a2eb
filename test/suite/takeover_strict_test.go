package suite

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// The last leader has seen that the pool is strict, and said so. The next one's watch
// of pools does not show it yet.
func TestANewLeaderWhosePoolWatchLagsHandsOutNoOlderSandbox(t *testing.T) {
	w, first := started(t, 1)
	next := w.Standby()
	next.Watches.Shut("sandboxwarmpools")
	w.PatchPool("p", `{"updateStrategy":{"type":"Recreate"}}`)
	w.Await(observes(w, "t"))
	first.Stop()
	revision := w.ChangeTemplate("t", "image:2")
	w.Create(world.Claim("a", "p"))
	next.Lead()
	w.Await(world.Bound("a"))
	NewWithT(t).Expect(w.Sandbox(w.SandboxOf("a")).Labels).To(HaveKeyWithValue(apply.LabelRevision, revision))
	next.Watches.Open()
	w.Await(world.Converged("p", 1, "a"))
}

// oneByOne has a controller step one claim at a time: what it writes shows the order.
func oneByOne(o *watch.Options) { o.Workers.Claims = 1 }

// The API server keeps the time of creation in seconds. What the last leader has written
// of some claims and not of others hides which of a second came first: so those that it has
// seen are of a second each, and those of one second are seen by the next leader alone.
func TestWaitingClaimsAreServedInOrderOfCreationAlsoAfterARestart(t *testing.T) {
	w, first := cold(t, 5)
	seen, unseen := []string{"e", "b"}, []string{"d", "a", "c"}
	for _, name := range seen {
		w.Create(world.Claim(name, "p"))
		w.Await(world.HasState(name, states.Binding))
		time.Sleep(time.Until(w.Claim(name).CreationTimestamp.Add(time.Second)))
	}
	first.Stop()
	for _, name := range unseen {
		w.Create(world.Claim(name, "p"))
	}
	next := w.Standby(oneByOne)
	next.Lead()
	w.Kubelet.Release()
	names := slices.Concat(seen, unseen)
	w.Await(world.Converged("p", 5, names...))
	of := map[string]string{}
	for _, name := range names {
		of[string(w.Claim(name).UID)] = name
	}
	var served []string
	for _, one := range next.Wire.Writes() {
		if one.Is("sandbox", "adopt") {
			served = append(served, of[one.Claim()])
		}
	}
	NewWithT(t).Expect(served).To(Equal(names))
}

// Each of the claims that are bound has something to be told as well.
func TestAtATakeOverClaimsThatWaitAreServedBeforeThoseThatRest(t *testing.T) {
	t.Parallel()
	const resting, waiting = 24, 3
	w := kit.New(t)
	first := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", resting))
	w.Await(world.Full("p", resting))
	var old, young []string
	var all []metav1.Object
	for i := range resting {
		old = append(old, "old-"+string(rune('a'+i)))
		all = append(all, world.Claim(old[i], "p"))
	}
	w.CreateAtOnce(all...)
	w.Await(world.Converged("p", resting, old...), world.Annotated(old...))
	first.Stop()
	for _, name := range old {
		w.PatchClaim(name, `{"lifecycle":{"ttlSecondsAfterFinished":60}}`)
	}
	for i := range waiting {
		young = append(young, "young-"+string(rune('a'+i)))
		w.Create(world.Claim(young[i], "p"))
	}
	next := w.Standby(oneByOne)
	next.Lead()
	w.Await(world.Converged("p", resting, append(old, young...)...))
	told := slices.DeleteFunc(next.Wire.Writes(), func(one kit.Write) bool { return !one.Is("claimstatus", "bound") })
	last := slices.IndexFunc(told, func(one kit.Write) bool { return one.Name == young[waiting-1] })
	before := slices.DeleteFunc(told[:last], func(one kit.Write) bool { return slices.Contains(young, one.Name) })
	t.Logf("%d of %d claims that rest were told before the last one that waited", len(before), resting)
	NewWithT(t).Expect(len(before)).To(BeNumerically("<=", 1), "one key in eight is one that rests")
}
