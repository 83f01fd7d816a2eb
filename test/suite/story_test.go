package suite

import (
	"errors"
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
)

var errWaits = errors.New("not yet")

func TestAWarmClaimIsBoundAndThePoolIsFullAgain(t *testing.T) {
	w, _ := started(t, 2)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 2, "a"))
	same(t, w.Words(w.Claim("a")), "", "bound")
	same(t, w.Words(w.Pod(told(w, "a"))), "warming", "ready", "binding", "bound")
}

func TestAClaimOnAnEmptyPoolStartsASandboxOfItsOwn(t *testing.T) {
	w, _ := cold(t, 0)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Words("a", states.Warming))
	w.Kubelet.Release()
	w.Await(kit.Right("p", 0, "a"))
	same(t, w.Words(w.Claim("a")), "", "warming", "bound")
	same(t, w.Words(w.Pod("a")), "warming", "bound")
	if launch := w.Sandbox("a").Labels[apply.LabelLaunch]; launch != apply.Cold {
		t.Errorf("the launch type is %q", launch)
	}
}

func TestWaitingClaimsAreServedInTurnAndOneForEachPod(t *testing.T) {
	w, c := cold(t, 3)
	claims := []string{"c", "a", "b"} // by arrival, not by name
	for _, claim := range claims {
		w.Create(kit.Claim(claim, "p"))
		w.Await(kit.Says(claim, "AdoptionPending"))
	}
	members := w.Members("p")
	for i, claim := range claims {
		w.Kubelet.Release(members[i])
		w.Await(kit.Bound(claim))
		if got := told(w, claim); got != members[i] {
			t.Errorf("claim %s got %s, and %s became ready", claim, got, members[i])
		}
		if n := c.Wire.Count("sandbox", "adopt"); n != i+1 {
			t.Errorf("%d claims have taken a sandbox, and %d pods are ready", n, i+1)
		}
	}
	w.Kubelet.Release()
	w.Await(kit.Right("p", 3, claims...))
}

func TestAPoolGrowsAndShrinksAndLeavesClaimedSandboxesAlone(t *testing.T) {
	w, _ := started(t, 3)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 3, "a"))
	before := w.Sandbox(told(w, "a"))
	for _, size := range []int{5, 1, 0, 2} {
		w.Scale("p", int32(size))
		w.Await(kit.Right("p", size, "a"))
	}
	scale := w.Scaled("p")
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
			if c.Gone {
				n++
				same(t, at[name], "retired", "stale")
			} else if o.Annotations[apply.NoteRetired] == states.Surplus && at[name] == nil {
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
	w.Create(kit.Claim("a", "p", kit.Labelled("sandbox.users.io/team", "blue")))
	w.Await(kit.Right("p", 1, "a"))
	pod := w.Pod(told(w, "a"))
	w.Delete(w.Pods(), pod.Name)
	w.Await(kit.Gone(pod), kit.Right("p", 1, "a"))
	same(t, w.Words(w.Claim("a")), "", "bound")
	same(t, w.Words(w.Pod(pod.Name)), "warming", "bound")
	if w.Pod(pod.Name).Labels["sandbox.users.io/team"] != "blue" {
		t.Error("the new pod lacks what the claim adds")
	}
}

func TestAPodOfAPoolMemberThatIsDeletedIsReplaced(t *testing.T) {
	w, _ := started(t, 2)
	pod := w.Pod(w.Members("p")[0])
	w.Delete(w.Pods(), pod.Name)
	w.Await(kit.Gone(pod), kit.Right("p", 2))
}

func TestAMemberThatIsDeletedIsReplaced(t *testing.T) {
	w, _ := started(t, 2)
	sandbox := w.Sandbox(w.Members("p")[0])
	w.Delete(w.Sandboxes(), sandbox.Name)
	w.Await(kit.Gone(sandbox), kit.Right("p", 2))
}

func TestAClaimWhoseSandboxIsDeletedIsStaleAndNeverBoundAgain(t *testing.T) {
	w, c := started(t, 2)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 2, "a"))
	w.Delete(w.Sandboxes(), told(w, "a"))
	w.Await(kit.Words("a", states.Stale), kit.Says("a", "SandboxLost"), c.Wrote("event", "event", 2))
	if n := w.Events("a", "SandboxLost"); n != 1 {
		t.Errorf("%d Events say that the sandbox was lost, want 1", n)
	}
	w.Create(kit.Claim("b", "p"))
	w.Await(kit.Bound("b"), kit.Full("p", 2), kit.Words("a", states.Stale))
	same(t, w.Words(w.Claim("a")), "", "bound", "stale")
	if held := told(w, "a"); held != "" {
		t.Errorf("the claim still names %s", held)
	}
}

func TestAClaimDeletedWhileItWaitsLeavesItsPlaceToTheNext(t *testing.T) {
	w, c := cold(t, 2)
	for _, claim := range []string{"a", "b"} {
		w.Create(kit.Claim(claim, "p"))
		w.Await(kit.Says(claim, "AdoptionPending"))
	}
	a := w.Claim("a")
	w.Delete(w.Claims(), "a")
	w.Await(kit.Gone(a))
	w.Kubelet.Release(w.Members("p")[0])
	w.Await(kit.Bound("b"))
	w.Kubelet.Release()
	w.Await(kit.Right("p", 2, "b"))
	if n := c.Wire.Count("sandbox", "adopt"); n != 1 {
		t.Errorf("%d adoptions, want 1", n)
	}
}

func TestAClaimDeletedWhileItIsBindingTakesItsSandboxWithIt(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, gate := w.Held("claimstatus", "bound")
	w.Create(kit.Template("t"), kit.Pool("p", 2))
	w.Await(kit.Full("p", 2))
	w.Create(kit.Claim("a", "p"))
	w.Await(gate.Reached())
	w.Await(kit.Full("p", 2))
	a := w.Claim("a")
	w.Delete(w.Claims(), "a")
	w.Await(kit.Gone(a))
	gate.Open()
	w.Create(kit.Claim("b", "p"))
	w.Await(kit.Right("p", 2, "b"))
	if n := c.Wire.Count("sandbox", "adopt"); n != 2 {
		t.Errorf("%d adoptions, want 2", n)
	}
}

func TestAClaimMadeAgainUnderItsNameIsAnotherClaim(t *testing.T) {
	w, _ := started(t, 2)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 2, "a"))
	first, had := w.Claim("a"), w.Sandbox(told(w, "a"))
	w.Delete(w.Claims(), "a")
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Gone(first), kit.Gone(had), kit.Right("p", 2, "a"))
	if got := w.Sandbox(told(w, "a")); got.UID == had.UID || w.Claim("a").UID == first.UID {
		t.Error("it was given the sandbox of the claim before")
	}
}

func TestASandboxThatAUserMakesRunsAndBelongsToNoPool(t *testing.T) {
	w, _ := started(t, 1)
	w.Create(kit.Sandbox("mine"))
	w.Await(kit.PodWords("mine", states.Bound), func(s *kit.Sight) error {
		if !meta.IsStatusConditionTrue(s.Sandboxes["mine"].Status.Conditions, "Ready") {
			return errWaits
		}
		return nil
	})
	mine := w.Sandbox("mine")
	if mine.Annotations[apply.NotePod] != "mine" || len(mine.Status.PodIPs) == 0 || mine.Status.NodeName == "" {
		t.Errorf("its status is not complete: %v", mine.Status)
	}
	w.Await(kit.Full("p", 1))
}

func TestAWordThatAHandTookAwayComesBack(t *testing.T) {
	for _, word := range []string{"", "nonsense", "warming"} {
		t.Run("the hand wrote "+word, func(t *testing.T) {
			w, _ := started(t, 1)
			w.Create(kit.Claim("a", "p"))
			w.Await(kit.Right("p", 1, "a"))
			for _, pod := range []string{told(w, "a"), w.Members("p")[0]} {
				before := w.Pod(pod).ResourceVersion
				w.LabelPod(pod, apply.LabelState, word)
				w.Await(func(s *kit.Sight) error {
					if s.Pods[pod].ResourceVersion == before {
						return errWaits
					}
					return nil
				}, kit.Right("p", 1, "a"))
			}
		})
	}
}

func TestAClaimAddsLabelsAndAnnotationsToItsPod(t *testing.T) {
	w, _ := started(t, 1)
	w.Create(kit.Claim("a", "p", kit.Labelled("sandbox.users.io/team", "blue"), kit.Annotated("example.com/note", "hello")))
	w.Await(kit.Right("p", 1, "a"))
	pod := w.Pod(told(w, "a"))
	if pod.Labels["sandbox.users.io/team"] != "blue" || pod.Annotations["example.com/note"] != "hello" {
		t.Errorf("the pod has %v and %v", pod.Labels, pod.Annotations)
	}
}

func TestAClaimWaitsForItsPoolAndAPoolForItsTemplate(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Says("a", "WarmPoolNotFound"))
	w.Create(kit.Pool("p", 1))
	w.Await(kit.Says("a", "TemplateNotFound"), func(s *kit.Sight) error {
		if !meta.IsStatusConditionTrue(s.Pools["p"].Status.Conditions, "Degraded") {
			return errWaits
		}
		return nil
	})
	w.Create(kit.Template("t"))
	w.Await(kit.Right("p", 1, "a"))
	if c := meta.FindStatusCondition(w.Pool("p").Status.Conditions, "Degraded"); c.Status != metav1.ConditionFalse {
		t.Errorf("the pool still says %s", c.Reason)
	}
}

func TestAMemberThatLosesItsReadinessIsNotHandedOut(t *testing.T) {
	w, _ := started(t, 2)
	sick := w.Members("p")[0]
	w.Kubelet.Blink(sick, false)
	w.Await(kit.PodWords(sick, states.Warming))
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Bound("a"))
	if told(w, "a") == sick {
		t.Error("the claim was given a sandbox that is not ready")
	}
	w.Kubelet.Blink(sick, true)
	w.Await(kit.Right("p", 2, "a"))
}

func told(w *kit.World, claim string) string { return w.Claim(claim).Status.SandboxStatus.Name }

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
