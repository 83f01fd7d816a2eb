package suite

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
)

func TestASandboxMadeAgainUnderTheNameAClaimWasToldIsNotTheClaims(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first := w.Controller()
	w.Create(kit.Template("t"), kit.Pool("p", 0), kit.Claim("a", "p"))
	w.Await(kit.Right("p", 0, "a"))
	first.Stop()

	// What a slow second leader does: its creation arrives after the sandbox that
	// the claim was told of is gone.
	g := NewWithT(t)
	was, err := w.Sandboxes().Get(w.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Delete(w.Sandboxes(), "a")
	w.Delete(w.Pods(), "a")
	w.Await(kit.Gone(was))
	again := kit.Sandbox("a")
	again.Labels, again.OwnerReferences = was.Labels, was.OwnerReferences
	w.Create(again)

	w.Controller()
	w.Await(kit.All(
		kit.Words("a", states.Stale),
		claimSays("a", "SandboxLost", `Sandbox "a" of this claim is gone`),
		func(s *kit.Sight) error {
			if again, ok := s.Sandboxes["a"]; ok {
				return kit.Gone(again)(s)
			}
			return nil
		},
	))
}
