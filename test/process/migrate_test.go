package process

import (
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/cluster"
)

// kiln runs the program as the administrator would.
func kiln(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(world.cluster.WriteKubeconfig(path, world.cluster.Config)).To(Succeed())
	out, err := exec.CommandContext(world.ctx, world.binary, append(args, "--kubeconfig="+path)...).CombinedOutput()
	return string(out), err
}

// An administrator who comes from the days of v1alpha1 is told what to do, and after
// that everything fits. One test, because its chapters follow each other.
func TestTheWayFromOlderDefinitionsAndObjects(t *testing.T) {
	c, err := dynamic.NewForConfig(world.cluster.Config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	older(t, c)
	t.Cleanup(func() { uninstall(t, c) })

	t.Run("definitions that keep v1alpha1 are left alone, with the way out", func(t *testing.T) {
		g := NewWithT(t)
		said, err := kiln(t, "crds", "install")
		g.Expect(err).To(HaveOccurred())
		g.Expect(said).To(And(ContainSubstring("sandboxtemplates.extensions.agents.x-k8s.io: objects are stored as v1alpha1 and v1beta1"),
			ContainSubstring("kiln migrate --prune-stored-versions"), ContainSubstring("kubectl patch crd")))
	})

	t.Run("a dry run changes nothing", func(t *testing.T) {
		g := NewWithT(t)
		said, err := kiln(t, "migrate", "--prune-stored-versions", "--dry-run")
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(said).To(ContainSubstring("sandboxtemplates.extensions.agents.x-k8s.io: 1 objects would be rewritten, and v1alpha1 and v1beta1 would become v1beta1"))
		g.Expect(storedVersions(t, c)).To(Equal([]string{"v1alpha1", "v1beta1"}))
	})

	t.Run("pruned, the definitions of this version are installed and the objects are there", func(t *testing.T) {
		g := NewWithT(t)
		said, err := kiln(t, "migrate", "--prune-stored-versions")
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(storedVersions(t, c)).To(Equal([]string{"v1beta1"}))
		said, err = kiln(t, "crds", "install")
		g.Expect(err).NotTo(HaveOccurred(), said)
		got, err := world.kiln.Templates("default").Get(world.ctx, "old", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got.Spec.PodTemplate.Spec.Raw)).To(ContainSubstring("main"))
	})

	t.Run("what the agent-sandbox controller left is taken over, as a dry run says before", func(t *testing.T) {
		g := NewWithT(t)
		replicas := int32(0)
		pool := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
		pool.Spec = ext.SandboxWarmPoolSpec{Replicas: &replicas, TemplateRef: ext.SandboxTemplateRef{Name: "old"}}
		made, err := world.kiln.Pools("default").Create(world.ctx, pool, metav1.CreateOptions{FieldManager: "kubectl"})
		g.Expect(err).NotTo(HaveOccurred())
		made.Status.Selector = "agents.x-k8s.io/warm-pool-sandbox=x"
		made, err = world.kiln.Pools("default").UpdateStatus(world.ctx, made, metav1.UpdateOptions{FieldManager: "a-fork"}) // a name that nobody has heard of
		g.Expect(err).NotTo(HaveOccurred())

		said, err := kiln(t, "migrate", "--dry-run")
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(said).To(And(MatchRegexp(`pool default/left: \d+ fields to kiln-pool from a-fork\n`), ContainSubstring("pool:    1, 1 to be taken over\n")))
		is, err := world.kiln.Pools("default").Get(world.ctx, "left", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(is.ResourceVersion).To(Equal(made.ResourceVersion), "a dry run writes nothing")

		said, err = kiln(t, "migrate")
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(said).To(ContainSubstring("pool:    1, 1 taken over\n"))
		said, err = kiln(t, "migrate")
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(said).To(ContainSubstring("pool:    1, 0 taken over\n"), "once is enough")
		g.Expect(world.kiln.Pools("default").Delete(world.ctx, "left", metav1.DeleteOptions{})).To(Succeed())
	})

	t.Run("given back, what the agent-sandbox controller would not touch is its own again", givesBack)
}

// givesBack takes the way back: Kiln's NetworkPolicy has no owner, and its pool has a
// member that was about to be deleted.
func givesBack(t *testing.T) {
	g := NewWithT(t)
	const ns = "given-back"
	_, err := world.core.CoreV1().Namespaces().Create(world.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	applier, err := apply.New(world.cluster.Config, apply.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	template := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	template.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"image"}]}`)
	template, err = world.kiln.Templates(ns).Create(world.ctx, template, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	want, err := apply.PolicyOf(template)
	g.Expect(err).NotTo(HaveOccurred())
	made, err := applier.CreatePolicy(world.ctx, want)
	g.Expect(err).NotTo(HaveOccurred())
	blueprint, err := apply.BlueprintOf(template)
	g.Expect(err).NotTo(HaveOccurred())
	none := int32(0)
	pool := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: ext.SandboxWarmPoolSpec{Replicas: &none, TemplateRef: ext.SandboxTemplateRef{Name: "mine"}}}
	pool.Spec.UpdateStrategy.Type = ext.Rolling
	pool, err = world.kiln.Pools(ns).Create(world.ctx, pool, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"mine-free", "mine-retired"} {
		member, err := applier.CreateMember(world.ctx, pool, name, blueprint)
		g.Expect(err).NotTo(HaveOccurred())
		if name == "mine-retired" {
			_, err = applier.Retire(world.ctx, member, states.ReasonSurplus)
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	policy := func() *networkingv1.NetworkPolicy {
		p, err := world.core.NetworkingV1().NetworkPolicies(ns).Get(world.ctx, made.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return p
	}

	said, err := kiln(t, "migrate", "--back", "--dry-run", "--namespace="+ns)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).To(And(ContainSubstring("policy "+ns+"/mine-network-policy: its controller is SandboxTemplate mine\n"),
		ContainSubstring("pool "+ns+"/mine: RollingUpdate is Kiln's own"), ContainSubstring("sandbox "+ns+"/mine-retired: it was retired, and is deleted\n"),
		ContainSubstring("policy:  1, 1 to be given back\n"), ContainSubstring("sandbox: 2, 1 to be given back\n")))
	g.Expect(policy().ResourceVersion).To(Equal(made.ResourceVersion), "a dry run writes nothing")

	said, err = kiln(t, "migrate", "--back", "--namespace="+ns)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).To(And(ContainSubstring("policy:  1, 1 given back\n"), ContainSubstring("sandbox: 2, 1 given back\n")))
	g.Expect(metav1.IsControlledBy(policy(), template)).To(BeTrue())
	g.Expect(policy().Spec).To(Equal(made.Spec))
	said, err = kiln(t, "migrate", "--back", "--namespace="+ns)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).To(And(ContainSubstring("policy:  1, 0 given back\n"), ContainSubstring("sandbox: 1, 0 given back\n")), "once is enough")

	g.Expect(world.kiln.Templates(ns).Delete(world.ctx, "mine", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(world.kiln.Pools(ns).Delete(world.ctx, "mine", metav1.DeleteOptions{})).To(Succeed())
	policies := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	g.Expect(world.cluster.Await(world.ctx, policies, ns, made.Name, cluster.Gone)).To(Succeed(), "the garbage collector takes it with its template")
}

// older installs definitions as they were when v1alpha1 was stored, with a template
// in it, and then as they were when v1beta1 was.
func older(t *testing.T, c dynamic.Interface) {
	t.Helper()
	g := NewWithT(t)
	for _, stores := range []string{"v1alpha1", "v1beta1"} {
		for _, raw := range crds.Manifests() {
			crd := &unstructured.Unstructured{}
			g.Expect(yaml.Unmarshal(raw, &crd.Object)).To(Succeed())
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			g.Expect(err).NotTo(HaveOccurred())
			before := versions[0].(map[string]any)
			after := (&unstructured.Unstructured{Object: before}).DeepCopy().Object
			after["name"], after["storage"], before["storage"] = "v1alpha1", stores == "v1alpha1", stores == "v1beta1"
			g.Expect(unstructured.SetNestedSlice(crd.Object, append(versions, after), "spec", "versions")).To(Succeed())
			_, err = c.Resource(definitions).Apply(world.ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test", Force: true})
			g.Expect(err).NotTo(HaveOccurred())
		}
		for _, name := range crds.Names() {
			g.Expect(world.cluster.Await(world.ctx, definitions, "", name, cluster.True("Established"))).To(Succeed())
		}
		if stores == "v1alpha1" {
			old := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "extensions.agents.x-k8s.io/v1alpha1", "kind": "SandboxTemplate", "metadata": map[string]any{"name": "old"},
				"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image"}}}}},
			}}
			resource := schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxtemplates"}
			g.Eventually(func() error {
				_, err := c.Resource(resource).Namespace("default").Create(world.ctx, old, metav1.CreateOptions{})
				return err
			}, long).Should(Succeed())
		}
	}
}

func storedVersions(t *testing.T, c dynamic.Interface) []string {
	t.Helper()
	g := NewWithT(t)
	crd, err := c.Resource(definitions).Get(world.ctx, crds.SandboxTemplates, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	versions, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	g.Expect(err).NotTo(HaveOccurred())
	return versions
}

// uninstall leaves the cluster as it was found.
func uninstall(t *testing.T, c dynamic.Interface) {
	g := NewWithT(t)
	for _, name := range crds.Names() {
		g.Expect(c.Resource(definitions).Delete(world.ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}
	for _, name := range crds.Names() {
		g.Expect(world.cluster.Await(world.ctx, definitions, "", name, cluster.Gone)).To(Succeed())
	}
}
