package sandbox

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// said is the status for what is observed of a sandbox and its pods.
func (w *world) said(known learned) agents.SandboxStatus {
	s := w.Observe(key, known)
	return w.status(s, s.Facts.Readiness)
}

func TestTheReadyConditionSaysWhatTheUsersOfTheAPIRead(t *testing.T) {
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		pods    []metav1.Object
		known   learned
		want    string
	}{
		{"a pod that is Ready", aSandbox(), []metav1.Object{running()}, learned{}, "True DependenciesReady Pod is Ready"},
		{"no pod", aSandbox(), nil, learned{}, "False DependenciesNotReady Pod does not exist"},
		{"a pod that is Ready without an address", aSandbox(), []metav1.Object{running(noIPs)}, learned{},
			"False DependenciesNotReady Pod is Ready but has no podIPs yet"},
		{"a pod that runs and is not Ready", aSandbox(), []metav1.Object{running(unready)}, learned{},
			"False DependenciesNotReady Pod is Running but not Ready"},
		{"a pod that is pending", aSandbox(), []metav1.Object{running(unready, phase(corev1.PodPending))}, learned{},
			"False DependenciesNotReady Pod exists with phase: Pending"},
		{"a pod that is being deleted is not Ready, whatever the kubelet says", aSandbox(), []metav1.Object{running(deleted)}, learned{},
			"False DependenciesNotReady Pod is terminating"},
		{"a pod that succeeded", aSandbox(), []metav1.Object{running(unready, phase(corev1.PodSucceeded))}, learned{},
			"False PodSucceeded Pod completed successfully"},
		{"a pod that failed", aSandbox(), []metav1.Object{running(unready, phase(corev1.PodFailed))}, learned{}, "False PodFailed Pod failed"},
		{"two pods", aSandbox(), []metav1.Object{running(), running(second)}, learned{},
			"False MultiplePods multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"},
		{"a pod of somebody else's", aSandbox(), []metav1.Object{running(ofOther)}, learned{},
			`False ReconcilerError Error seen: pod "s" is owned by Sandbox s; delete it, or give the sandbox another name`},
		{"a pod that is refused", aSandbox(), nil, learned{refusal: quota}, "False ReconcilerError Error seen: quota"},
		{"a suspended sandbox", aSandbox(suspend), nil, learned{}, "False SandboxSuspended Sandbox is suspended"},
		{"a sandbox that is suspending", aSandbox(suspend), []metav1.Object{running()}, learned{}, "False SandboxSuspended Sandbox is suspending"},
		{"a sandbox that has expired", aSandbox(ends(noon.Time)), []metav1.Object{running()}, learned{}, "False SandboxExpired Sandbox has expired"},
		{"a pod that is Ready, and a Service", aSandbox(serves), []metav1.Object{running(), itsService()}, learned{}, "True DependenciesReady Pod is Ready; Service Exists"},
		{"a pod that is Ready, and no Service", aSandbox(serves), []metav1.Object{running()}, learned{}, "False DependenciesNotReady Pod is Ready; Service does not exist"},
		{"a pod that runs, and a Service", aSandbox(serves), []metav1.Object{running(unready), itsService()}, learned{}, "False DependenciesNotReady Pod is Running but not Ready; Service Exists"},
		{"a pod that is pending, and no Service", aSandbox(serves), []metav1.Object{running(unready, phase(corev1.PodPending))}, learned{},
			"False DependenciesNotReady Pod exists with phase: Pending; Service does not exist"},
		{"a Service of another's", aSandbox(serves), []metav1.Object{running(), itsService(func(is *corev1.Service) { is.OwnerReferences[0].UID = "another" })}, learned{},
			`False ReconcilerError Error seen: Service "s" is owned by Sandbox s`},
		{"a Service of nobody's", aSandbox(serves), []metav1.Object{running(), itsService(func(is *corev1.Service) { is.OwnerReferences = nil })}, learned{},
			`False ReconcilerError Error seen: cannot adopt unowned Service "s": make it headless and label it agents.x-k8s.io/adoptable=true, or delete it`},
		{"storage of another's", aSandbox(stores), []metav1.Object{itsVolume(func(v *corev1.PersistentVolumeClaim) { v.OwnerReferences[0].UID = "another" })}, learned{},
			`False ReconcilerError Error seen: PVC "data-s" is owned by Sandbox s`},
		{"storage of nobody's", aSandbox(stores), []metav1.Object{itsVolume(func(v *corev1.PersistentVolumeClaim) { v.OwnerReferences, v.Labels = nil, nil })}, learned{},
			`False ReconcilerError Error seen: cannot adopt unowned PVC "data-s": label it agents.x-k8s.io/adoptable=true, or delete it`},
		{"what will never be accepted", aSandbox(invalid(3)), nil, learned{}, "False InvalidConfiguration Error seen: no"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, append(row.pods, row.sandbox)...)
			c := meta.FindStatusCondition(w.said(row.known).Conditions, view.Ready)
			w.g.Expect(string(c.Status) + " " + c.Reason + " " + c.Message).To(Equal(row.want))
		})
	}
}

func TestAStatusIsWhole(t *testing.T) {
	w := aWorld(t, aSandbox(), running())
	got := w.said(learned{})
	w.g.Expect(got.NodeName).To(Equal("node"))
	w.g.Expect(got.PodIPs).To(Equal([]string{"10.0.0.1"}))
	w.g.Expect(got.Selector).To(Equal("agents.x-k8s.io/sandbox-name-hash=f60c4582"))
	var kinds []string
	for _, c := range got.Conditions {
		kinds = append(kinds, c.Type+" "+c.Reason)
		w.g.Expect(c.ObservedGeneration).To(BeEquivalentTo(3))
	}
	w.g.Expect(kinds).To(Equal([]string{"Suspended NotSuspended", "PodScheduled PodScheduled", "Ready DependenciesReady"}))
}

func TestWhatIsSomebodyElsesIsNotReported(t *testing.T) {
	w := aWorld(t, aSandbox(), running(ofOther))
	got := w.said(learned{})
	w.g.Expect(got.NodeName + got.Selector).To(BeEmpty())
	w.g.Expect(got.PodIPs).To(BeEmpty())
}

func TestTheConditionsBesideReadySayWhatThePodSays(t *testing.T) {
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		pods    []metav1.Object
		kind    string
		want    string
	}{
		{"suspended, and no pod is left", aSandbox(suspend), nil, view.Suspended, "True PodTerminated Pod has been terminated. Sandbox is suspended"},
		{"suspended, and the pod still terminates", aSandbox(suspend), []metav1.Object{running(deleted)}, view.Suspended, "False PodTerminating Pod is terminating. Sandbox is suspending"},
		{"suspended, and a pod of somebody else's has its name", aSandbox(suspend), []metav1.Object{running(ofOther)}, view.Suspended,
			"False PodNotOwned Refused to delete pod because it is not owned by this sandbox"},
		{"suspended, and several pods are there", aSandbox(suspend), []metav1.Object{running(), running(second)}, view.Suspended,
			"Unknown PodStateUnknown Pod state is unknown. Sandbox suspension cannot be confirmed"},
		{"not suspended", aSandbox(), nil, view.Suspended, "False NotSuspended Sandbox is not suspended"},
		{"several pods", aSandbox(), []metav1.Object{running(), running(second)}, view.Scheduled,
			"Unknown PodSchedulingUnknown Pod state is unknown. Pod scheduling cannot be determined"},
		{"a pod of somebody else's", aSandbox(), []metav1.Object{running(ofOther)}, view.Scheduled,
			"Unknown PodSchedulingUnknown Pod state is unknown. Pod scheduling cannot be determined"},
		{"a pod that succeeded", aSandbox(), []metav1.Object{running(phase(corev1.PodSucceeded))}, view.Finished, "True PodSucceeded Pod completed successfully"},
		{"a pod that failed", aSandbox(), []metav1.Object{running(phase(corev1.PodFailed))}, view.Finished, "True PodFailed Pod failed"},
		{"a pod that nobody has scheduled", aSandbox(), []metav1.Object{running(func(p *corev1.Pod) { p.Status.Conditions = nil })}, view.Scheduled,
			"Unknown PodSchedulingUnknown Pod has not reported a PodScheduled condition yet"},
		{"a pod without room that gives no reason", aSandbox(), []metav1.Object{running(noRoom)}, view.Scheduled, "False PodSchedulingUnknown "},
		{"a pod without room", aSandbox(), []metav1.Object{running(noRoom, func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "Unschedulable", "0 of 3"
		})}, view.Scheduled, "False Unschedulable 0 of 3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, append(row.pods, row.sandbox)...)
			c := meta.FindStatusCondition(w.said(learned{}).Conditions, row.kind)
			w.g.Expect(string(c.Status) + " " + c.Reason + " " + c.Message).To(Equal(row.want))
		})
	}
}

// next is the sandbox with a status, as a later version shows it.
func next(b *agents.Sandbox, status agents.SandboxStatus) *agents.Sandbox {
	b = b.DeepCopy()
	b.Status, b.ResourceVersion = status, later(b.ResourceVersion)
	return b
}

func TestASandboxThatWasNeverReadyIsNotReadySinceItsBirth(t *testing.T) {
	b := aSandbox(young)
	w := aWorld(t, b, running(unready))
	reported := noon.Add(states.MemberDelay)
	w.Now = func() time.Time { return reported }
	b = next(b, w.said(learned{}))
	w.put(b)
	unreadySince := meta.FindStatusCondition(b.Status.Conditions, view.Ready).LastTransitionTime
	w.g.Expect(unreadySince).To(Equal(noon), "and not since it was told")
	w.put(running(func(p *corev1.Pod) { p.ResourceVersion = "6" }))
	w.g.Expect(view.ReadySince(next(b, w.said(learned{})))).To(Equal(reported))
}

func TestWhatAPodTookWithItIsClearedAndTheSelectorStays(t *testing.T) {
	b := aSandbox()
	w := aWorld(t, b, running())
	was := w.said(learned{})
	w.put(next(b, was))
	w.Stores.Pods.MarkDeleted(running())
	w.Now = func() time.Time { return noon.Add(time.Minute) }
	is := w.said(learned{})
	w.g.Expect(is.PodIPs).To(BeEmpty())
	w.g.Expect(is.NodeName).To(BeEmpty())
	w.g.Expect(is.Selector).To(Equal(was.Selector))
	w.g.Expect(is.Conditions[0].LastTransitionTime).To(Equal(noon), "what did not change keeps its time")
	w.g.Expect(is.Conditions[1].LastTransitionTime).NotTo(Equal(noon))
}

func TestALaunchThatGoesWellIsToldOnce(t *testing.T) {
	told := func(b *agents.Sandbox) {
		b.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionTrue, "x", "")}
	}
	justMade := func(p *corev1.Pod) { p.CreationTimestamp = noon }
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		pods    []metav1.Object
		known   learned
		delay   time.Duration
	}{
		{"nothing yet", aSandbox(young), nil, learned{}, states.LaunchDelay},
		{"a pod that is starting", aSandbox(young), []metav1.Object{running(unready, justMade)}, learned{}, states.LaunchDelay},
		{"a pod that is starting, for which its sandbox has waited long", aSandbox(), []metav1.Object{running(unready, justMade)}, learned{}, states.LaunchDelay},
		{"no pod for long", aSandbox(), nil, learned{}, 0},
		{"a pod of a member that is starting", aSandbox(young, ofPool), []metav1.Object{running(unready, justMade), aPool()}, learned{}, states.MemberDelay},
		{"a pod that has been starting for long", aSandbox(), []metav1.Object{running(unready)}, learned{}, 0},
		{"a pod that is Ready", aSandbox(young), []metav1.Object{running()}, learned{}, 0},
		{"a pod that cannot be scheduled", aSandbox(young), []metav1.Object{running(unready, noRoom)}, learned{}, 0},
		{"a refusal", aSandbox(young), nil, learned{refusal: quota}, 0},
		{"a loss after it was told", aSandbox(young, told), []metav1.Object{running(unready)}, learned{}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, append(row.pods, row.sandbox)...)
			w.g.Expect(w.Observe(key, row.known).Facts.StatusDelay).To(Equal(row.delay))
		})
	}
}

func TestAStatusNamesTheService(t *testing.T) {
	for name, b := range map[string]*agents.Sandbox{"that it needs": aSandbox(serves), "that is kept": aSandbox(), "of one that is suspended": aSandbox(serves, suspend)} {
		w := aWorld(t, b, itsService())
		got := w.said(learned{})
		w.g.Expect(got.Service+" "+got.ServiceFQDN).To(Equal("s s.a.svc.cluster.local"), name)
	}
	for name, w := range map[string]*world{
		"none": aWorld(t, aSandbox(serves)), "another's": aWorld(t, aSandbox(), itsService(func(is *corev1.Service) { is.OwnerReferences = nil })),
		"one that goes": aWorld(t, aSandbox(noService), itsService(func(is *corev1.Service) { is.DeletionTimestamp = &noon })),
	} {
		got := w.said(learned{})
		w.g.Expect(got.Service+got.ServiceFQDN).To(BeEmpty(), name)
	}
}

func TestASandboxWhoseTimeIsOverKeepsItsConditionsAndNothingElse(t *testing.T) {
	b := aSandbox(serves)
	w := aWorld(t, b, running(phase(corev1.PodSucceeded)), itsService())
	b = next(b, w.said(learned{}))
	ends(noon.Time)(b)
	w.put(b)
	w.Stores.Pods.MarkDeleted(running())
	got := w.said(learned{})
	w.g.Expect(got).To(Equal(agents.SandboxStatus{Conditions: got.Conditions}))
	var said []string
	for _, c := range got.Conditions {
		said = append(said, c.Type+" "+string(c.Status)+" "+c.Reason)
		w.g.Expect(c.ObservedGeneration).To(BeEquivalentTo(3))
	}
	w.g.Expect(said).To(Equal([]string{"Suspended False NotSuspended", "Finished True PodSucceeded", "Ready False SandboxExpired"}))
}

// A suspension that deletes a pod says so first, and then nobody is asked about another: only
// a sandbox whose pod was never seen to end costs a read.
func TestOnlyASuspendedSandboxThatHasNotSaidThatItsPodEndsAsksForOne(t *testing.T) {
	b := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	for name, row := range map[string]struct {
		reason string
		of     int64
		ended  bool
	}{
		"it has said nothing yet":        {"", 2, false},
		"its pod is terminating":         {"PodTerminating", 2, true},
		"its pod has ended":              {"PodTerminated", 2, true},
		"that was said of an older spec": {"PodTerminated", 1, false},
		"somebody's pod was in the way":  {"PodNotOwned", 2, false},
		"it was running":                 {"NotSuspended", 2, false},
	} {
		b.Status.Conditions = nil
		if row.reason != "" {
			b.Status.Conditions = []metav1.Condition{{Type: "Suspended", Reason: row.reason, ObservedGeneration: row.of}}
		}
		if got := saysPodEnded(b); got != row.ended {
			t.Errorf("%s: %t", name, got)
		}
	}
}
