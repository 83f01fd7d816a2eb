package view

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// StateOf is the state that a pod carries.
func StateOf(p *corev1.Pod) states.State { return states.Pod.Parse(p.Labels[apply.LabelState]) }

// Pod is what a pod is to the sandbox of its name.
func Pod(p *corev1.Pod, s *agents.Sandbox) states.PodView {
	switch {
	case Adoptable(p, s):
		return states.PodAdoptable
	case !apply.ControlledBy(s.UID, p):
		return states.PodForeign
	case p.DeletionTimestamp != nil:
		return states.PodTerminating
	case podReady(p):
		return states.PodReady
	}
	return states.PodStarting
}

// Adoptable reports whether a sandbox may adopt a pod of its name. Only one that a
// user made may: who can make pods could else make one the member of a pool.
func Adoptable(p *corev1.Pod, s *agents.Sandbox) bool {
	return apply.Adoptable(p) && p.DeletionTimestamp == nil && p.Name == s.Name && apply.OwnerOf(s).Kind == states.OwnerNone
}

// podReady reports whether a pod is Ready as the API means it: running, Ready and
// with an address.
func podReady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && saysReady(p) && len(p.Status.PodIPs) > 0
}

func saysReady(p *corev1.Pod) bool {
	return PodCondition(p, corev1.PodReady).Status == corev1.ConditionTrue
}

// PodFacts are the facts of a pod that a readiness is decided from.
func PodFacts(p *corev1.Pod, is states.PodView) states.PodFacts {
	f := states.PodFacts{
		View: is, SaysReady: saysReady(p),
		Unscheduled: PodCondition(p, corev1.PodScheduled).Status == corev1.ConditionFalse,
	}
	switch p.Status.Phase {
	case corev1.PodRunning:
		f.Phase = states.PodPhaseRunning
	case corev1.PodSucceeded:
		f.Phase = states.PodPhaseSucceeded
	case corev1.PodFailed:
		f.Phase = states.PodPhaseFailed
	case corev1.PodPending, corev1.PodUnknown:
	}
	return f
}

// PodCondition is a pod's condition, or an empty one.
func PodCondition(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// Unschedulable is what the scheduler says of a pod that no node has room for.
func Unschedulable(p *corev1.Pod) string {
	c := PodCondition(p, corev1.PodScheduled)
	if c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return c.Message
	}
	return ""
}

// PodIPs are the addresses of a pod.
func PodIPs(p *corev1.Pod) []string {
	var ips []string
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// AddedMetadata are the labels and annotations that a claim adds to its pod.
func AddedMetadata(c *ext.SandboxClaim) states.Metadata {
	m := c.Spec.AdditionalPodMetadata
	return states.Metadata{Labels: m.Labels, Annotations: m.Annotations}
}

// PodMetadata are the labels and annotations that a sandbox's pod is made with.
func PodMetadata(b *agents.Sandbox) states.Metadata {
	m := b.Spec.PodTemplate.ObjectMeta
	return states.Metadata{Labels: m.Labels, Annotations: m.Annotations}
}
