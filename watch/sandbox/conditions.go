package sandbox

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A wording is what a sandbox's Ready condition says for a readiness, as the users
// of the API know it.
type wording struct {
	reason  string
	message func(Snapshot) string
}

const dependenciesNotReady = "DependenciesNotReady"

// readiness words how ready a sandbox is. It is Ready for ReasonPodReady alone.
var readiness = map[states.Reason]wording{
	states.ReasonPodReady:   {"DependenciesReady", fixed("Pod is Ready")},
	states.ReasonPodProblem: {view.ReasonReconcilerError, func(s Snapshot) string { return view.ErrorSeen + s.pods.problem }},
	states.ReasonPodMultiple: {"MultiplePods", func(s Snapshot) string {
		return fmt.Sprintf("multiple Pods (%d) are controlled by this Sandbox; refusing to choose or create a Pod", s.pods.count)
	}},
	states.ReasonPodForeign: {view.ReasonReconcilerError, func(s Snapshot) string {
		return fmt.Sprintf(view.ErrorSeen+"pod %q is owned by %s", s.pods.pod.Name, view.OwnerName(s.pods.pod))
	}},
	states.ReasonSuspended:      {"SandboxSuspended", fixed("Sandbox is suspended")},
	states.ReasonPodMissing:     {dependenciesNotReady, fixed("Pod does not exist")},
	states.ReasonPodSucceeded:   {"PodSucceeded", fixed("Pod completed successfully")},
	states.ReasonPodFailed:      {"PodFailed", fixed("Pod failed")},
	states.ReasonPodTerminating: {dependenciesNotReady, fixed("Pod is terminating")},
	states.ReasonPodPending: {dependenciesNotReady, func(s Snapshot) string {
		return "Pod exists with phase: " + string(s.pods.pod.Status.Phase)
	}},
	states.ReasonPodNoAddress: {dependenciesNotReady, fixed("Pod is Ready but has no podIPs yet")},
	states.ReasonPodUnready:   {dependenciesNotReady, fixed("Pod is Running but not Ready")},
}

func fixed(text string) func(Snapshot) string { return func(Snapshot) string { return text } }

// The reasons of the other conditions.
const (
	reasonNotSuspended      = "NotSuspended"
	reasonPodTerminated     = "PodTerminated"
	reasonSchedulingUnknown = "PodSchedulingUnknown"
)

// status is the status of a sandbox for a readiness. What is not derived here (the
// Service's fields) stays as it is.
func (l *Sandboxes) status(s Snapshot, why states.Reason) agents.SandboxStatus {
	b, pod, now := s.sandbox, s.pods.pod, view.Second(l.Now())
	if s.pods.is == states.PodForeign {
		pod = nil // it is somebody else's, and nothing of it is ours to report
	}
	want := agents.SandboxStatus{
		Service: b.Status.Service, ServiceFQDN: b.Status.ServiceFQDN, Selector: b.Status.Selector,
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = b.Generation
		want.Conditions = append(want.Conditions, view.Since(b.Status.Conditions, c, now))
	}
	set(suspended(s))
	if pod != nil {
		want.Selector = apply.LabelNameHash + "=" + apply.Hash(b.Name)
		want.PodIPs, want.NodeName = view.PodIPs(pod), pod.Spec.NodeName
		if c, ok := finished(pod); ok {
			set(c)
		}
		set(scheduled(pod))
	}
	w := readiness[why]
	ready := view.Condition(view.Ready, metav1.ConditionFalse, w.reason, w.message(s))
	if why == states.ReasonPodReady {
		ready.Status = metav1.ConditionTrue
	} else if meta.FindStatusCondition(b.Status.Conditions, view.Ready) == nil {
		now = b.CreationTimestamp // it was never Ready, however late that is reported
	}
	set(ready)
	return want
}

// suspended says whether the sandbox is suspended, which is: it should be, and
// there is no pod.
func suspended(s Snapshot) metav1.Condition {
	if s.pods.facts.Suspended && s.pods.is == states.PodNone {
		return view.Condition(view.Suspended, metav1.ConditionTrue, reasonPodTerminated, "Pod has been terminated. Sandbox is suspended")
	}
	return view.Condition(view.Suspended, metav1.ConditionFalse, reasonNotSuspended, "Sandbox is not suspended")
}

// finished says how a pod's containers ended, if they did.
func finished(pod *corev1.Pod) (metav1.Condition, bool) {
	why := map[corev1.PodPhase]states.Reason{
		corev1.PodSucceeded: states.ReasonPodSucceeded, corev1.PodFailed: states.ReasonPodFailed,
	}[pod.Status.Phase]
	w, ended := readiness[why]
	if !ended {
		return metav1.Condition{}, false
	}
	return view.Condition(view.Finished, metav1.ConditionTrue, w.reason, w.message(Snapshot{})), true
}

// scheduled mirrors the pod's own condition.
func scheduled(pod *corev1.Pod) metav1.Condition {
	c := view.PodCondition(pod, corev1.PodScheduled)
	switch {
	case c.Type == "":
		return view.Condition(view.Scheduled, metav1.ConditionUnknown, reasonSchedulingUnknown, "Pod has not reported a PodScheduled condition yet")
	case c.Reason != "":
	case c.Status == corev1.ConditionTrue:
		c.Reason = view.Scheduled
	default:
		c.Reason = reasonSchedulingUnknown
	}
	return view.Condition(view.Scheduled, metav1.ConditionStatus(c.Status), c.Reason, c.Message)
}
