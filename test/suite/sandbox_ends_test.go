package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A sandbox that shall have no pod: for a while, or for ever.

var (
	isSuspended = []string{
		"Suspended True PodTerminated: Pod has been terminated. Sandbox is suspended", "Ready False SandboxSuspended: Sandbox is suspended",
	}
	kept = selector + " service=s fqdn=s.NS.svc.cluster.local ips=0 node="
)

func TestASandboxIsSuspendedAndResumed(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	c := w.Controller()
	w.Create(sandbox(withService, withPorts, withVolume))
	w.Await(world.PodHasState("s", states.Bound), world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"))
	first := w.Pod("s")
	storage, err := volumes(w).Get(w.Context(), "data-s", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w.Kubelet.Linger()
	patch(t, w, `{"operatingMode":"Suspended"}`)
	w.Await(says("Suspended False PodTerminating: Pod is terminating. Sandbox is suspending", scheduled,
		"Ready False SandboxSuspended: Sandbox is suspending", selector+" service=s fqdn=s.NS.svc.cluster.local ips=1 node=node"))
	w.Kubelet.LetGo()
	w.Await(world.Deleted(first), says(append(isSuspended, kept)...))
	g.Expect(service(t, w)).To(Equal(itsService))
	for range 3 { // as often as a user likes: it is no loss that has to be paid for
		patch(t, w, `{"operatingMode":"Running"}`)
		w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"), world.PodHasState("s", states.Bound))
		patch(t, w, `{"operatingMode":"Suspended"}`)
		w.Await(says(append(isSuspended, kept)...))
	}
	patch(t, w, `{"operatingMode":"Running"}`)
	w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"))
	g.Expect(w.Pod("s").UID).NotTo(Equal(first.UID))
	still, err := volumes(w).Get(w.Context(), "data-s", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(still.UID).To(Equal(storage.UID))
	c.Stop()
	lost := slices.DeleteFunc(c.Wire.Writes(), func(one kit.Write) bool { return one.Code != 409 && one.Code != 404 })
	g.Expect(lost).To(BeEmpty(), "nothing is written in vain")
}

func TestASandboxThatIsResumedWhileItsPodTerminatesWaitsForThat(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(sandbox())
	w.Await(plain)
	first := w.Pod("s")
	w.Kubelet.Linger()
	patch(t, w, `{"operatingMode":"Suspended"}`)
	w.Await(world.SandboxSays("s", "SandboxSuspended", "Sandbox is suspending"))
	patch(t, w, `{"operatingMode":"Running"}`)
	w.Await(says(notSuspended, scheduled, "Ready False DependenciesNotReady: Pod is terminating", running))
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(Equal(1))
	w.Kubelet.LetGo()
	w.Await(world.Deleted(first), plain)
}

func TestASuspendedSandboxLeavesAPodThatIsNotItsOwnAlone(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	theirs := ownPod(t, w, func(p *corev1.Pod) { p.OwnerReferences = by("other") })
	w.Controller()
	w.Create(sandbox(suspended))
	w.Await(says("Suspended False PodNotOwned: Refused to delete pod because it is not owned by this sandbox",
		"Ready False SandboxSuspended: Sandbox is suspending", nothing))
	NewWithT(t).Expect(w.Pod("s").UID).To(Equal(theirs.UID))
	w.Delete(w.Pods(), "s")
	w.Await(says(append(isSuspended, nothing)...))
	patch(t, w, `{"operatingMode":"Running"}`)
	w.Await(plain)
}

// The watch of pods shows none that lacks the label: the API server is asked for the pod of
// the name once, and an event tells when it goes.
func TestASuspendedSandboxSaysThatAStrangersPodHasItsName(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *kit.World){
		"made suspended": func(t *testing.T, w *kit.World) {
			somebodysPod(t, w)
			w.Create(sandbox(suspended))
		},
		"suspended later": func(t *testing.T, w *kit.World) {
			somebodysPod(t, w)
			w.Create(sandbox())
			w.Await(world.SandboxSays("s", "ReconcilerError", `pod "s" is owned by nobody`))
			patch(t, w, `{"operatingMode":"Suspended"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			c := w.Controller()
			begin(t, w)
			refuses := says("Suspended False PodNotOwned: Refused to delete pod because it is not owned by this sandbox",
				"Ready False SandboxSuspended: Sandbox is suspending", nothing)
			w.Await(refuses, c.Settled())
			c.Stop()
			c = w.Controller()
			w.Await(refuses, c.Settled())
			w.Delete(w.Pods(), "s")
			w.Await(says(append(isSuspended, nothing)...), c.Settled())
			NewWithT(t).Expect(c.Wire.Count("sandboxstatus", "report")).To(Equal(1), "the next leader found out too, and said so once")
			patch(t, w, `{"operatingMode":"Running"}`)
			w.Await(plain)
		})
	}
}

// somebodysPod makes a pod of the sandbox's name that is nobody's and has none of our labels.
func somebodysPod(t *testing.T, w *kit.World) {
	t.Helper()
	_, err := w.Pods().Create(w.Context(), world.Pod("s"), metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestASandboxWithSeveralPodsIsNotKnownToBeSuspended(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(sandbox(withService))
	w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"))
	second(t, w)
	w.Await(world.SandboxSays("s", "MultiplePods", ""))
	patch(t, w, `{"operatingMode":"Suspended","service":false}`)
	w.Await(says("Suspended Unknown PodStateUnknown: Pod state is unknown. Sandbox suspension cannot be confirmed",
		"PodScheduled Unknown PodSchedulingUnknown: Pod state is unknown. Pod scheduling cannot be determined",
		"Ready False MultiplePods: multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod",
		selector+" service=s fqdn=s.NS.svc.cluster.local ips=0 node="), c.Settled())
	g := NewWithT(t)
	g.Expect(c.Wire.Count("pod", "delete")).To(BeZero())
	g.Expect(c.Wire.Count("service", "delete")).To(BeZero())
	g.Eventually(func() int { return w.Events("s", "MultiplePods") }, "30s").Should(Equal(1), "once for each time that it comes about")
	w.Delete(w.Pods(), "s-2")
	w.Await(says(isSuspended[0], isSuspended[1], noPod))
}

func TestAClaimsSandboxThatIsSuspendedStaysBound(t *testing.T) {
	w, _ := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	name := w.SandboxOf("a")
	first, claim := w.Pod(name), w.Claim("a")
	mode(t, w, name, agents.Suspended)
	w.Await(world.Deleted(first), world.SandboxSays(name, "SandboxSuspended", "Sandbox is suspended"),
		world.ClaimSays("a", "SandboxSuspended", "Sandbox is suspended"), world.HasState("a", states.Bound))
	mode(t, w, name, agents.Running)
	w.Await(world.Converged("p", 1, "a"))
	g := NewWithT(t)
	g.Expect(w.SandboxOf("a")).To(Equal(name))
	g.Expect(w.States(w.Pod(name))).To(Equal([]string{"warming", "bound"}))
	g.Expect(w.Claim("a").UID).To(Equal(claim.UID))
}

// mode suspends a sandbox, or has it run.
func mode(t *testing.T, w *kit.World, name string, is agents.OperatingMode) {
	t.Helper()
	patched, err := w.Sandboxes().Patch(w.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"operatingMode":%q}}`, is), metav1.PatchOptions{FieldManager: "hand"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(patched))
}

func TestAMemberThatAHandHasSuspendedIsNotHandedOut(t *testing.T) {
	w, _ := started(t, 2)
	idle := w.Members("p")[0]
	mode(t, w, idle, agents.Suspended)
	w.Await(world.SandboxSays(idle, "SandboxSuspended", "Sandbox is suspended"))
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"))
	w.Await(world.Bound("a", "b"))
	g := NewWithT(t)
	g.Expect([]string{w.SandboxOf("a"), w.SandboxOf("b")}).NotTo(ContainElement(idle))
	mode(t, w, idle, agents.Running)
	w.Await(world.Converged("p", 2, "a", "b"))
}

func inAWhile() time.Time { return time.Now().Add(2 * time.Second).Truncate(time.Second) }

func TestASandboxThatIsRetainedKeepsItsConditionsWhenItsTimeIsOverAndNothingElse(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	c := w.Controller()
	w.Create(sandbox(withService, withPorts, withVolume))
	w.Await(world.SandboxSays("s", "DependenciesReady", "Pod is Ready; Service Exists"), world.PodHasState("s", states.Bound))
	pod := w.Pod("s")
	w.Kubelet.Succeed("s")
	w.Await(world.SandboxSays("s", "PodSucceeded", ""))
	end := inAWhile()
	patch(t, w, fmt.Sprintf(`{"shutdownTime":%q}`, end.UTC().Format(time.RFC3339)))
	gone := says(notSuspended, "Finished True PodSucceeded: Pod completed successfully", "Ready False SandboxExpired: Sandbox has expired", nothing)
	w.Await(gone, world.Deleted(pod))
	g.Expect(w.When(world.SandboxSays("s", "SandboxExpired", ""))).NotTo(BeTemporally("<", end), "and not before")
	g.Eventually(func() string { return service(t, w) }, "30s").Should(Equal("none"))
	_, err := volumes(w).Get(w.Context(), "data-s", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "its storage is kept")
	g.Expect(lastBefore(c, "pod", "delete").Is("sandboxstatus", "report")).To(BeTrue(), "it is told first, and then the pod goes")
	told := func(s *world.Snapshot) error {
		if s.Sandboxes["s"].Status.Conditions[0].ObservedGeneration != s.Sandboxes["s"].Generation {
			return errWaits
		}
		return gone(s)
	}
	patch(t, w, fmt.Sprintf(`{"shutdownTime":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	w.Await(told)
	c.Stop()
	again := w.Controller()
	patch(t, w, `{"shutdownTime":null,"podTemplate":{"metadata":{"labels":{"a":"b"}}}}`)
	w.Await(told, again.Settled())
	g.Expect(c.Wire.Count("pod", "create")+again.Wire.Count("pod", "create")).To(Equal(1), "it never gets a pod again")
}

// lastBefore is the write before a controller's first one of a kind and verb. Events go
// beside the others, in no order.
func lastBefore(c *kit.Controller, kind, verb string) kit.Write {
	all := slices.DeleteFunc(c.Wire.Writes(), func(one kit.Write) bool { return one.Kind == "event" })
	return all[slices.IndexFunc(all, func(one kit.Write) bool { return one.Is(kind, verb) })-1]
}

func TestASandboxThatIsNotRetainedIsDeletedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	c := w.Controller()
	w.Create(sandbox(withService, until(inAWhile(), agents.ShutdownDelete)))
	b := w.Sandbox("s")
	w.Await(world.Deleted(b), world.Empty, c.Settled())
	var told []string
	for _, change := range w.History() {
		if s, ok := change.Object.(*agents.Sandbox); ok {
			if ready := meta.FindStatusCondition(s.Status.Conditions, "Ready"); ready != nil {
				told = append(told, ready.Reason)
			}
		}
	}
	g.Expect(told).To(ContainElement("SandboxExpired"), "it was told before it went")
	g.Expect(c.Wire.Count("sandbox", "delete")).To(Equal(1))
}

func TestASandboxWhoseTimeWasOverBeforeIsNotStarted(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(sandbox(until(time.Now().Add(-time.Hour), agents.ShutdownRetain)))
	w.Await(says(notSuspended, "Ready False SandboxExpired: Sandbox has expired", nothing), c.Settled())
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(BeZero())
}

// What the agent-sandbox controller left expired, with an end that was moved since.
func TestWhatHadExpiredBeforeKilnCameGetsNoPodAgain(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Create(sandbox(until(time.Now().Add(time.Hour), agents.ShutdownRetain)))
	b := w.Sandbox("s").DeepCopy()
	b.Status.Conditions = []agents.Condition{
		{Type: "Suspended", Status: metav1.ConditionTrue, Reason: "PodTerminated", Message: "Pod has been terminated. Sandbox is suspended", ObservedGeneration: 1, LastTransitionTime: metav1.Now()},
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SandboxExpired", Message: "Sandbox has expired", ObservedGeneration: 1, LastTransitionTime: metav1.Now()},
	}
	b, err := w.Sandboxes().UpdateStatus(w.Context(), b, metav1.UpdateOptions{FieldManager: "agent-sandbox-controller"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(b))
	c := w.Controller()
	patch(t, w, `{"podTemplate":{"metadata":{"labels":{"a":"b"}}}}`)
	w.Await(says("Suspended True PodTerminated: Pod has been terminated. Sandbox is suspended", "Ready False SandboxExpired: Sandbox has expired", nothing), c.Settled())
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(BeZero())
}

// A leader that starts when the time is over, and one whose clock was put forward.
func TestAnEndThatNobodySawComeComesAllTheSame(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first := w.Controller()
	w.Create(sandbox(until(time.Now().Add(time.Hour), agents.ShutdownRetain)))
	w.Await(plain, world.PodHasState("s", states.Bound), first.Settled())
	wrote := len(first.Wire.Writes())
	NewWithT(t).Expect(first.Wire.Writes()).To(HaveLen(wrote), "nothing happens until then")
	first.Stop()
	var at clock
	at.forward(2 * time.Hour)
	w.Controller(at.keep)
	pod := w.Pod("s")
	w.Await(says(notSuspended, "Ready False SandboxExpired: Sandbox has expired", nothing), world.Deleted(pod))
}

func TestAMemberWhoseTimeIsOverIsReplaced(t *testing.T) {
	w, _ := started(t, 1)
	old := w.Sandbox(w.Members("p")[0])
	patched, err := w.Sandboxes().Patch(w.Context(), old.Name, types.MergePatchType,
		[]byte(`{"spec":{"shutdownTime":"2020-01-01T00:00:00Z"}}`), metav1.PatchOptions{FieldManager: "hand"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.Seen(patched), world.Deleted(old), world.Converged("p", 1))
}

// The labels and annotations of the running pod.

func hasMetadata(labels, annotations map[string]string) world.Condition {
	return func(s *world.Snapshot) error {
		p, ok := s.Pods["s"]
		if !ok {
			return errWaits
		}
		for _, of := range []struct{ is, want map[string]string }{{p.Labels, labels}, {p.Annotations, annotations}} {
			for k, v := range of.want {
				if of.is[k] != v {
					return fmt.Errorf("%s is %q and not %q", k, of.is[k], v)
				}
			}
		}
		for _, k := range []string{"gone", "old"} {
			if p.Labels[k]+p.Annotations[k] != "" {
				return fmt.Errorf("%s is still there", k)
			}
		}
		return nil
	}
}

func TestWhatATemplateSaysOfItsPodReachesTheRunningPod(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	g := NewWithT(t)
	c := w.Controller()
	w.Create(sandbox(func(b *agents.Sandbox) {
		b.Labels = map[string]string{apply.LabelCreatedBy: "somebody"}
		b.Spec.PodTemplate.ObjectMeta = agents.PodMetadata{
			Labels:      map[string]string{"team": "a", "gone": "soon", apply.LabelState: "ready", apply.LabelClaimUID: "forged", apply.LabelNameHash: "forged", apply.LabelTemplate: "forged"},
			Annotations: map[string]string{"note": "one", "old": "news"},
		}
	}))
	w.Await(plain, world.PodHasState("s", states.Bound))
	pod := w.Pod("s")
	ours := map[string]string{apply.LabelNameHash: "f60c4582", apply.LabelState: "bound", apply.LabelClaimUID: "", apply.LabelTemplate: "", apply.LabelCreatedBy: "unknown"}
	for k, v := range ours {
		g.Expect(pod.Labels[k]).To(Equal(v), k)
	}
	g.Expect(pod.Annotations[apply.AnnotationLabels]).To(Equal("gone,team"))
	g.Expect(pod.Annotations[apply.AnnotationAnnotations]).To(Equal("note,old"))
	patch(t, w, `{"podTemplate":{"metadata":{"labels":{"team":"b","gone":null,"new":"x","agents.x-k8s.io/state":"stale"},"annotations":{"note":"two","old":null}}}}`)
	w.Await(hasMetadata(map[string]string{"team": "b", "new": "x"}, map[string]string{"note": "two", apply.AnnotationLabels: "new,team", apply.AnnotationAnnotations: "note"}), c.Settled())
	pod = w.Pod("s")
	for k, v := range ours {
		g.Expect(pod.Labels[k]).To(Equal(v), k)
	}
	for _, scope := range []string{string(states.PodManager), string(states.StateManager)} {
		g.Expect(world.OwnersOf(pod, "metadata", "labels", "team")).To(Equal([]string{string(states.StateManager)}), scope)
	}
	owned(t, pod)
	w.LabelPod("s", apply.LabelNameHash, "forged")
	w.Await(hasMetadata(map[string]string{apply.LabelNameHash: "f60c4582"}, nil))
	w.LabelPod("s", apply.LabelNameHash, "")
	w.Await(hasMetadata(map[string]string{apply.LabelNameHash: "f60c4582", "team": "b"}, nil), plain)
	g.Expect(w.Pod("s").UID).To(Equal(pod.UID))
}

func TestAnEditOfABoundClaimsMetadataThatIsNotAllowedChangesNothingOfItsPod(t *testing.T) {
	w, c := started(t, 1)
	w.Create(world.Claim("a", "p", world.WithLabel("sandbox.users.io/team", "blue")))
	w.Await(world.Converged("p", 1, "a"))
	name := w.SandboxOf("a")
	patchClaim(t, w, "a", `{"spec":{"additionalPodMetadata":{"labels":{
		"sandbox.users.io/team":"red","agents.x-k8s.io/state":"ready","agents.x-k8s.io/sandbox-name-hash":"forged"},
		"annotations":{"example.com/note":"hello"}}}}`)
	w.Await(world.ClaimSays("a", "InvalidMetadata", "spec.additionalPodMetadata.labels[agents.x-k8s.io/sandbox-name-hash]: "+
		"the domain is not one of the allowed ones: sandbox.users.io"), c.Settled())
	g := NewWithT(t)
	pod := w.Pod(name)
	g.Expect(pod.Annotations).NotTo(HaveKey("example.com/note"))
	g.Expect([]string{pod.Labels["sandbox.users.io/team"], pod.Labels[apply.LabelState], pod.Labels[apply.LabelNameHash]}).
		To(Equal([]string{"blue", "bound", apply.Hash(name)}))
	owned(t, pod)
}

// Events

func events(w *kit.World, about string) (all []string) {
	list, err := w.Admin().EventsV1().Events(w.Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range list.Items {
		if e.Regarding.Name == about {
			all = append(all, e.Type+" "+e.Reason+" "+e.Action+": "+e.Note)
		}
	}
	return all
}

func TestTheEventsOfASandbox(t *testing.T) {
	for _, row := range []struct {
		name  string
		story func(*testing.T, *kit.World)
		want  []string
	}{
		{"that runs, is suspended and has failed in the end", func(t *testing.T, w *kit.World) {
			w.Create(sandbox())
			w.Await(plain)
			patch(t, w, `{"operatingMode":"Suspended"}`)
			w.Await(world.SandboxSays("s", "SandboxSuspended", "Sandbox is suspended"))
			patch(t, w, `{"operatingMode":"Running"}`)
			w.Await(plain)
			w.Kubelet.Fail("s")
			w.Await(world.SandboxSays("s", "PodFailed", ""))
		}, []string{
			`Normal SandboxPodCreated Reconciling: Created Pod "s"`, "Normal SandboxReady Reconciling: Pod is Ready",
			"Normal SandboxSuspended Reconciling: Sandbox is suspended",
			`Normal SandboxPodCreated Reconciling: Created Pod "s"`, "Normal SandboxReady Reconciling: Pod is Ready",
			"Warning PodFailed Reconciling: Pod failed",
		}},
		{"that succeeds and is retained", func(t *testing.T, w *kit.World) {
			w.Create(sandbox())
			w.Await(plain)
			w.Kubelet.Succeed("s")
			w.Await(world.SandboxSays("s", "PodSucceeded", ""))
			patch(t, w, `{"shutdownTime":"2020-01-01T00:00:00Z"}`)
			w.Await(world.SandboxSays("s", "SandboxExpired", ""))
		}, []string{
			`Normal SandboxPodCreated Reconciling: Created Pod "s"`, "Normal SandboxReady Reconciling: Pod is Ready",
			"Normal PodSucceeded Reconciling: Pod completed successfully", "Normal SandboxExpired Reconciling: Sandbox has expired",
		}},
		{"that is not retained", func(t *testing.T, w *kit.World) {
			w.Create(sandbox(until(time.Now().Add(-time.Hour), agents.ShutdownDelete)))
			w.Await(world.Empty)
		}, nil},
		{"whose pod is refused", func(t *testing.T, w *kit.World) {
			quota(t, w, "1")
			_, err := w.Pods().Create(w.Context(), world.Pod("filler"), metav1.CreateOptions{})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			w.Create(sandbox())
			w.Await(world.SandboxSays("s", "ReconcilerError", "exceeded quota"))
		}, []string{`Warning SandboxPodCreateFailed Reconciling: pods "s" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			c := w.Controller()
			row.story(t, w)
			g := NewWithT(t)
			g.Eventually(func() []string { return events(w, "s") }, "30s").Should(ConsistOf(row.want))
			c.Stop()
			g.Expect(events(w, "s")).To(ConsistOf(row.want), "and no other came late")
		})
	}
}

func TestAFreeMemberReportsFailuresAlone(t *testing.T) {
	w, _ := started(t, 1)
	name := w.Members("p")[0]
	second := world.Pod("another")
	second.Labels = map[string]string{apply.LabelNameHash: apply.Hash(name)}
	second.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.Sandbox(name), agents.SchemeGroupVersion.WithKind("Sandbox"))}
	_, err := w.Pods().Create(w.Context(), second, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.SandboxSays(name, "MultiplePods", ""))
	NewWithT(t).Eventually(func() []string { return events(w, name) }, "30s").Should(ConsistOf(
		"Warning MultiplePods Reconciling: multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"))
}
