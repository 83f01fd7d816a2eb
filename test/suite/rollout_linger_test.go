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
	"github.com/kiln-sandbox/kiln/watch"
)

// standing wishes for p to say how many members it has, how many of them are new,
// and how many are on their way out; and to have seen its spec as it is.
func standing(all, updated, leaving int32) kit.Wish {
	return func(s *kit.Sight) error {
		p, ok := s.Pools["p"]
		if !ok || p.Status.Replicas != all || p.Status.UpdatedReplicas != updated || p.Status.StaleReplicas != leaving ||
			p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("p does not say that it has %d members, %d of them new, and that %d are leaving", all, updated, leaving)
		}
		return nil
	}
}

// neverTooMany checks that p never had more members than it may, those included that
// had not quite gone.
func neverTooMany(t *testing.T, w *kit.World, by ...*kit.Controller) {
	t.Helper()
	var writes []kit.Write
	for _, c := range by {
		writes = append(writes, c.Wire.Writes()...)
	}
	for _, wrong := range judgeRollout(w.History(), writes, w.Pool("p"), budgetOf).wrongs {
		t.Error(wrong)
	}
}

func TestARollingUpdateWaitsForPodsThatDoNotFinishTerminatingAndThenGoesOn(t *testing.T) {
	w, c := rollable(t, rolling("p", 4))
	defer neverTooMany(t, w, c)
	w.Kubelet.Linger()
	now := w.Retemplate("t", "image:2")
	w.Await(standing(3, 1, 2), kit.Progress("p", metav1.ConditionTrue, "RollingOut"))
	w.Kubelet.LetGo()
	w.Await(kit.Fresh("p", now), kit.Right("p", 4, "held"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
}

func TestAPoolKnowsAfterARestartWhoseSandboxIsGoneAndWhosePodIsNot(t *testing.T) {
	w, first := rollable(t, rolling("p", 4))
	w.Kubelet.Linger()
	now := w.Retemplate("t", "image:2")
	w.Await(standing(3, 1, 2))
	first.Stop()
	next := w.Controller()
	defer neverTooMany(t, w, first, next)
	w.Repool("p", `{"updateStrategy":{"rollingUpdate":{"claimPolicy":"Any"}}}`)
	w.Await(standing(3, 1, 2)) // the next one has looked
	w.Kubelet.LetGo()
	w.Await(kit.Fresh("p", now), kit.Right("p", 4, "held"))
}

func TestRecreateReplacesAllWhileTheirPodsTerminateAndNeverHasMoreThanTwiceTheNumber(t *testing.T) {
	w, c := rollable(t, kit.Recreating(kit.Pool("p", 3)))
	defer neverTooMany(t, w, c)
	w.Kubelet.Linger()
	second := w.Retemplate("t", "image:2")
	w.Await(kit.Full("p", 3), kit.Fresh("p", second), standing(3, 3, 3))
	third := w.Retemplate("t", "image:3")
	w.Await(kit.Follows("p", third), standing(0, 0, 6))
	w.Kubelet.LetGo()
	w.Await(kit.Fresh("p", third), kit.Right("p", 3, "held"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
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
	c := w.Controller(forgetful)
	w.Create(kit.Template("t"), kit.Pool("p", 8))
	defer neverTooMany(t, w, c)
	w.Await(kit.Full("p", 8))
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
	w.Await(standing(0, 0, 8+2), kit.Progress("p", metav1.ConditionTrue, "ScalingDown"))
	w.Kubelet.LetGo()
	w.Await(kit.Right("p", 8), kit.Progress("p", metav1.ConditionFalse, "Complete"))
}

// Its sandbox is no more, and the server has not answered yet: the pod comes.
func TestAPodThatIsJustBeingMadeCountsAlthoughItsSandboxIsDeleted(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	gate := kit.NewGate()
	c := w.Doomed(func(c *kit.Controller) {
		for range 4 + 1 {
			c.Wire.Inject(kit.Fault{On: kit.On("pod", "create"), Do: kit.Hold(gate)})
		}
	})
	w.Create(kit.Template("t"), kit.Pool("p", 4))
	defer neverTooMany(t, w, c)
	w.Await(members("p", 4), begun(c, 4))
	first := w.Members("p")
	w.Delete(w.Sandboxes(), first...)
	w.Await(func(s *kit.Sight) error { // the pool knows, and makes others
		if others := s.Members("p"); len(others) == 0 || slices.Contains(first, others[0]) {
			return errWaits
		}
		return nil
	})
	gate.Open()
	w.Await(kit.Right("p", 4))
}

// begun wishes for a controller to have asked for a number of pods.
func begun(c *kit.Controller, n int) kit.Wish {
	return func(*kit.Sight) error {
		asked := slices.DeleteFunc(c.Wire.Writes(), func(w kit.Write) bool { return !w.Is("pod", "create") })
		if len(asked) != n {
			return fmt.Errorf("%d pods were asked for, not %d", len(asked), n)
		}
		return nil
	}
}

func TestABurstOfClaimsOnAFullPoolRefillsAtOnce(t *testing.T) {
	const n = 40
	w, c := started(t, n)
	defer neverTooMany(t, w, c)
	w.Kubelet.Release(w.Members("p")...)
	w.Kubelet.Hold() // the next ones
	var claims []string
	for i := range n {
		claims = append(claims, fmt.Sprint("c-", i))
		w.Create(kit.Claim(claims[i], "p"))
	}
	w.Await(kit.Bound(claims...), standing(n, n, 0))
	w.Kubelet.Release()
	w.Await(kit.Right("p", n, claims...))
}
