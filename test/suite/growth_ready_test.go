package suite

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A member whose node died is ready by its label until that is written anew. What
// counts is its readiness.
func TestAMemberThatLostItsReadinessIsNotHandedOutBeforeItsStateSaysSo(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, cooled := w.Held("pod", "warming")
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(resting(c, 1))
	lost := w.Members("p")[0]
	w.Kubelet.SetReady(lost, false)
	w.Await(cooled.Reached(), world.PodHasState(lost, "ready"))
	w.Create(world.Claim("a", "p"))
	w.Await(world.ClaimSays("a", "AdoptionPending", `waiting for a warm sandbox of pool "p"; one is starting`))
	NewWithT(t).Expect(c.Wire.Count("sandbox", "adopt")).To(BeZero())
	w.Kubelet.SetReady(lost, true)
	cooled.Open()
	w.Await(world.Converged("p", 1, "a"))
	NewWithT(t).Expect(w.Claim("a").Status.SandboxStatus.Name).To(Equal(lost), "once it is ready again it is the claim's")
}

func TestAClaimThatIsToldOfAPodThatLostItsReadinessSaysSo(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, tell := w.Held("claimstatus", "bound")
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(resting(c, 1))
	lost := w.Members("p")[0]
	w.Create(world.Claim("a", "p"))
	w.Await(tell.Reached())
	w.Kubelet.SetReady(lost, false)
	w.Await(world.SandboxSays(lost, "DependenciesNotReady", "Pod is Running but not Ready"))
	tell.Open()
	w.Await(world.HasState("a", "bound"), world.ClaimSays("a", "DependenciesNotReady", "Pod is Running but not Ready"))
	w.Kubelet.SetReady(lost, true)
	w.Await(world.Converged("p", 1, "a"), world.ClaimSays("a", "DependenciesReady", "Pod is Ready"))
}
