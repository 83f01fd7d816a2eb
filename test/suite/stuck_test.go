package suite

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/watch"
)

// impatient gives members a second to become ready.
func impatient(o *watch.Options) { o.Grace = time.Second }

// all wishes for a pool to have a number of members, ready or not.
func members(pool string, n int) kit.Wish {
	return func(s *kit.Sight) error {
		if got := len(s.Members(pool)); got != n {
			return fmt.Errorf("pool %s has %d members, not %d", pool, got, n)
		}
		return nil
	}
}

func TestAMemberThatNeverBecomesReadyIsReplaced(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller(impatient)
	w.Kubelet.Hold()
	w.Create(kit.Template("t"), kit.Pool("p", 2))
	retired := func(s *kit.Sight) error {
		for _, b := range s.Sandboxes {
			if b.Annotations[apply.NoteRetired] == states.Stuck {
				return nil
			}
		}
		return fmt.Errorf("no member is stuck")
	}
	w.Await(retired)
	w.Kubelet.Release()
	w.Await(kit.Right("p", 2))
}

func TestAMemberThatHasNoRoomIsHeldAndThePoolSaysSo(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller(impatient)
	w.Kubelet.Hold()
	w.Create(kit.Template("t"), kit.Pool("p", 1))
	var pod string
	w.Await(func(s *kit.Sight) error {
		for name := range s.Pods {
			pod = name
			return nil
		}
		return fmt.Errorf("there is no pod")
	})
	schedulerSays(t, w, pod, `"status":"False","reason":"Unschedulable","message":"0/3 nodes are available"`)
	w.Await(poolSays("p", "Degraded", "Unschedulable", "0/3 nodes are available"))
	NewWithT(t).Eventually(func() int { return w.Events("p", "WarmPoolNotProgressing") }, "30s").Should(Equal(1))
	schedulerSays(t, w, pod, `"status":"True"`)
	w.Kubelet.Release()
	w.Await(kit.All(kit.Right("p", 1), poolSays("p", "Degraded", "AsExpected", "")))
	w.Look(func(s *kit.Sight) { NewWithT(t).Expect(s.Pods).To(HaveKey(pod), "it was held, not replaced") })
	NewWithT(t).Eventually(func() int { return w.Events("p", "WarmPoolProgressing") }, "30s").Should(Equal(1))
}

// schedulerSays writes what the scheduler would of a pod.
func schedulerSays(t *testing.T, w *kit.World, pod, what string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"PodScheduled",%s}]}}`, what)
	_, err := w.Pods().Patch(w.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestPodsThatAreDeletedAsFastAsTheyAreMadeAreMadeEverMoreSlowly(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Kubelet.Hold()
	w.Create(kit.Template("t"), kit.Pool("p", 2))
	w.Await(members("p", 2))
	vandal, err := w.Pods().Watch(w.Context(), metav1.ListOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer vandal.Stop()
	for n := 0; n < 8; {
		e := <-vandal.ResultChan()
		if pod, ok := e.Object.(*corev1.Pod); ok && e.Type == "ADDED" {
			n++
			w.Delete(w.Pods(), pod.Name)
		}
	}
	w.Await(poolSays("p", "Degraded", "MembersEnd", "as fast as they are made"))
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(BeNumerically("<", 12))
	w.Kubelet.Release()
	w.Await(kit.Full("p", 2))
}

func TestAMemberThatAHandCalledBoundIsReplaced(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(kit.Template("t"), kit.Pool("p", 2))
	w.Await(kit.Full("p", 2))
	var pod string
	w.Look(func(s *kit.Sight) { pod = s.Free("p")[0] })
	w.LabelPod(pod, apply.LabelState, "bound")
	w.Await(func(s *kit.Sight) error {
		if _, there := s.Pods[pod]; there {
			return fmt.Errorf("pod %s is still there", pod)
		}
		return nil
	}, kit.Full("p", 2))
}
