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
	states.ReasonPodReady:       {"DependenciesReady", dependencies("Pod is Ready")},
	states.ReasonServiceMissing: {dependenciesNotReady, dependencies("Pod is Ready")},
	states.ReasonPodMissing:     {dependenciesNotReady, dependencies("Pod does not exist")},
	states.ReasonPodTerminating: {dependenciesNotReady, dependencies("Pod is terminating")},
	states.ReasonPodNoAddress:   {dependenciesNotReady, dependencies("Pod is Ready but has no podIPs yet")},
	states.ReasonPodUnready:     {dependenciesNotReady, dependencies("Pod is Running but not Ready")},
	states.ReasonPodPending: {dependenciesNotReady, func(s Snapshot) string {
		return dependencies("Pod exists with phase: " + string(s.pods.pod.Status.Phase))(s)
	}},
	states.ReasonPodProblem: {view.ReasonReconcilerError, errorSeen},
	states.ReasonInvalid:    {view.ReasonInvalid, errorSeen},
	states.ReasonPodMultiple: {"MultiplePods", func(s Snapshot) string {
		return fmt.Sprintf("multiple Pods (%d) are controlled by this Sandbox; refusing to choose or create a Pod", s.pods.count)
	}},
	states.ReasonPodForeign: {view.ReasonReconcilerError, func(s Snapshot) string {
		return fmt.Sprintf(view.ErrorSeen+"pod %q is owned by %s; delete it, or give the sandbox another name", s.pods.pod.Name, view.OwnerName(s.pods.pod))
	}},
	states.ReasonSuspending:   {sandboxSuspended, fixed("Sandbox is suspending")},
	states.ReasonSuspended:    {sandboxSuspended, fixed("Sandbox is suspended")},
	states.ReasonExpired:      {view.ReasonExpired, fixed("Sandbox has expired")},
	states.ReasonPodSucceeded: {"PodSucceeded", fixed("Pod completed successfully")},
	states.ReasonPodFailed:    {"PodFailed", fixed("Pod failed")},
}

const sandboxSuspended = "SandboxSuspended"

func errorSeen(s Snapshot) string { return view.ErrorSeen + s.problem.Message }

// dependencies says of a sandbox that needs a Service whether it has one, too.
func dependencies(pod string) func(Snapshot) string {
	return func(s Snapshot) string {
		switch {
		case !s.needsService():
			return pod
		case s.service.own:
			return pod + "; Service Exists"
		}
		return pod + "; Service does not exist"
	}
}

func fixed(text string) func(Snapshot) string { return func(Snapshot) string { return text } }

// The reasons of the other conditions.
const (
	reasonNotSuspended      = "NotSuspended"
	reasonPodTerminated     = "PodTerminated"
	reasonPodTerminating    = "PodTerminating"
	reasonPodNotOwned       = "PodNotOwned"
	reasonPodStateUnknown   = "PodStateUnknown"
	reasonSchedulingUnknown = "PodSchedulingUnknown"
)

// status is the status of a sandbox for a readiness.
func (l *Sandboxes) status(s Snapshot, why states.Reason) agents.SandboxStatus {
	b, now := s.sandbox, view.Second(l.Now())
	want := agents.SandboxStatus{}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = b.Generation
		want.Conditions = append(want.Conditions, view.Since(b.Status.Conditions, c, now))
	}
	for _, c := range s.besides(why) {
		set(c)
	}
	if why != states.ReasonExpired {
		l.describe(s, &want)
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

// describe says what a sandbox has. The selector stays when the pod is gone, and
// the Service while it is there.
func (l *Sandboxes) describe(s Snapshot, want *agents.SandboxStatus) {
	b := s.sandbox
	want.Selector = b.Status.Selector
	if pod := s.pods.own(); pod != nil {
		want.Selector = apply.LabelNameHash + "=" + apply.Hash(b.Name)
		want.PodIPs, want.NodeName = view.PodIPs(pod), pod.Spec.NodeName
	}
	if s.service.own {
		want.Service = s.service.is.Name
		want.ServiceFQDN = fmt.Sprintf("%s.%s.svc.%s", s.service.is.Name, b.Namespace, l.ClusterDomain)
	}
}

// own is the one pod that is the sandbox's own, or nil: nothing of somebody else's is
// its to report.
func (p pods) own() *corev1.Pod {
	if p.is == states.PodForeign || p.is == states.PodAdoptable {
		return nil
	}
	return p.pod
}

// besides are the conditions beside Ready, in the order in which they are shown. When
// its time is over a sandbox keeps what was last said of it, but for the pod's
// schedule.
func (s Snapshot) besides(why states.Reason) (all []metav1.Condition) {
	keep := func(kind string, otherwise ...metav1.Condition) {
		if c := meta.FindStatusCondition(s.sandbox.Status.Conditions, kind); c != nil && why == states.ReasonExpired {
			all = append(all, *c)
		} else {
			all = append(all, otherwise...)
		}
	}
	keep(view.Suspended, suspended(s))
	keep(view.Finished, finished(s.pods.own())...)
	if why != states.ReasonExpired {
		all = append(all, scheduled(s)...)
	}
	return all
}

// suspended says whether the sandbox is suspended, which is: it should be, and
// there is no pod.
func suspended(s Snapshot) metav1.Condition {
	status, reason, message := metav1.ConditionFalse, reasonNotSuspended, "Sandbox is not suspended"
	if s.Facts.Suspended {
		switch s.pods.is {
		case states.PodNone:
			status, reason, message = metav1.ConditionTrue, reasonPodTerminated, "Pod has been terminated. Sandbox is suspended"
		case states.PodStarting, states.PodReady, states.PodTerminating:
			reason, message = reasonPodTerminating, "Pod is terminating. Sandbox is suspending"
		case states.PodForeign, states.PodAdoptable:
			reason, message = reasonPodNotOwned, "Refused to delete pod because it is not owned by this sandbox"
		case states.PodMultiple:
			status, reason, message = metav1.ConditionUnknown, reasonPodStateUnknown, "Pod state is unknown. Sandbox suspension cannot be confirmed"
		}
	}
	return view.Condition(view.Suspended, status, reason, message)
}

// saysPodEnded reports whether the status of a sandbox, as it is specified now, says that its
// own pod has ended or is about to: that pod had its name then.
func saysPodEnded(b *agents.Sandbox) bool {
	c := meta.FindStatusCondition(b.Status.Conditions, view.Suspended)
	return c != nil && c.ObservedGeneration == b.Generation && (c.Reason == reasonPodTerminated || c.Reason == reasonPodTerminating)
}

// finished says how a pod's containers ended, if they did.
func finished(pod *corev1.Pod) []metav1.Condition {
	if pod == nil {
		return nil
	}
	why := map[corev1.PodPhase]states.Reason{
		corev1.PodSucceeded: states.ReasonPodSucceeded, corev1.PodFailed: states.ReasonPodFailed,
	}[pod.Status.Phase]
	w, ended := readiness[why]
	if !ended {
		return nil
	}
	return []metav1.Condition{view.Condition(view.Finished, metav1.ConditionTrue, w.reason, w.message(Snapshot{}))}
}

// scheduled mirrors the pod's own condition. Without a pod there is none, unless it
// is missing because something is wrong.
func scheduled(s Snapshot) []metav1.Condition {
	unknown := func(message string) []metav1.Condition {
		return []metav1.Condition{view.Condition(view.Scheduled, metav1.ConditionUnknown, reasonSchedulingUnknown, message)}
	}
	pod := s.pods.own()
	if pod == nil {
		wrong := s.problem.Message != "" || s.pods.is == states.PodForeign
		if s.pods.is == states.PodMultiple || wrong && !s.Facts.Suspended {
			return unknown("Pod state is unknown. Pod scheduling cannot be determined")
		}
		return nil
	}
	c := view.PodCondition(pod, corev1.PodScheduled)
	switch {
	case c.Type == "":
		return unknown("Pod has not reported a PodScheduled condition yet")
	case c.Reason != "":
	case c.Status == corev1.ConditionTrue:
		c.Reason = view.Scheduled
	default:
		c.Reason = reasonSchedulingUnknown
	}
	return []metav1.Condition{view.Condition(view.Scheduled, metav1.ConditionStatus(c.Status), c.Reason, c.Message)}
}
