package process

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kiln-sandbox/kiln/crds"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// A controller of sandboxes alone runs where nobody has installed anything else.
func TestSandboxesAloneAreServedWhereOnlyTheirCRDIs(t *testing.T) {
	g := NewWithT(t)
	all, err := dynamic.NewForConfig(world.cluster.Config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { // the tests after this one install what they need
		g.Expect(all.Resource(definitions).Delete(world.ctx, crds.Sandboxes, metav1.DeleteOptions{})).To(Succeed())
		g.Eventually(func() bool {
			_, err := all.Resource(definitions).Get(world.ctx, crds.Sandboxes, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, long).Should(BeTrue())
	})
	manifest := crds.Manifests()[slices.Index(crds.Names(), crds.Sandboxes)]
	g.Expect(world.cluster.Apply(world.ctx, manifest)).To(Succeed())
	g.Eventually(func() error {
		_, err := world.kiln.Sandboxes("default").List(world.ctx, metav1.ListOptions{})
		return err
	}, long).Should(Succeed())

	alone := start(t, "sandboxes", "--extensions=false")
	g.Eventually(ready, long).WithArguments(alone).Should(Succeed())
	b := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	b.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"image"}]}`)}
	_, err = world.kiln.Sandboxes("default").Create(world.ctx, b, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		is, err := world.kiln.Sandboxes("default").Get(world.ctx, "mine", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(meta.IsStatusConditionTrue(is.Status.Conditions, "Ready")).To(BeTrue())
	}, long).Should(Succeed())
	g.Expect(said(t, alone)).NotTo(ContainSubstring("Failed to watch"), "it asks for no kind that is not there")
}
