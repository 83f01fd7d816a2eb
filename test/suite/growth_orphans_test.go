package suite

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// orphan deletes a pool and leaves its members behind, as a deletion with
// --cascade=orphan does: the garbage collector takes the owner from each member and lets
// the pool go when that is done.
func orphan(t *testing.T, w *kit.World, pool string) {
	t.Helper()
	g := NewWithT(t)
	all := w.Members(pool)
	leave := metav1.DeletePropagationOrphan
	g.Expect(w.Pools().Delete(w.Context(), pool, metav1.DeleteOptions{PropagationPolicy: &leave})).To(Succeed())
	for _, name := range all {
		_, err := w.Sandboxes().Patch(w.Context(), name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{FieldManager: "collector"})
		g.Expect(err).NotTo(HaveOccurred())
	}
	gone := w.Pool(pool)
	_, err := w.Pools().Patch(w.Context(), pool, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: "collector"})
	g.Expect(err).NotTo(HaveOccurred())
	w.Await(world.Deleted(gone))
}

func TestMembersThatWereOrphanedAreThePoolsAgainWhenItIsMadeAgain(t *testing.T) {
	w, c := started(t, 3)
	before := slices.Sorted(slices.Values(w.Members("p")))
	orphan(t, w, "p")
	made := c.Wire.Count("sandbox", "create")
	w.Create(world.Pool("p", 3))
	w.Await(resting(c, 3))
	g := NewWithT(t)
	g.Expect(slices.Sorted(slices.Values(w.Members("p")))).To(Equal(before), "they are the same")
	g.Expect(c.Wire.Count("sandbox", "create")-made).To(BeNumerically("<=", 3), "what was begun before they were seen is surplus")
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 3, "a"))
}

func TestMembersThatWereOrphanedAndAreOutdatedGo(t *testing.T) {
	w, _ := started(t, 2)
	before := w.Members("p")
	orphan(t, w, "p")
	now := w.ChangeTemplate("t", "image:2")
	w.Create(world.Pool("p", 2))
	w.Await(world.All(world.Converged("p", 2), world.Fresh("p", now)), func(s *world.Snapshot) error {
		for _, name := range before {
			if s.Sandboxes[name] != nil {
				return fmt.Errorf("%s of the old template is still there", name)
			}
		}
		return nil
	})
}

// A pod that somebody made under a member's name is none, whatever it says of itself: who
// may make pods must not choose what claims get.
func TestAPodThatOffersItselfIsNoMembersPod(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	gate := kit.NewGate()
	w.Prepared(func(c *kit.Controller) { c.Wire.Inject(kit.Fault{On: kit.On("pod", "create"), Do: kit.Hold(gate)}) })
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(members("p", 1), gate.Reached())
	name := w.Members("p")[0]
	pod := world.Pod(name)
	pod.Labels = map[string]string{
		"agents.x-k8s.io/adoptable": "true", apply.LabelNameHash: apply.Hash(name), apply.LabelState: "ready",
		apply.LabelPool: apply.Hash("p"),
	}
	_, err := w.Pods().Create(w.Context(), pod, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	gate.Open()
	w.Await(world.PoolSays("p", "Degraded", "PodRefused", fmt.Sprintf("pod %q is owned by nobody", name)))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	NewWithT(t).Expect(w.Claim("a").Status.SandboxStatus.Name).NotTo(Equal(name), "a claim gets another")
	NewWithT(t).Expect(w.Pod(name).OwnerReferences).To(BeEmpty())
}
