package view

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

var noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// aged is a sandbox an hour old, whose Ready condition has been so for a time.
func aged(ready metav1.ConditionStatus, since time.Duration) *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	if ready != "" {
		c := Condition(Ready, ready, "x", "")
		c.LastTransitionTime = metav1.NewTime(noon.Add(-since))
		s.Status.Conditions = []metav1.Condition{c}
	}
	return s
}

// running is the pod of the sandbox, Ready, before a row changes it.
func running(changes ...func(*corev1.Pod)) *corev1.Pod {
	owner := metav1.NewControllerRef(aged("", 0), agents.SchemeGroupVersion.WithKind(agents.KindSandbox))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s", OwnerReferences: []metav1.OwnerReference{*owner}}}
	p.Spec.NodeName = "node"
	p.Status = corev1.PodStatus{
		Phase:  corev1.PodRunning,
		PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func unready(p *corev1.Pod)  { p.Status.Conditions[1].Status = corev1.ConditionFalse }
func noIPs(p *corev1.Pod)    { p.Status.PodIPs = nil }
func deleted(p *corev1.Pod)  { p.DeletionTimestamp = &noon }
func orphaned(p *corev1.Pod) { p.OwnerReferences = nil }
func unscheduled(why string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: why, Message: "0 of 3 nodes"}
	}
}

func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}

func carries(state states.State) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{apply.LabelState: string(state)} }
}

func TestAMemberIsStuckByTheTimeItHasBeenUnreadyAndNotByItsAge(t *testing.T) {
	const grace = 5 * time.Minute
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		pod     *corev1.Pod
		stuck   bool
		left    time.Duration
	}{
		{"one that is ready", aged(metav1.ConditionTrue, time.Hour), running(), false, 0},
		{"one that blinks", aged(metav1.ConditionFalse, time.Minute), running(unready), false, 4 * time.Minute},
		{"one that lost its readiness long ago", aged(metav1.ConditionFalse, grace), running(unready), true, 0},
		{"one that never had any", aged("", 0), running(unready), true, 0},
		{"one that no node has room for", aged(metav1.ConditionFalse, time.Hour), running(unready, unscheduled(corev1.PodReasonUnschedulable)), false, 0},
		{"one that waits at a gate", aged(metav1.ConditionFalse, time.Hour), running(unready, unscheduled(corev1.PodReasonSchedulingGated)), false, 0},
		{"one that got room a minute ago", aged(metav1.ConditionFalse, time.Hour), running(unready, func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
		}), false, 4 * time.Minute},
		{"one whose pod failed", aged(metav1.ConditionFalse, 0), running(unready, phase(corev1.PodFailed)), true, 0},
		{"one that a hand called bound", aged(metav1.ConditionTrue, 0), running(carries(states.Bound)), true, 0},
		{"one without a pod", aged(metav1.ConditionFalse, time.Hour), nil, false, 0},
		{"one whose pod's name is somebody else's", aged(metav1.ConditionFalse, time.Hour), running(unready, orphaned), false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			stuck, left := Health(row.sandbox, row.pod).Stuck(grace, noon.Time)
			g.Expect(stuck).To(Equal(row.stuck))
			g.Expect(left).To(Equal(row.left))
		})
	}
}

func TestAPodIsReadyWhenItRunsAndIsReadyAndHasAnAddress(t *testing.T) {
	for _, row := range []struct {
		name string
		pod  *corev1.Pod
		want states.PodFacts
	}{
		{"all of it", running(), states.PodFacts{View: states.PodReady, Phase: states.PodPhaseRunning, SaysReady: true}},
		{"no address", running(noIPs), states.PodFacts{View: states.PodStarting, Phase: states.PodPhaseRunning, SaysReady: true}},
		{"not Ready", running(unready), states.PodFacts{View: states.PodStarting, Phase: states.PodPhaseRunning}},
		{"pending", running(unready, phase(corev1.PodPending)), states.PodFacts{View: states.PodStarting}},
		{"succeeded", running(unready, phase(corev1.PodSucceeded)), states.PodFacts{View: states.PodStarting, Phase: states.PodPhaseSucceeded}},
		{"failed", running(unready, phase(corev1.PodFailed)), states.PodFacts{View: states.PodStarting, Phase: states.PodPhaseFailed}},
		{"being deleted, whatever the kubelet says", running(deleted), states.PodFacts{View: states.PodTerminating, Phase: states.PodPhaseRunning, SaysReady: true}},
		{"somebody else's, whatever it says", running(orphaned), states.PodFacts{View: states.PodForeign, Phase: states.PodPhaseRunning, SaysReady: true}},
		{"no room", running(unready, unscheduled(corev1.PodReasonUnschedulable)),
			states.PodFacts{View: states.PodStarting, Phase: states.PodPhaseRunning, Unscheduled: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(PodFacts(row.pod, Pod(row.pod, aged("", 0)))).To(Equal(row.want))
		})
	}
}

func TestOnlyAPodWithoutRoomIsUnschedulable(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Unschedulable(running())).To(BeEmpty())
	g.Expect(Unschedulable(running(unscheduled(corev1.PodReasonSchedulingGated)))).To(BeEmpty(), "a gate is somebody's wish")
	g.Expect(Unschedulable(running(unscheduled(corev1.PodReasonUnschedulable)))).To(Equal("0 of 3 nodes"))
}

func TestAMemberIsSeenWithThePodThatIsItsOwn(t *testing.T) {
	born := noon.Add(-time.Hour)
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		pod     *corev1.Pod
		want    states.Member
	}{
		{"no pod yet", aged("", 0), nil, states.Member{State: states.Warming}},
		{"a pod that is free", aged("", 0), running(carries(states.Ready)), states.Member{Pod: states.PodReady, State: states.Ready, Node: "node"}},
		{"a pod whose state a hand took away", aged("", 0), running(), states.Member{Pod: states.PodReady, State: states.Warming, Node: "node"}},
		{"a pod of somebody else's", aged("", 0), running(carries(states.Ready), orphaned), states.Member{Pod: states.PodForeign, State: states.Warming}},
		{"retired", func() *agents.Sandbox {
			s := aged("", 0)
			s.Annotations = map[string]string{apply.AnnotationRetired: "surplus"}
			return s
		}(), nil, states.Member{State: states.Warming, Terminating: true}},
		{"being deleted", func() *agents.Sandbox { s := aged("", 0); s.DeletionTimestamp = &noon; return s }(), nil,
			states.Member{State: states.Warming, Terminating: true}},
		{"refused", func() *agents.Sandbox {
			s := aged(metav1.ConditionFalse, 0)
			s.Status.Conditions[0].Reason = ReasonReconcilerError
			return s
		}(), nil, states.Member{State: states.Warming, Refused: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.want.Name, row.want.Born, row.want.Current = "s", born, true
			NewWithT(t).Expect(Member(row.sandbox, row.pod, true)).To(Equal(row.want))
		})
	}
}

func TestASandboxIsReadySinceItsConditionOrElseItsBirth(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ReadySince(aged(metav1.ConditionTrue, time.Minute))).To(Equal(noon.Add(-time.Minute)))
	g.Expect(ReadySince(aged(metav1.ConditionFalse, time.Minute))).To(Equal(noon.Add(-time.Hour)))
	g.Expect(ReadySince(aged("", 0))).To(Equal(noon.Add(-time.Hour)))
}
