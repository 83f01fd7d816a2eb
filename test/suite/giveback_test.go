package suite

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// syncs does what the agent-sandbox controller v1.0 does to the policy of a template whose
// rules have changed: it replaces the whole of one that the template controls, and refuses
// every other.
func (i predecessor) syncs(egress []networkingv1.NetworkPolicyEgressRule) error {
	t := i.template()
	p, err := i.w.Policies().Get(i.w.Context(), apply.PolicyName(t.Name), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(p, t) {
		return fmt.Errorf("refusing to update NetworkPolicy %s", p.Name)
	}
	p.Spec.Egress = egress
	_, err = i.w.Policies().Update(i.w.Context(), p, metav1.UpdateOptions{FieldManager: incumbentName})
	return err
}

func TestAPolicyThatIsGivenBackIsTheIncumbentsAndThenKilnsAgain(t *testing.T) {
	g := NewWithT(t)
	w, c := started(t, 1)
	w.Await(resting(c, 1))
	c.Stop()
	v1, everything := predecessor{w: w}, []networkingv1.NetworkPolicyEgressRule{{}}
	g.Expect(v1.syncs(everything)).To(MatchError(ContainSubstring("refusing to update")), "which is why there is a way back")

	applier, err := apply.New(kit.Config(), apply.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	is, err := w.Policies().Get(w.Context(), apply.PolicyName("t"), metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	back, err := applier.ReturnPolicy(w.Context(), template(w), is)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(back.Spec).To(Equal(is.Spec), "its rules are as they were")
	g.Expect(v1.syncs(everything)).To(Succeed())

	c = w.Controller()
	w.Await(func(s *world.Snapshot) error {
		if p := s.Policies[apply.PolicyName("t")]; len(p.OwnerReferences) > 0 || len(p.Spec.Egress[0].To) == 0 {
			return fmt.Errorf("the policy has owners %v, and lets out to %v", p.OwnerReferences, p.Spec.Egress)
		}
		return nil
	}, c.Settled())
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	unhurt(t, c)
}
