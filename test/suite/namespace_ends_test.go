package suite

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// Pods of a namespace that is deleted may go before their sandboxes do. Of a pool of 500
// the pods were asked for 6,600 times meanwhile, and an Event told of each that they were
// refused.
func TestNothingIsTriedAgainInANamespaceThatEnds(t *testing.T) {
	t.Parallel()
	const n = 5
	g, w := NewWithT(t), kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", n))
	w.Await(resting(c, n))
	g.Expect(w.Admin().CoreV1().Namespaces().Delete(w.Context(), w.Namespace, metav1.DeleteOptions{})).To(Succeed())
	pods, err := w.Pods().List(w.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods.Items {
		w.Delete(w.Pods(), pod.Name)
	}
	w.Await(c.Wrote("pod", "create", 2*n), counted("p", n, 0), c.Settled())
	g.Expect(c.Wire.Answered("pod", "create")-n).To(BeNumerically("<=", 3*n), "each once, and for each of the two events that were on their way")
	g.Expect(c.Wire.Answered("event", "event")).To(BeZero())
}
