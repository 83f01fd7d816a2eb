package suite

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// withinBudget checks that the pool p was never beyond its budget.
func withinBudget(t *testing.T, w *kit.World) {
	t.Helper()
	b := bounded(w.History(), "p", world.Budget)
	for _, wrong := range slices.Concat(b.tooMany, b.tooFew) {
		t.Error(wrong)
	}
}

func TestARollingUpdateWaitsForPodsThatDoNotFinishTerminatingAndThenGoesOn(t *testing.T) {
	w, _ := rollable(t, rolling("p", 4))
	defer withinBudget(t, w)
	w.Kubelet.Linger()
	now := w.ChangeTemplate("t", "image:2")
	w.Await(standing(3, 1, 2), world.Progress("p", metav1.ConditionTrue, "RollingOut"))
	w.Kubelet.LetGo()
	w.Await(world.Fresh("p", now), world.Converged("p", 4, "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
}

func TestAPoolKnowsAfterARestartWhoseSandboxIsGoneAndWhosePodIsNot(t *testing.T) {
	w, first := rollable(t, rolling("p", 4))
	w.Kubelet.Linger()
	now := w.ChangeTemplate("t", "image:2")
	w.Await(standing(3, 1, 2))
	first.Stop()
	w.Controller()
	defer withinBudget(t, w)
	w.PatchPool("p", `{"updateStrategy":{"rollingUpdate":{"claimPolicy":"Any"}}}`)
	w.Await(standing(3, 1, 2)) // the next one has looked
	w.Kubelet.LetGo()
	w.Await(world.Fresh("p", now), world.Converged("p", 4, "held"))
}

func TestRecreateReplacesAllWhileTheirPodsTerminateAndNeverHasMoreThanTwiceTheNumber(t *testing.T) {
	w, _ := rollable(t, world.Recreating(world.Pool("p", 3)))
	defer withinBudget(t, w)
	w.Kubelet.Linger()
	second := w.ChangeTemplate("t", "image:2")
	w.Await(world.Full("p", 3), world.Fresh("p", second), standing(3, 3, 3))
	third := w.ChangeTemplate("t", "image:3")
	w.Await(world.Follows("p", third), standing(0, 0, 6))
	w.Kubelet.LetGo()
	w.Await(world.Fresh("p", third), world.Converged("p", 3, "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
}

// forgetful is a clock on which nothing was long lost: no loss makes the next
// member wait.
func forgetful(o *watch.Options) {
	var looks atomic.Int64
	o.Now = func() time.Time { return time.Now().Add(time.Duration(looks.Add(1)) * time.Hour) }
	o.Grace = 100 * 365 * 24 * time.Hour
}

func TestMembersThatAreDeletedAsFastAsTheyAreMadeAreBoundedWhileTheirPodsTerminate(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller(forgetful)
	w.Create(world.Template("t"), world.Pool("p", 8))
	defer withinBudget(t, w)
	w.Await(world.Full("p", 8))
	w.Kubelet.Linger()
	pods, err := w.Pods().Watch(w.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	for n := 0; n < 8+2; {
		e := <-pods.ResultChan()
		if pod, ok := e.Object.(*corev1.Pod); ok && e.Type == "ADDED" {
			n++
			w.Delete(w.Sandboxes(), pod.Name)
		}
	}
	w.Await(standing(0, 0, 8+2), world.Progress("p", metav1.ConditionTrue, "ScalingDown"))
	w.Kubelet.LetGo()
	w.Await(world.Converged("p", 8), world.Progress("p", metav1.ConditionFalse, "Complete"))
}

// Its sandbox is no more, and the server has not answered yet: the pod comes.
func TestAPodThatIsJustBeingMadeCountsAlthoughItsSandboxIsDeleted(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	gate := kit.NewGate()
	c := w.Prepared(func(c *kit.Controller) {
		for range 4 + 1 {
			c.Wire.Inject(kit.Fault{On: kit.On("pod", "create"), Do: kit.Hold(gate)})
		}
	})
	w.Create(world.Template("t"), world.Pool("p", 4))
	defer withinBudget(t, w)
	w.Await(members("p", 4), begun(c, 4))
	first := w.Members("p")
	w.Delete(w.Sandboxes(), first...)
	w.Await(func(s *world.Snapshot) error { // the pool knows, and makes others
		if others := s.Members("p"); len(others) == 0 || slices.Contains(first, others[0]) {
			return errWaits
		}
		return nil
	})
	gate.Open()
	w.Await(world.Converged("p", 4))
}

func TestABurstOfClaimsOnAFullPoolRefillsAtOnce(t *testing.T) {
	const n = 40
	w, _ := started(t, n)
	defer withinBudget(t, w)
	w.Kubelet.Release(w.Members("p")...)
	w.Kubelet.Hold() // the next ones
	var claims []string
	for i := range n {
		claims = append(claims, fmt.Sprint("c-", i))
		w.Create(world.Claim(claims[i], "p"))
	}
	w.Await(world.Bound(claims...), standing(n, n, 0))
	w.Kubelet.Release()
	w.Await(world.Converged("p", n, claims...))
}
