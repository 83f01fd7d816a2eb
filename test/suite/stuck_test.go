package suite

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// impatient gives members a second to become ready.
func impatient(o *watch.Options) { o.Grace = time.Second }

// A clock is one that a test puts forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) forward(by time.Duration) { c.ahead.Add(int64(by)) }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// keep has a controller go by the clock.
func (c *clock) keep(o *watch.Options) { o.Now = c.now }

func TestAMemberThatNeverBecomesReadyIsReplaced(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller(impatient)
	w.Kubelet.Hold()
	w.Create(world.Template("t"), world.Pool("p", 2))
	retired := func(s *world.Snapshot) error {
		for _, b := range s.Sandboxes {
			if b.Annotations[apply.AnnotationRetired] == stuck {
				return nil
			}
		}
		return fmt.Errorf("no member is stuck")
	}
	w.Await(retired)
	w.Kubelet.Release()
	w.Await(world.Converged("p", 2))
}

func TestALaunchThatTakesLongIsToldSoonerWhereSomebodyWaits(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	at.forward(30 * time.Second)
	w.Controller(at.keep)
	w.Kubelet.Hold()
	w.Create(world.Template("t"), world.Pool("p", 1), world.Sandbox("mine"))
	w.Await(counted("p", 1, 0))
	w.Await(world.SandboxSays("mine", "DependenciesNotReady", ""))
	member := w.Members("p")[0]
	if told := w.Sandbox(member).Status.Conditions; len(told) > 0 {
		t.Errorf("after half a minute nobody needs to know this: %+v", told)
	}
	at.forward(time.Minute)
	w.LabelPod(member, "look", "again")
	w.Await(world.SandboxSays(member, "DependenciesNotReady", "Pending"))
	w.Kubelet.Release()
	w.Await(world.Full("p", 1))
}

func TestANodeThatIsAwayForTooLongCostsAPoolAQuarterAndTheOthersComeBack(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	c := w.Controller(at.keep)
	w.Create(world.Template("t"), world.Pool("p", 8))
	w.Await(world.Converged("p", 8)) // the pool says 8 before it says 0 again
	before := w.Members("p")
	w.Kubelet.Linger()
	for _, pod := range before {
		w.Kubelet.SetReady(pod, false)
	}
	w.Await(counted("p", 8, 0))
	for _, member := range before {
		w.Await(world.SandboxSays(member, "DependenciesNotReady", "not Ready"))
	}
	at.forward(time.Hour)
	for _, paused := range []bool{false, true} { // each time it looks again, and says so
		w.PatchPool("p", fmt.Sprintf(`{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"paused":%t}}}`, paused))
		w.Await(standing(8, 8, 2), counted("p", 8, 2))
	}
	if n := c.Wire.Count("sandbox", "retire"); n != 2 {
		t.Errorf("%d members were given up, and 2 is a quarter", n)
	}
	w.Kubelet.Repair()
	w.Await(world.Full("p", 8))
	w.Kubelet.LetGo()
	w.Await(world.Converged("p", 8))
	stayed := slices.DeleteFunc(w.Members("p"), func(m string) bool { return !slices.Contains(before, m) })
	if len(stayed) != 6 {
		t.Errorf("%q are still there of %q; 6 should be", stayed, before)
	}
}

func TestAMemberThatHasNoRoomIsHeldAndThePoolSaysSo(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	w.Controller(at.keep)
	w.Kubelet.Hold()
	w.Create(world.Template("t"), world.Pool("p", 1))
	var pod string
	w.Await(func(s *world.Snapshot) error {
		for name, p := range s.Pods {
			if pod = name; p.Spec.NodeName != "" {
				return nil // the server itself says True of a pod that gets its node
			}
		}
		return fmt.Errorf("there is no pod that has a node")
	})
	schedulerSays(t, w, &at, pod, `"status":"False","reason":"Unschedulable","message":"0/3 nodes are available"`)
	w.Await(world.PoolSays("p", "Degraded", "Unschedulable", "0/3 nodes are available"))
	at.forward(time.Hour)
	schedulerSays(t, w, &at, pod, `"status":"False","reason":"Unschedulable","message":"0/4 nodes are available"`)
	w.Await(world.PoolSays("p", "Degraded", "Unschedulable", "0/4 nodes are available"))
	NewWithT(t).Eventually(func() int { return w.Events("p", "WarmPoolNotProgressing") }, "30s").Should(Equal(1))
	schedulerSays(t, w, &at, pod, `"status":"True"`)
	w.Await(world.PoolSays("p", "Degraded", "AsExpected", ""))
	w.Kubelet.Release()
	w.Await(world.All(world.Converged("p", 1), world.PoolSays("p", "Degraded", "AsExpected", "")))
	w.Look(func(s *world.Snapshot) { NewWithT(t).Expect(s.Pods).To(HaveKey(pod), "it was held, not replaced") })
	NewWithT(t).Eventually(func() int { return w.Events("p", "WarmPoolProgressing") }, "30s").Should(Equal(1))
}

func TestAMemberThatWaitsAtAGateIsHeldHoweverLongThatTakes(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	var at clock
	c := w.Controller(at.keep)
	gated := world.Template("t")
	gated.Spec.PodTemplate.Spec.Raw = []byte(`{"schedulingGates":[{"name":"example.com/gate"}],"containers":[{"name":"main","image":"image"}]}`)
	w.Create(gated, world.Pool("p", 1))
	w.Await(pods(1))
	at.forward(time.Hour)
	w.Scale("p", 2)
	w.Await(members("p", 2), pods(2)) // it has looked at the first one, too
	at.forward(-time.Hour)            // the server says by its own clock when a gate was lifted
	for _, member := range w.Members("p") {
		_, err := w.Pods().Patch(w.Context(), member, types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	w.Await(world.Converged("p", 2))
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d members were given up", n)
	}
}

// schedulerSays writes what the scheduler would of a pod.
func schedulerSays(t *testing.T, w *kit.World, at *clock, pod, what string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"PodScheduled","lastTransitionTime":%q,%s}]}}`,
		at.now().UTC().Format(time.RFC3339), what)
	_, err := w.Pods().Patch(w.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestPodsThatAreDeletedAsFastAsTheyAreMadeAreMadeEverMoreSlowly(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Kubelet.Hold()
	w.Create(world.Template("t"), world.Pool("p", 2))
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
	w.Await(world.PoolSays("p", "Degraded", "MembersEnd", "as fast as they are made"))
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(BeNumerically("<", 12))
	w.Kubelet.Release()
	w.Await(world.Full("p", 2))
}

func TestAMemberThatAHandCalledBoundIsReplaced(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(world.Full("p", 2))
	var pod string
	w.Look(func(s *world.Snapshot) { pod = s.Free("p")[0] })
	w.LabelPod(pod, apply.LabelState, "bound")
	w.Await(func(s *world.Snapshot) error {
		if _, there := s.Pods[pod]; there {
			return fmt.Errorf("pod %s is still there", pod)
		}
		return nil
	}, world.Full("p", 2))
}
