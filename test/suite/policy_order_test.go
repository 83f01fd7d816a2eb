package suite

import (
	"net/http"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestThePolicyIsThereBeforeTheFirstPodWarmOrCold(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, gate := w.Held("policy", "create")
	w.Create(world.Template("t"), world.Pool("p", 2), world.Pool("empty", 0), world.Claim("cold", "empty"))
	w.Await(gate.Reached(), members("p", 2), func(s *world.Snapshot) error {
		if _, ok := s.Sandboxes["cold"]; !ok {
			return errWaits
		}
		return nil
	})
	w.Await(world.PoolSays("p", "Degraded", "AsExpected", "nothing is in the way"))
	if n := c.Wire.Count("pod", "create"); n != 0 {
		t.Errorf("%d pods were made before the policy", n)
	}
	gate.Open()
	w.Await(world.Full("p", 2), world.Bound("cold"))
	only(t, c, "policy", "create")
}

// podSpec is the spec of a pod as the server has it.
func podSpec(t *testing.T, w *kit.World, name string) corev1.PodSpec {
	t.Helper()
	p, err := w.Pods().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Spec
}

func TestWarmAndColdPodsHaveTheSecureDefaults(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Controller()
	own := world.Pool("own", 1)
	own.Spec.TemplateRef.Name = "u"
	wide := world.Pool("wide", 1)
	wide.Spec.TemplateRef.Name = "v"
	w.Create(world.Template("t"), withRules(world.Template("u"), "", `{}`), unmanagedTemplate("v"),
		world.Pool("p", 1), own, wide, world.Pool("empty", 0), world.Claim("cold", "empty"))
	w.Await(world.Full("p", 1), world.Full("own", 1), world.Full("wide", 1), world.Bound("cold"))
	public := &corev1.PodDNSConfig{Nameservers: []string{"8.8.8.8", "1.1.1.1"}}
	g := NewWithT(t)
	for name, cluster := range map[string]bool{w.Members("p")[0]: false, "cold": false, w.Members("own")[0]: true, w.Members("wide")[0]: true} {
		spec := podSpec(t, w, name)
		g.Expect(*spec.AutomountServiceAccountToken).To(BeFalse(), name)
		if cluster {
			g.Expect(spec.DNSPolicy).To(Equal(corev1.DNSClusterFirst), name)
			g.Expect(spec.DNSConfig).To(BeNil(), name)
			continue
		}
		g.Expect(spec.DNSPolicy).To(Equal(corev1.DNSNone), name)
		g.Expect(spec.DNSConfig).To(Equal(public), name)
	}
}

// Its rules reach the pods that run; the DNS of a pod can not change any more. As the
// users of the API know it, that replaces nothing.
func TestAnotherPolicyMakesNoMemberOld(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Recreating(world.Pool("p", 3)))
	w.Await(resting(c, 3))
	before, revision := w.Members("p"), w.Pool("p").Status.CurrentRevision
	for _, spec := range []string{`{"networkPolicy":{}}`, `{"networkPolicyManagement":"Unmanaged"}`, `{"networkPolicyManagement":"Managed","networkPolicy":null}`} {
		w.PatchTemplate("t", spec)
		template, err := w.Templates().Get(w.Context(), "t", metav1.GetOptions{})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		w.Await(policyAsWanted("t"), func(s *world.Snapshot) error {
			if is := s.Pools["p"].Status; is.ObservedTemplateGeneration != template.Generation || is.UpdatedReadyReplicas != 3 || is.CurrentRevision != revision {
				return errWaits
			}
			return nil
		})
		same(t, w.Members("p"), before...)
	}
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d members were given up", n)
	}
}

func TestThePolicyOutlivesItsTemplateAsLongAsAnythingMadeFromItRuns(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	was := policyNow(t, w)
	w.Delete(w.Templates(), "t")
	w.Await(world.PoolSays("p", "Degraded", "TemplateNotFound", ""))
	pod := w.SandboxOf("a")
	gone := w.Pod(pod)
	w.Delete(w.Pods(), pod)
	w.Await(world.Deleted(gone), world.Bound("a"), func(s *world.Snapshot) error {
		if p := s.Pods[pod]; p == nil || p.UID == gone.UID || !world.IsReady(p) {
			return errWaits
		}
		return nil
	})
	w.Delete(w.Pools(), "p")
	w.Await(func(s *world.Snapshot) error {
		if len(s.Pods) != 1 {
			return errWaits
		}
		return nil
	}, c.Settled())
	same(t, []string{string(policyNow(t, w).UID)}, string(was.UID))
	w.Collector.Pause()
	last, box := w.Pod(pod), w.Sandbox(pod)
	w.Delete(w.Claims(), "a")
	w.Delete(w.Sandboxes(), pod)
	w.Await(world.Deleted(box), c.Settled())
	same(t, []string{string(policyNow(t, w).UID)}, string(was.UID)) // its pod is left
	w.Delete(w.Pods(), pod)
	w.Await(world.Deleted(last), noPolicy, c.Settled())
	if n := c.Wire.Count("policy", "delete"); n != 1 {
		t.Errorf("%d deletes were sent", n)
	}
	w.Collector.Resume()
}

func TestATemplateThatIsMadeAgainTakesItsPolicyUp(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	was := policyNow(t, w)
	w.Delete(w.Templates(), "t")
	w.Await(world.PoolSays("p", "Degraded", "TemplateNotFound", ""))
	w.Create(withRules(world.Template("t"), `{}`, ""))
	w.Await(policyAsWanted("t"), world.Converged("p", 1, "a"), c.Settled())
	same(t, []string{string(policyNow(t, w).UID)}, string(was.UID))
	if n := c.Wire.Count("policy", "delete") + c.Wire.Count("policy", "create"); n != 1 {
		t.Errorf("the policy was made or deleted %d times", n)
	}
}

// The template goes while a sandbox of it is on its way: the policy goes too, for
// nobody is seen to need it, and the sandbox remembers that it does.
func TestAPodIsNotMadeWhenTemplateAndPolicyWentBeforeItsSandboxCame(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c, gate := w.Held("sandbox", "cold")
	w.Create(world.Template("t"), world.Pool("empty", 0), world.Claim("a", "empty"))
	w.Await(gate.Reached(), policyAsWanted("t"))
	w.Delete(w.Templates(), "t")
	w.Await(noPolicy)
	gate.Open()
	w.Await(world.SandboxSays("a", "ReconcilerError", `SandboxTemplate "t" is gone, and so is its NetworkPolicy "t-network-policy", `+
		`without which no pod is made; create the template again, or delete the sandbox`))
	if n := c.Wire.Count("pod", "create"); n != 0 {
		t.Errorf("%d pods were made", n)
	}
	w.Create(world.Template("t"))
	w.Await(policyAsWanted("t"), world.Bound("a"))
}

// A sandbox comes when the deletion is on its way, and the store shows the policy still.
func TestAPodIsNotMadeWhileThePolicyOfItsTemplateIsBeingDeleted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		then  kit.Behaviour
		stays bool
	}{
		{"and it goes", kit.Deliver, false},
		{"and it goes, and the answer is lost", kit.LoseAnswer, false},
		{"and the deletion fails", kit.Answer(http.StatusInternalServerError, metav1.StatusReasonInternalError), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			c, cold := w.Held("sandbox", "cold")
			gone := kit.NewGate()
			c.Wire.Inject(kit.Fault{On: kit.On("policy", "delete"), Do: kit.HoldThen(gone, row.then)})
			w.Create(world.Template("t"), world.Pool("empty", 0), world.Claim("a", "empty"))
			w.Await(cold.Reached(), policyAsWanted("t"))
			w.Delete(w.Templates(), "t")
			w.Await(gone.Reached())
			cold.Open()
			w.Await(world.SandboxSays("a", "ReconcilerError", "is gone, and so is its NetworkPolicy"))
			if n := c.Wire.Count("pod", "create"); n != 0 {
				t.Errorf("%d pods were made", n)
			}
			gone.Open()
			if !row.stays {
				w.Await(noPolicy)
				if n := c.Wire.Count("pod", "create"); n != 0 {
					t.Errorf("%d pods were made without the policy", n)
				}
				w.Create(world.Template("t"))
				w.Await(policyAsWanted("t"))
			}
			w.Await(world.Bound("a"), c.Settled())
			policyNow(t, w)
		})
	}
}

func TestTheNextControllerDeletesThePolicyThatNobodyNeedsAnyMore(t *testing.T) {
	w, first := started(t, 1)
	first.Stop()
	w.Delete(w.Templates(), "t")
	w.Delete(w.Pools(), "p")
	w.Await(func(s *world.Snapshot) error {
		if len(s.Pods)+len(s.Sandboxes)+len(s.Templates) > 0 {
			return errWaits
		}
		return nil
	})
	policyNow(t, w)
	second := w.Controller()
	w.Await(noPolicy, second.Settled())
	if n := len(second.Wire.Writes()); n != 1 {
		t.Errorf("%d writes, and one is right", n)
	}
}

// What the controller before Kiln has made: by updates, with the template as owner.
func TestThePolicyOfTheControllerBeforeIsTakenOverInPlace(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Create(withRules(world.Template("t"), `{"ports":[{"port":80}]}`, ""))
	template, err := w.Templates().Get(w.Context(), "t", metav1.GetOptions{})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	theirs := somebodys()
	theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(template, ext.SchemeGroupVersion.WithKind(ext.KindTemplate))}
	theirs.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	theirs.Spec.PolicyTypes = append(theirs.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	theirs, err = w.Policies().Create(w.Context(), theirs, metav1.CreateOptions{FieldManager: "agent-sandbox-controller"})
	g.Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(theirs))
	c := w.Controller()
	w.Create(world.Pool("p", 1))
	w.Await(policyAsWanted("t"), world.Full("p", 1), c.Settled())
	is := policyNow(t, w)
	g.Expect(is.UID).To(Equal(theirs.UID))
	g.Expect(is.OwnerReferences).To(BeEmpty(), "it would go with the template")
	g.Expect(is.Spec.Egress).To(BeEmpty(), "the template lets nothing out")
	g.Expect(c.Wire.Count("policy", "sync")).To(Equal(2))
	g.Expect(c.Wire.Count("policy", "create") + c.Wire.Count("policy", "delete")).To(BeZero())
	g.Expect(warnings(t, w, "t")).To(BeEmpty())
}

// One leader deletes the policy of a template that is gone; the next one has the template
// of that name that came since, and may start nothing under what is being deleted.
func TestAPolicyThatAnotherLeaderIsDeletingIsTakenOverBeforeAnyPodStartsUnderIt(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first, gone := w.Held("policy", "delete")
	w.Create(world.Template("t"))
	w.Await(policyAsWanted("t"), first.Settled())
	was := policyNow(t, w)
	w.Delete(w.Templates(), "t")
	w.Await(gone.Reached())
	w.Create(world.Template("t"), world.Pool("p", 2))
	second := w.Standby()
	first.LoseLease() // it does not know, and its deletion is on its way
	second.Lead()
	w.Await(world.Full("p", 2))
	wrote := second.Wire.Writes()
	taken := slices.IndexFunc(wrote, func(r kit.Write) bool { return r.Is("policy", "sync") })
	started := slices.IndexFunc(wrote, func(r kit.Write) bool { return r.Is("pod", "create") })
	if taken < 0 || started < taken {
		t.Errorf("the policy was written as write %d, the first pod as %d", taken, started)
	}
	gone.Open()
	w.Await(first.Settled(), second.Settled())
	same(t, []string{string(policyNow(t, w).UID)}, string(was.UID))
}
