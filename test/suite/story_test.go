package suite

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestAWarmClaimIsBoundAndThePoolIsFullAgain(t *testing.T) {
	w, _ := started(t, 2)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 2, "a"))
	same(t, w.States(w.Claim("a")), "", "bound")
	same(t, w.States(w.Pod(w.SandboxOf("a"))), "warming", "ready", "bound")
}

func TestAClaimOnAnEmptyPoolStartsASandboxOfItsOwn(t *testing.T) {
	w, _ := cold(t, 0)
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasState("a", states.Warming))
	w.Kubelet.Release()
	w.Await(world.Converged("p", 0, "a"))
	same(t, w.States(w.Claim("a")), "", "warming", "bound")
	same(t, w.States(w.Pod("a")), "warming", "bound")
	if launch := w.Sandbox("a").Labels[apply.LabelLaunch]; launch != apply.LaunchCold {
		t.Errorf("the launch type is %q", launch)
	}
}

func TestWaitingClaimsAreServedInTurnAndOneForEachPod(t *testing.T) {
	w, c := cold(t, 3)
	claims := []string{"c", "a", "b"} // by arrival, not by name
	for _, claim := range claims {
		w.Create(world.Claim(claim, "p"))
		w.Await(world.HasReason(claim, "AdoptionPending"))
	}
	members := w.Members("p")
	for i, claim := range claims {
		w.Kubelet.Release(members[i])
		w.Await(world.Bound(claim))
		if got := w.SandboxOf(claim); got != members[i] {
			t.Errorf("claim %s got %s, and %s became ready", claim, got, members[i])
		}
		if n := c.Wire.Count("sandbox", "adopt"); n != i+1 {
			t.Errorf("%d claims have taken a sandbox, and %d pods are ready", n, i+1)
		}
	}
	w.Kubelet.Release()
	w.Await(world.Converged("p", 3, claims...))
}

func TestAPoolGrowsAndShrinksAndLeavesClaimedSandboxesAlone(t *testing.T) {
	w, _ := started(t, 3)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 3, "a"))
	before := w.Sandbox(w.SandboxOf("a"))
	for _, size := range []int{5, 1, 0, 2} {
		w.Scale("p", int32(size))
		w.Await(world.Converged("p", size, "a"))
	}
	scale := w.ScaleOf("p")
	selected, err := w.Pods().List(w.Context(), metav1.ListOptions{LabelSelector: scale.Status.Selector})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if free := len(selected.Items); scale.Status.Replicas != 2 || free != 2 {
		t.Errorf("an autoscaler sees %d replicas and %d pods, want 2", scale.Status.Replicas, free)
	}
	if after := w.Sandbox(before.Name); after.ResourceVersion != before.ResourceVersion {
		t.Error("the sandbox of the claim was written to")
	}
	if n := retiredInOrder(t, w); n != 5 {
		t.Errorf("%d sandboxes were retired, want 5", n)
	}
}

// retiredInOrder checks of each sandbox that ended that it was marked first, its
// pod said so next, and it was deleted last; it counts them.
func retiredInOrder(t *testing.T, w *kit.World) (n int) {
	at := map[string][]string{}
	for _, c := range w.History() {
		name := c.Object.GetName()
		switch o := c.Object.(type) {
		case *agents.Sandbox:
			if c.Deleted {
				n++
				same(t, at[name], "retired", "stale")
			} else if o.Annotations[apply.AnnotationRetired] == surplus && at[name] == nil {
				at[name] = append(at[name], "retired")
			}
		case *corev1.Pod:
			if o.Labels[apply.LabelState] == string(states.Stale) && len(at[name]) == 1 {
				at[name] = append(at[name], "stale")
			}
		}
	}
	return n
}

func TestAPodOfABoundClaimThatIsDeletedComesBackAndTheClaimStays(t *testing.T) {
	w, _ := started(t, 1)
	w.Create(world.Claim("a", "p", world.WithLabel("sandbox.users.io/team", "blue")))
	w.Await(world.Converged("p", 1, "a"))
	pod := w.Pod(w.SandboxOf("a"))
	w.Delete(w.Pods(), pod.Name)
	w.Await(world.Deleted(pod), world.Converged("p", 1, "a"))
	same(t, w.States(w.Claim("a")), "", "bound")
	same(t, w.States(w.Pod(pod.Name)), "warming", "bound")
	if w.Pod(pod.Name).Labels["sandbox.users.io/team"] != "blue" {
		t.Error("the new pod lacks what the claim adds")
	}
}

func TestAPodOfAPoolMemberThatIsDeletedIsReplaced(t *testing.T) {
	w, _ := started(t, 2)
	pod := w.Pod(w.Members("p")[0])
	w.Delete(w.Pods(), pod.Name)
	w.Await(world.Deleted(pod), world.Converged("p", 2))
}

func TestAMemberThatIsDeletedIsReplaced(t *testing.T) {
	w, _ := started(t, 2)
	sandbox := w.Sandbox(w.Members("p")[0])
	w.Delete(w.Sandboxes(), sandbox.Name)
	w.Await(world.Deleted(sandbox), world.Converged("p", 2))
}

func TestAClaimWhoseSandboxIsDeletedIsStaleAndNeverBoundAgain(t *testing.T) {
	w, c := started(t, 2)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 2, "a"))
	w.Delete(w.Sandboxes(), w.SandboxOf("a"))
	w.Await(world.HasState("a", states.Stale), world.HasReason("a", "SandboxLost"), c.Wrote("event", "event", 2))
	if n := w.Events("a", "SandboxLost"); n != 1 {
		t.Errorf("%d Events say that the sandbox was lost, want 1", n)
	}
	w.Create(world.Claim("b", "p"))
	w.Await(world.Bound("b"), world.Full("p", 2), world.HasState("a", states.Stale))
	same(t, w.States(w.Claim("a")), "", "bound", "stale")
	if held := w.SandboxOf("a"); held != "" {
		t.Errorf("the claim still names %s", held)
	}
}

func TestAClaimDeletedWhileItWaitsLeavesItsPlaceToTheNext(t *testing.T) {
	w, c := cold(t, 2)
	for _, claim := range []string{"a", "b"} {
		w.Create(world.Claim(claim, "p"))
		w.Await(world.HasReason(claim, "AdoptionPending"))
	}
	a := w.Claim("a")
	w.Delete(w.Claims(), "a")
	w.Await(world.Deleted(a))
	w.Kubelet.Release(w.Members("p")[0])
	w.Await(world.Bound("b"))
	w.Kubelet.Release()
	w.Await(world.Converged("p", 2, "b"))
	if n := c.Wire.Count("sandbox", "adopt"); n != 1 {
		t.Errorf("%d adoptions, want 1", n)
	}
}

func TestAClaimDeletedWhileItIsBindingTakesItsSandboxWithIt(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, gate := w.Held("claimstatus", "bound")
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(world.Full("p", 2))
	w.Create(world.Claim("a", "p"))
	w.Await(gate.Reached())
	a := w.Claim("a")
	w.Delete(w.Claims(), "a")
	w.Await(world.Deleted(a))
	gate.Open()
	w.Create(world.Claim("b", "p"))
	w.Await(world.Converged("p", 2, "b"))
	if n := c.Wire.Count("sandbox", "adopt"); n != 2 {
		t.Errorf("%d adoptions, want 2", n)
	}
}

func TestAClaimMadeAgainUnderItsNameIsAnotherClaim(t *testing.T) {
	w, _ := started(t, 2)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 2, "a"))
	first, had := w.Claim("a"), w.Sandbox(w.SandboxOf("a"))
	w.Delete(w.Claims(), "a")
	w.Create(world.Claim("a", "p"))
	w.Await(world.Deleted(first), world.Deleted(had), world.Converged("p", 2, "a"))
	if got := w.Sandbox(w.SandboxOf("a")); got.UID == had.UID || w.Claim("a").UID == first.UID {
		t.Error("it was given the sandbox of the claim before")
	}
}

func TestASandboxThatAUserMakesRunsAndBelongsToNoPool(t *testing.T) {
	w, _ := started(t, 1)
	w.Create(world.Sandbox("mine"))
	w.Await(world.PodHasState("mine", states.Bound), func(s *world.Snapshot) error {
		if !meta.IsStatusConditionTrue(s.Sandboxes["mine"].Status.Conditions, "Ready") {
			return errWaits
		}
		return nil
	})
	mine := w.Sandbox("mine")
	if len(mine.Annotations) > 0 || len(mine.Labels) > 0 || len(mine.Status.PodIPs) == 0 || mine.Status.NodeName == "" {
		t.Errorf("its status is not complete, or Kiln has written to what is the user's: %v", mine)
	}
	w.Await(world.Full("p", 1))
}

func TestAStateThatAHandTookAwayComesBack(t *testing.T) {
	for _, state := range []string{"", "nonsense", "warming"} {
		t.Run("the hand wrote "+state, func(t *testing.T) {
			w, _ := started(t, 1)
			w.Create(world.Claim("a", "p"))
			w.Await(world.Converged("p", 1, "a"))
			for _, pod := range []string{w.SandboxOf("a"), w.Members("p")[0]} {
				before := w.Pod(pod).ResourceVersion
				w.LabelPod(pod, apply.LabelState, state)
				w.Await(func(s *world.Snapshot) error {
					if s.Pods[pod].ResourceVersion == before {
						return errWaits
					}
					return nil
				}, world.Converged("p", 1, "a"))
			}
		})
	}
}

func TestAClaimAddsLabelsAndAnnotationsToItsPod(t *testing.T) {
	w, _ := started(t, 1)
	w.Create(world.Claim("a", "p", world.WithLabel("sandbox.users.io/team", "blue"), world.WithAnnotation("example.com/note", "hello")))
	w.Await(world.Converged("p", 1, "a"))
	pod := w.Pod(w.SandboxOf("a"))
	if pod.Labels["sandbox.users.io/team"] != "blue" || pod.Annotations["example.com/note"] != "hello" {
		t.Errorf("the pod has %v and %v", pod.Labels, pod.Annotations)
	}
}

func TestAClaimWaitsForItsPoolAndAPoolForItsTemplate(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasReason("a", "WarmPoolNotFound"))
	w.Create(world.Pool("p", 1))
	w.Await(world.HasReason("a", "TemplateNotFound"), func(s *world.Snapshot) error {
		if !meta.IsStatusConditionTrue(s.Pools["p"].Status.Conditions, "Degraded") {
			return errWaits
		}
		return nil
	})
	w.Create(world.Template("t"))
	w.Await(world.Converged("p", 1, "a"))
	if c := meta.FindStatusCondition(w.Pool("p").Status.Conditions, "Degraded"); c.Status != metav1.ConditionFalse {
		t.Errorf("the pool still says %s", c.Reason)
	}
}

func TestAMemberThatLosesItsReadinessIsNotHandedOut(t *testing.T) {
	w, _ := started(t, 2)
	sick := w.Members("p")[0]
	w.Kubelet.SetReady(sick, false)
	w.Await(world.PodHasState(sick, states.Warming))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	if w.SandboxOf("a") == sick {
		t.Error("the claim was given a sandbox that is not ready")
	}
	w.Kubelet.SetReady(sick, true)
	w.Await(world.Converged("p", 2, "a"))
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
