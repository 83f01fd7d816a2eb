package suite

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/watch"
)

// freshRounds is how often a claim comes right after a change of the template
// that the controller has not seen. KILN_FRESH_ROUNDS asks for another number; CI
// asks for a thousand.
func freshRounds() int { return number("KILN_FRESH_ROUNDS", 100) }

// retemplate changes what a template's pods run, and returns the revision that
// this makes.
func retemplate(t *testing.T, w *kit.World, image string) string {
	t.Helper()
	g := NewWithT(t)
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/podTemplate/spec/containers/0/image","value":%q}]`, image)
	template, err := w.Templates().Patch(w.Context(), "t", types.JSONPatchType, patch, metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	b, err := apply.BlueprintOf(template)
	g.Expect(err).NotTo(HaveOccurred())
	return b.Revision
}

// recreating is a pool that must never hand out an old member.
func recreating(name string, replicas int32) *ext.SandboxWarmPool {
	p := kit.Pool(name, replicas)
	p.Spec.UpdateStrategy.Type = ext.Recreate
	return p
}

// turn wishes for a controller to have come to a claim: it asks whether the old
// member, which looks current to it, is, or takes it without asking.
func turn(c *kit.Controller) kit.Wish {
	asked, took := c.Valves.Proofs(), c.Wire.Count("sandbox", "adopt")
	return func(*kit.Sight) error {
		if c.Valves.Proofs() == asked && c.Wire.Count("sandbox", "adopt") == took {
			return errors.New("it has not come to the claim")
		}
		return nil
	}
}

// staleBindings claims again and again right after a change of the template that
// the controller is kept from seeing, and counts the claims that were bound to
// an older revision.
func staleBindings(t *testing.T, rounds int, with ...func(*watch.Options)) (stale int) {
	t.Helper()
	w := kit.New(t)
	c := w.Controller(with...)
	w.Create(kit.Template("t"), recreating("p", 1))
	w.Await(kit.Full("p", 1))
	for i := range rounds {
		c.Valves.Shut("sandboxtemplates")
		revision := retemplate(t, w, fmt.Sprint("image:", i))
		claim := fmt.Sprint("a", i)
		turned := turn(c)
		w.Create(kit.Claim(claim, "p"))
		w.Await(turned)
		c.Valves.Open()
		w.Await(kit.Bound(claim))
		if w.Sandbox(w.Told(claim)).Labels[apply.LabelRevision] != revision {
			stale++
		}
		w.Delete(w.Claims(), claim)
		w.Await(kit.Right("p", 1))
	}
	return stale
}

// The rounds are shared out to a few worlds, which spend most of their time
// waiting for the server.
func TestAClaimMadeAfterAChangeOfTheTemplateNeverGetsAnOlderSandbox(t *testing.T) {
	t.Parallel()
	const worlds = 5
	for i := range worlds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(staleBindings(t, (freshRounds()+worlds-1)/worlds)).To(BeZero())
		})
	}
}

func TestWithoutTheProofAClaimWouldGetAnOlderSandbox(t *testing.T) {
	t.Parallel()
	credulous := func(o *watch.Options) { o.Credulous = true }
	NewWithT(t).Expect(staleBindings(t, 5, credulous)).NotTo(BeZero())
}

func TestAPoolThatIsPointedAtAnotherTemplateHandsOutNoMemberOfTheOld(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(kit.Template("t"), kit.Template("u"), recreating("p", 1))
	w.Await(kit.Full("p", 1))
	c.Valves.Shut("sandboxwarmpools")
	_, err := w.Pools().Patch(w.Context(), "p", types.MergePatchType, []byte(`{"spec":{"sandboxTemplateRef":{"name":"u"}}}`), metav1.PatchOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	turned := turn(c)
	w.Create(kit.Claim("a", "p"))
	w.Await(turned)
	c.Valves.Open()
	w.Await(kit.Right("p", 1, "a"))
	NewWithT(t).Expect(w.Sandbox(w.Told("a")).Annotations).To(HaveKeyWithValue(apply.NoteTemplate, "u"))
}

func TestABurstNeedsFewReadsToProveThatItIsFresh(t *testing.T) {
	t.Parallel()
	const burst = 60
	w := kit.New(t)
	c := w.Controller()
	w.Create(kit.Template("t"), recreating("p", burst))
	w.Await(kit.Full("p", burst))
	var names []string
	for i := range burst {
		names = append(names, fmt.Sprint("a", i))
		w.Create(kit.Claim(names[i], "p"))
	}
	w.Await(kit.Right("p", burst, names...))
	t.Logf("%d reads for %d claims", c.Valves.Proofs(), burst)
	NewWithT(t).Expect(c.Valves.Proofs()).To(BeNumerically("<=", 2*burst), "each read proves every claim that is not newer")
}
