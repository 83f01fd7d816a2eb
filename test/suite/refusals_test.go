package suite

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestAClaimOnAPoolThatDoesNotExistSaysSoAndIsServedWhenItAppears(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Claim("a", "p"))
	w.Await(world.ClaimSays("a", "WarmPoolNotFound", `SandboxWarmPool "p" not found`))
	w.Await(c.Wrote("template", "label", 1))
	NewWithT(t).Expect(c.Wire.Writes()).To(HaveLen(3), "the template's policy and label, and one status; nothing is polled")
	w.Create(world.Pool("p", 1))
	w.Await(world.Converged("p", 1, "a"))
}

func TestAPoolWithoutItsTemplateSaysWhatToCreateAndFillsWhenItAppears(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(world.Pool("p", 2), world.Claim("a", "p"))
	w.Await(world.All(
		world.PoolSays("p", "Degraded", "TemplateNotFound", `SandboxTemplate "t" not found; create it in namespace `+w.Namespace),
		world.PoolSays("p", "Ready", "TemplateNotFound", `"t"`),
		world.ClaimSays("a", "TemplateNotFound", `SandboxTemplate "t" not found`),
	))
	w.Create(world.Template("t"))
	w.Await(world.All(world.Converged("p", 2, "a"), world.PoolSays("p", "Degraded", "AsExpected", "")))
}

func TestATemplateWhosePodIsInvalidDegradesItsPoolInTheServersWordsUntilItIsMended(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	broken := world.Template("t")
	broken.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"UPPER","image":"image"}]}`)}
	w.Create(broken, world.Pool("p", 3))
	w.Await(world.All(
		world.PoolSays("p", "Degraded", "PodRefused", "3 pods cannot be created: Pod"),
		world.PoolSays("p", "Degraded", "PodRefused", `spec.containers[0].name: Invalid value: "UPPER"`),
		world.PoolSays("p", "Progressing", "PodRefused", "UPPER"),
	))
	mended, err := w.Templates().Get(w.Context(), "t", metav1.GetOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	mended.Spec.PodTemplate.Spec = world.Template("t").Spec.PodTemplate.Spec
	_, err = w.Templates().Update(w.Context(), mended, metav1.UpdateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.All(world.Converged("p", 3), world.PoolSays("p", "Degraded", "AsExpected", "")))
}

func TestAQuotaDegradesAPoolUntilItIsRaised(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	quota(t, w, "2")
	w.Create(world.Template("t"), world.Pool("p", 3))
	w.Await(world.PoolSays("p", "Degraded", "PodRefused", "1 pods cannot be created: pods"))
	w.Await(world.PoolSays("p", "Degraded", "PodRefused", "exceeded quota: few"))
	quota(t, w, "10")
	w.Await(world.All(world.Converged("p", 3), world.PoolSays("p", "Degraded", "AsExpected", "")))
}

// quota allows a number of pods. What the controller manager would count, the
// admission plugin counts itself from here on.
func quota(t *testing.T, w *kit.World, pods string) {
	t.Helper()
	g := NewWithT(t)
	client := w.Admin().CoreV1().ResourceQuotas(w.Namespace)
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	q, err := client.Get(w.Context(), "few", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		q = &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		q, err = client.Create(w.Context(), q, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		q.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	}
	g.Eventually(func() error {
		q.Status.Hard = hard
		_, err := client.UpdateStatus(w.Context(), q, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			q, _ = client.Get(w.Context(), "few", metav1.GetOptions{})
		}
		return err
	}).Should(Succeed())
	g.Eventually(func() error {
		_, err := w.Pods().Create(w.Context(), world.Pod("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(Succeed(), "the quota is known to the server")
}

func TestAnAdmissionPolicyThatRefusesSandboxesDegradesAPoolUntilItIsGone(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	lift := forbid(t, w, "agents.x-k8s.io", "sandboxes")
	w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 3), world.Claim("a", "p"))
	w.Await(world.All(
		world.PoolSays("p", "Degraded", "SandboxRefused", "no room at the inn"),
		world.ClaimSays("a", "ReconcilerError", "no room at the inn"),
	))
	lift()
	w.Await(world.All(world.Converged("p", 3, "a"), world.PoolSays("p", "Degraded", "AsExpected", "")))
}

// forbid refuses the creation of a resource in the world's namespace, and
// returns what ends that.
func forbid(t *testing.T, w *kit.World, group, resource string) (lift func()) {
	t.Helper()
	g := NewWithT(t)
	policies := w.Admin().AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := w.Admin().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	name := metav1.ObjectMeta{Name: "full-" + w.Namespace}
	_, err := policies.Create(w.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no room at the inn"}},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = bindings.Create(w.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name.Name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace},
			}},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	lift = func() {
		g.Expect(bindings.Delete(w.Context(), name.Name, metav1.DeleteOptions{})).To(Succeed())
		g.Expect(policies.Delete(w.Context(), name.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	g.Eventually(func() error {
		if resource == "networkpolicies" {
			_, err := w.Policies().Create(w.Context(), somebodys(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		_, err := w.Sandboxes().Create(w.Context(), world.Sandbox("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}, "30s").Should(MatchError(ContainSubstring("no room at the inn")), "the policy is known to the server")
	return lift
}

// The server leaves out a field that no pod has, and warns; what is missing then is
// said in its words.
func TestAPodSpecWithATypoIsToldUntilItIsMended(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	typo := world.Sandbox("s")
	typo.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","imagee":"image"}]}`)}
	w.Create(typo)
	w.Await(world.SandboxSays("s", "InvalidConfiguration", `spec.containers[0].image: Required value`))
	g := NewWithT(t)
	mended, err := w.Sandboxes().Get(w.Context(), "s", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	mended.Spec.PodTemplate.Spec = world.Sandbox("s").Spec.PodTemplate.Spec
	_, err = w.Sandboxes().Update(w.Context(), mended, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready"))
}

func TestAPodOfAnothersIsNeitherTakenNorDeleted(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	theirs, err := w.Pods().Create(w.Context(), world.Pod("s"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Controller()
	w.Create(world.Sandbox("s"))
	w.Await(world.SandboxSays("s", "ReconcilerError", `pod "s" is owned by nobody; delete it, or give the sandbox another name`))
	still, err := w.Pods().Get(w.Context(), "s", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(still.UID).To(Equal(theirs.UID))
	g.Expect(still.OwnerReferences).To(BeEmpty())
	w.Delete(w.Pods(), "s")
	w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready"))
}

func TestAClaimWhoseNameIsTakenByAnothersSandboxSaysSoAndIsServedWhenItIsFree(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 0), world.Sandbox("a"))
	w.Await(world.SandboxSays("a", "DependenciesReady", ""))
	w.Create(world.Claim("a", "p"))
	w.Await(world.ClaimSays("a", "ReconcilerError", `sandbox "a" exists and is owned by nobody`))
	w.Delete(w.Sandboxes(), "a")
	w.Await(world.Converged("p", 0, "a"))
}

func TestTheLongestNamesFit(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	long := strings.Repeat("n", 253)
	template, pool := world.Template(long), world.Pool(long, 1)
	pool.Spec.TemplateRef = ext.SandboxTemplateRef{Name: long}
	w.Create(template, pool)
	w.Await(world.Full(long, 1))
	w.Create(world.Claim(long, long))
	w.Await(world.Converged(long, 1, long))
	w.Scale(long, 0)
	w.Await(world.Full(long, 0))
	cold := strings.Repeat("c", 253)
	w.Create(world.Claim(cold, long))
	w.Await(world.Converged(long, 0, long, cold))
}

func TestAClaimWithMetadataThatIsNotAllowedIsRefusedAndServedOnceItIsMended(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 1), world.Claim("a", "p", world.WithLabel("example.com/who", "me")))
	w.Await(world.ClaimSays("a", "InvalidMetadata", "spec.additionalPodMetadata.labels[example.com/who]"))
	g := NewWithT(t)
	mended, err := w.Claims().Get(w.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	mended.Spec.AdditionalPodMetadata.Labels = nil
	_, err = w.Claims().Update(w.Context(), mended, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Await(world.Converged("p", 1, "a"))
}
