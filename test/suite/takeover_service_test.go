package suite

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// portsOf holds when the Service of a sandbox has these ports and no others.
func portsOf(w *kit.World, name string, want ...int32) func() error {
	return func() error {
		service, err := services(w).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var is []int32
		for _, p := range service.Spec.Ports {
			is = append(is, p.Port)
		}
		if !slices.Equal(is, want) {
			return fmt.Errorf("the Service has the ports %d, not %d", is, want)
		}
		return nil
	}
}

// What the incumbent made by Update stays its own until somebody takes it over: what is
// left out of an apply stays then.
func TestAnEditReachesTheServiceAndThePolicyThatTheIncumbentMade(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	w.Replay("testdata/takeover/service.yaml")
	c := w.Controller()
	w.Await(world.SandboxSays("served", "DependenciesReady", "Pod is Ready; Service Exists"), c.Settled())
	before, err := services(w).Get(w.Context(), "served", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.PatchSandbox("served", `{"podTemplate":{"spec":{"containers":[{"name":"main","image":"image","ports":[{"containerPort":80,"protocol":"TCP"}]}]}}}`)
	g.Eventually(portsOf(w, "served", 80)).WithTimeout(patience).Should(Succeed())
	w.Await(c.Settled())
	after, err := services(w).Get(w.Context(), "served", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.UID).To(Equal(before.UID))
	g.Expect(apply.Inherited(after)).To(BeFalse(), "nothing of it is the incumbent's any more")
	g.Expect(writesTo(c, "service", "served")).To(Equal([]string{"takeover", "sync"}), "once in its life")

	policy := func() error {
		p, err := w.Policies().Get(w.Context(), "ruled-network-policy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		rule := p.Spec.Egress[0]
		if len(p.OwnerReferences) > 0 || len(rule.Ports) != 1 || rule.To[0].IPBlock.Except != nil {
			return errors.New("it still has what the template has not")
		}
		return nil
	}
	w.PatchTemplate("ruled", `{"networkPolicy":{"egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}],"ports":[{"port":53,"protocol":"UDP"}]}]}}`)
	g.Eventually(policy).WithTimeout(patience).Should(Succeed())

	// And back: the incumbent updates it as it always did, and nothing is in its way.
	after.Spec.Ports = before.Spec.Ports
	_, err = services(w).Update(w.Context(), after, metav1.UpdateOptions{FieldManager: "agent-sandbox-controller", DryRun: []string{metav1.DryRunAll}})
	g.Expect(err).NotTo(HaveOccurred())
}
