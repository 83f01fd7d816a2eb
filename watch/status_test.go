package watch

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

var noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// running is a pod that is Ready, before a row changes it.
func running(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := pod("s", "pod-uid", "5")
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

func unready(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }

func suspend(s *agents.Sandbox) { s.Spec.OperatingMode = agents.Suspended }

func TestTheReadyConditionSaysWhatTheUsersOfTheAPIRead(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*agents.Sandbox)
		sight  podSight
		want   string
	}{
		{"a pod that is Ready", nil, podSight{view: states.PodReady, pod: running()}, "True DependenciesReady Pod is Ready"},
		{"no pod", nil, podSight{}, "False DependenciesNotReady Pod does not exist"},
		{"a pod that is Ready without an address", nil,
			podSight{view: states.PodStarting, pod: running(func(p *corev1.Pod) { p.Status.PodIPs = nil })},
			"False DependenciesNotReady Pod is Ready but has no podIPs yet"},
		{"a pod that runs and is not Ready", nil, podSight{view: states.PodStarting, pod: running(unready)}, "False DependenciesNotReady Pod is Running but not Ready"},
		{"a pod that is pending", nil,
			podSight{view: states.PodStarting, pod: running(unready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })},
			"False DependenciesNotReady Pod exists with phase: Pending"},
		{"a pod that is being deleted is not Ready, whatever the kubelet says", nil,
			podSight{view: states.PodLeaving, pod: running(func(p *corev1.Pod) { p.DeletionTimestamp = &noon })},
			"False DependenciesNotReady Pod is terminating"},
		{"a pod that succeeded", nil,
			podSight{view: states.PodStarting, pod: running(unready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
			"False PodSucceeded Pod completed successfully"},
		{"a pod that failed", nil,
			podSight{view: states.PodStarting, pod: running(unready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
			"False PodFailed Pod failed"},
		{"two pods", nil, podSight{view: states.PodMany, many: 2}, "False MultiplePods multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"},
		{"a pod of somebody else's", nil, podSight{view: states.PodForeign, pod: running()}, `False ReconcilerError Error seen: pod "s" is owned by Sandbox s`},
		{"a pod that is refused", nil, podSight{refusal: "quota"}, "False ReconcilerError Error seen: quota"},
		{"a suspended sandbox", suspend, podSight{}, "False SandboxSuspended Sandbox is suspended"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", Generation: 3}}
			if row.change != nil {
				row.change(s)
			}
			c := ready(s, row.sight)
			NewWithT(t).Expect(string(c.Status) + " " + c.Reason + " " + c.Message).To(Equal(row.want))
		})
	}
}

func TestAStatusIsWhole(t *testing.T) {
	g := NewWithT(t)
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", Generation: 3}}
	got := sandboxStatus(s, podSight{view: states.PodReady, pod: running()}, noon)
	g.Expect(got.NodeName).To(Equal("node"))
	g.Expect(got.PodIPs).To(Equal([]string{"10.0.0.1"}))
	g.Expect(got.Selector).To(Equal("agents.x-k8s.io/sandbox-name-hash=f60c4582"))
	var kinds []string
	for _, c := range got.Conditions {
		kinds = append(kinds, c.Type+" "+c.Reason)
		g.Expect(c.ObservedGeneration).To(BeEquivalentTo(3))
	}
	g.Expect(kinds).To(Equal([]string{"Suspended NotSuspended", "PodScheduled PodScheduled", "Ready DependenciesReady"}))
}

func TestASandboxThatWasNeverReadyIsNotReadySinceItsBirth(t *testing.T) {
	g := NewWithT(t)
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", CreationTimestamp: noon}}
	later := metav1.NewTime(noon.Add(memberHush))
	s.Status = sandboxStatus(s, podSight{view: states.PodStarting, pod: running(unready)}, later)
	g.Expect(unreadySince(s)).To(Equal(noon.Time), "and not since it was told")
	s.Status = sandboxStatus(s, podSight{view: states.PodReady, pod: running()}, later)
	g.Expect(readySince(s)).To(Equal(later.Time))
}

func TestWhatAPodTookWithItIsClearedAndTheSelectorStays(t *testing.T) {
	g := NewWithT(t)
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Status = sandboxStatus(s, podSight{view: states.PodReady, pod: running()}, noon)
	later := sandboxStatus(s, podSight{}, metav1.NewTime(noon.Add(time.Minute)))
	g.Expect(later.PodIPs).To(BeEmpty())
	g.Expect(later.NodeName).To(BeEmpty())
	g.Expect(later.Selector).To(Equal(s.Status.Selector))
	g.Expect(later.Conditions[0].LastTransitionTime).To(Equal(noon), "what did not change keeps its time")
	g.Expect(later.Conditions[1].LastTransitionTime).NotTo(Equal(noon))
}

func TestALaunchThatGoesWellIsToldOnce(t *testing.T) {
	fresh := &agents.Sandbox{}
	told := &agents.Sandbox{}
	told.Status = sandboxStatus(told, podSight{view: states.PodReady, pod: running()}, noon)
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		sight   podSight
		tells   bool
	}{
		{"nothing yet", fresh, podSight{}, false},
		{"a pod that is starting", fresh, podSight{view: states.PodStarting, pod: running(unready)}, false},
		{"a pod that is Ready", fresh, podSight{view: states.PodReady, pod: running()}, true},
		{"a pod that cannot be scheduled", fresh, podSight{view: states.PodStarting, pod: running(unready, func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		})}, true},
		{"a refusal", fresh, podSight{refusal: "quota"}, true},
		{"a loss after it was told", told, podSight{view: states.PodStarting, pod: running(unready)}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(telling(row.sandbox, row.sight)).To(Equal(row.tells))
		})
	}
}
