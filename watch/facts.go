package watch

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// The types and reasons of conditions, as the users of the API know them.
const (
	condReady     = "Ready"
	condSuspended = "Suspended"
	condScheduled = "PodScheduled"
	condFinished  = "Finished"
	// The conditions of pools.
	condProgressing = "Progressing"
	condDegraded    = "Degraded"

	reasonReady      = "DependenciesReady"
	reasonNotReady   = "DependenciesNotReady"
	reasonError      = "ReconcilerError"
	reasonSuspended  = "SandboxSuspended"
	reasonMany       = "MultiplePods"
	reasonSucceeded  = "PodSucceeded"
	reasonFailed     = "PodFailed"
	reasonNoPool     = "WarmPoolNotFound"
	reasonNoTemplate = "TemplateNotFound"
	reasonUnread     = "TemplateUnreadable"
	reasonComplete   = "Complete"
	reasonWarming    = "Warming"
	reasonScaling    = "ScalingDown"
	reasonDeadline   = "ProgressDeadlineExceeded"
	reasonRoomless   = "Unschedulable"
	reasonMetadata   = "InvalidMetadata"
	reasonEnv        = "EnvVarsInjectionRejected"
	reasonVolumes    = "VolumeClaimTemplatesError"
	reasonPending    = "AdoptionPending"
	reasonStarting   = "SandboxNotReady"
	reasonLost       = "SandboxLost"
)

// errorSeen begins the message of reasonError.
const errorSeen = "Error seen: "

// Kinds are compared by group and kind, never by version: an owner reference
// keeps the version it was written with.
func isKind(o *metav1.OwnerReference, group, kind string) bool {
	if o == nil || o.Kind != kind {
		return false
	}
	g, _, _ := strings.Cut(o.APIVersion, "/")
	return g == group
}

func isPool(o *metav1.OwnerReference) bool {
	return isKind(o, ext.SchemeGroupVersion.Group, "SandboxWarmPool")
}

func isClaim(o *metav1.OwnerReference) bool {
	return isKind(o, ext.SchemeGroupVersion.Group, "SandboxClaim")
}

func isSandbox(o *metav1.OwnerReference) bool {
	return isKind(o, agents.SchemeGroupVersion.Group, "Sandbox")
}

// ownerKey is the key of an object's controller, in the object's namespace.
func ownerKey(o metav1.Object, owner *metav1.OwnerReference) Key {
	return Key{Namespace: o.GetNamespace(), Name: owner.Name}
}

func retired(s *agents.Sandbox) bool { return s.Annotations[apply.NoteRetired] != "" }

// refused reports whether a sandbox says that its pod can not be made.
func refused(s *agents.Sandbox) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, condReady)
	return c != nil && c.Reason == reasonError
}

func isReady(s *agents.Sandbox) bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, condReady)
}

// readySince is when a sandbox became Ready.
func readySince(s *agents.Sandbox) time.Time {
	if c := meta.FindStatusCondition(s.Status.Conditions, condReady); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return s.CreationTimestamp.Time
}

// podReady reports whether a pod is Ready as the API means it: running, Ready
// and with an address.
func podReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning &&
		podCondition(p, corev1.PodReady).Status == corev1.ConditionTrue && len(p.Status.PodIPs) > 0
}

// podCondition returns a pod's condition, or an empty one.
func podCondition(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func podIPs(p *corev1.Pod) []string {
	var ips []string
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// word is the state of a pod.
func word(p *corev1.Pod) states.State {
	if p == nil {
		return states.Pod.Initial
	}
	return states.Pod.Parse(p.Labels[apply.LabelState])
}

// tellsOf reports whether a claim was told of a sandbox: of this very one, and
// not of another that had its name. A status that was written without a UID, by
// the agent-sandbox controller, means the name.
func tellsOf(c *ext.SandboxClaim, s *agents.Sandbox) bool {
	told := c.Status.SandboxStatus
	return told.Name == s.Name && (told.UID == "" || told.UID == s.UID)
}
