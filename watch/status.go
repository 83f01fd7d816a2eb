package watch

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// podSight is what a sandbox's step sees of its pods.
type podSight struct {
	view states.PodView
	// pod is the one pod the view is about; nil with NoPod and PodMany.
	pod  *corev1.Pod
	many int
	// refusal is why the pod can not be made, in the words of who refused it.
	refusal string
}

// sandboxStatus is the status a sandbox should have.
func sandboxStatus(s *agents.Sandbox, sight podSight, now metav1.Time) agents.SandboxStatus {
	pod := sight.pod
	if sight.view == states.PodForeign {
		pod = nil // it is not ours, so nothing of it is ours to report
	}
	// What is not ours to derive here (the Service's fields) stays as it is.
	want := agents.SandboxStatus{
		Service: s.Status.Service, ServiceFQDN: s.Status.ServiceFQDN,
		Selector: s.Status.Selector,
	}
	if pod != nil {
		want.Selector = apply.LabelNameHash + "=" + apply.Hash(s.Name)
		want.PodIPs = podIPs(pod)
		want.NodeName = pod.Spec.NodeName
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = s.Generation
		want.Conditions = append(want.Conditions, since(s.Status.Conditions, c, now))
	}
	set(suspended(s, sight))
	if c, ok := finished(pod); ok {
		set(c)
	}
	if pod != nil {
		set(scheduled(pod))
	}
	r := ready(s, sight)
	if r.Status == metav1.ConditionFalse && meta.FindStatusCondition(s.Status.Conditions, condReady) == nil {
		now = s.CreationTimestamp // it was never Ready, however late that is told
	}
	set(r)
	return want
}

// since keeps the time of a condition whose status stays.
func since(had []metav1.Condition, c metav1.Condition, now metav1.Time) metav1.Condition {
	c.LastTransitionTime = now
	if old := meta.FindStatusCondition(had, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// suspended says whether the sandbox is suspended, which is: it should be, and
// there is no pod.
func suspended(s *agents.Sandbox, sight podSight) metav1.Condition {
	if s.Spec.OperatingMode == agents.Suspended && sight.view == states.NoPod {
		return condition(condSuspended, metav1.ConditionTrue, "PodTerminated", "Pod has been terminated. Sandbox is suspended")
	}
	return condition(condSuspended, metav1.ConditionFalse, "NotSuspended", "Sandbox is not suspended")
}

func finished(pod *corev1.Pod) (metav1.Condition, bool) {
	switch {
	case pod == nil:
	case pod.Status.Phase == corev1.PodSucceeded:
		return condition(condFinished, metav1.ConditionTrue, reasonSucceeded, "Pod completed successfully"), true
	case pod.Status.Phase == corev1.PodFailed:
		return condition(condFinished, metav1.ConditionTrue, reasonFailed, "Pod failed"), true
	}
	return metav1.Condition{}, false
}

func scheduled(pod *corev1.Pod) metav1.Condition {
	const unknown = "PodSchedulingUnknown"
	c := podCondition(pod, corev1.PodScheduled)
	if c.Type == "" {
		return condition(condScheduled, metav1.ConditionUnknown, unknown, "Pod has not reported a PodScheduled condition yet")
	}
	reason := c.Reason
	switch {
	case reason != "":
	case c.Status == corev1.ConditionTrue:
		reason = condScheduled
	default:
		reason = unknown
	}
	return condition(condScheduled, metav1.ConditionStatus(c.Status), reason, c.Message)
}

// ready is the Ready condition. A refusal comes first: it is what a person can
// act on.
func ready(s *agents.Sandbox, sight podSight) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return condition(condReady, metav1.ConditionFalse, reason, message)
	}
	pod := sight.pod
	switch {
	case sight.refusal != "":
		return no(reasonError, errorSeen+sight.refusal)
	case sight.view == states.PodMany:
		return no(reasonMany, fmt.Sprintf("multiple Pods (%d) are controlled by this Sandbox; refusing to choose or create a Pod", sight.many))
	case s.Spec.OperatingMode == agents.Suspended && sight.view == states.NoPod:
		return no(reasonSuspended, "Sandbox is suspended")
	case sight.view == states.PodForeign:
		return no(reasonError, fmt.Sprintf(errorSeen+"pod %q is owned by %s", pod.Name, ownerWords(pod)))
	case pod == nil:
		return no(reasonNotReady, "Pod does not exist")
	case pod.Status.Phase == corev1.PodSucceeded:
		return no(reasonSucceeded, "Pod completed successfully")
	case pod.Status.Phase == corev1.PodFailed:
		return no(reasonFailed, "Pod failed")
	case podReady(pod):
		return condition(condReady, metav1.ConditionTrue, reasonReady, "Pod is Ready")
	case pod.DeletionTimestamp != nil:
		return no(reasonNotReady, "Pod is terminating")
	case pod.Status.Phase != corev1.PodRunning:
		return no(reasonNotReady, "Pod exists with phase: "+string(pod.Status.Phase))
	case podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue:
		return no(reasonNotReady, "Pod is Ready but has no podIPs yet")
	}
	return no(reasonNotReady, "Pod is Running but not Ready")
}

func ownerWords(o metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return "nobody"
}

// telling reports whether a status must not be kept back: the launch is over,
// well or badly, or it is held up by something a person can act on.
func telling(s *agents.Sandbox, sight podSight) bool {
	had := meta.FindStatusCondition(s.Status.Conditions, condReady) != nil
	over := slices.Contains([]states.PodView{states.PodReady, states.PodMany, states.PodForeign}, sight.view)
	stuck := sight.refusal != "" || s.Spec.OperatingMode == agents.Suspended
	if sight.pod != nil {
		_, done := finished(sight.pod)
		stuck = stuck || done || podCondition(sight.pod, corev1.PodScheduled).Status == corev1.ConditionFalse
	}
	return had || over || stuck
}
