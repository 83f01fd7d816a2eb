// Package view shows API objects as the plain values that package states decides
// on. It reads objects and nothing else.
package view

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Key names an object of one kind.
type Key = cache.ObjectName

// KeyOf is an object's key.
func KeyOf(o metav1.Object) Key {
	return Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// OwnerKey is the key of an object's controller, which is in the object's
// namespace.
func OwnerKey(o metav1.Object) Key {
	return Key{Namespace: o.GetNamespace(), Name: apply.OwnerOf(o).Name}
}

// PoolOf is the key of the pool that a claim takes from.
func PoolOf(c *ext.SandboxClaim) Key {
	return Key{Namespace: c.Namespace, Name: c.Spec.WarmPoolRef.Name}
}

// Told reports whether a claim was told of a sandbox, or that it holds nothing any more.
func Told(c *ext.SandboxClaim) bool {
	return c.Status.State == ext.StateBound || c.Status.State == ext.StateStale
}

// TemplateOf is the key of the template that a pool is made from.
func TemplateOf(p *ext.SandboxWarmPool) Key {
	return Key{Namespace: p.Namespace, Name: p.Spec.TemplateRef.Name}
}

// Presence joins what a store shows and what the API server said in this step.
func Presence(shown bool, said states.Presence) states.Presence {
	if shown {
		return states.PresenceShown
	}
	if said == states.PresenceShown {
		return states.PresenceHidden // it was there a moment ago, and the store says not any more
	}
	return said
}

// The types of conditions, as the users of the API know them.
const (
	Ready       = apply.ConditionReady
	Suspended   = "Suspended"
	Scheduled   = "PodScheduled"
	Finished    = "Finished"
	Progressing = "Progressing"
	Degraded    = "Degraded"
)

// A Problem is what is wrong with an object, for a person: the code that decisions
// use and a message that names the field and the fix. The zero Problem is none.
type Problem struct {
	Reason  states.Reason
	Message string
}

// Condition is a condition without its time and generation.
func Condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Since gives a condition its time: now, or that of the one before it whose status
// was the same.
func Since(before []metav1.Condition, c metav1.Condition, now metav1.Time) metav1.Condition {
	c.LastTransitionTime = now
	if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// Second is a time as conditions carry it.
func Second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// Claim is a claim as decisions about sandboxes see it.
func Claim(c *ext.SandboxClaim) states.ClaimView {
	v := states.ClaimView{
		UID: string(c.UID), State: apply.ClaimState(c),
		SandboxName: c.Status.SandboxStatus.Name, SandboxUID: string(c.Status.SandboxStatus.UID),
		Terminating: c.DeletionTimestamp != nil,
	}
	for _, uid := range c.Status.RefusedSandboxes {
		v.Refused = append(v.Refused, string(uid))
	}
	return v
}

// Sandbox is a sandbox as decisions see it.
func Sandbox(s *agents.Sandbox) states.Sandbox {
	return states.Sandbox{
		Name: s.Name, UID: string(s.UID), Owner: apply.OwnerOf(s), ClaimUID: s.Labels[apply.LabelClaimUID],
		Warm: apply.LaunchOf(s) == apply.LaunchWarm, Pool: s.Labels[apply.LabelPool], Ready: meta.IsStatusConditionTrue(s.Status.Conditions, Ready),
		PodRefused: podRefused(s), Idle: Suspends(s) || Expired(s), Retired: s.Annotations[apply.AnnotationRetired] != "",
		Terminating: s.DeletionTimestamp != nil,
	}
}

// Suspends reports whether a sandbox shall have no pod for now.
func Suspends(s *agents.Sandbox) bool { return s.Spec.OperatingMode == agents.Suspended }

// ReasonExpired is what a sandbox says whose time is over. It is the mark that it
// never gets a pod again, whatever becomes of its shutdownTime.
const ReasonExpired = "SandboxExpired"

// Expired reports whether a sandbox has said that its time is over.
func Expired(s *agents.Sandbox) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, Ready)
	return c != nil && c.Reason == ReasonExpired
}

// ReasonInvalid is what a sandbox says that asks for what the API server will never
// accept.
const ReasonInvalid = "InvalidConfiguration"

// Invalid is why a sandbox, as it is specified now, will never be accepted; it is
// empty if nobody has said so.
func Invalid(s *agents.Sandbox) string {
	c := meta.FindStatusCondition(s.Status.Conditions, Ready)
	if c == nil || c.Reason != ReasonInvalid || c.ObservedGeneration != s.Generation {
		return ""
	}
	return strings.TrimPrefix(c.Message, ErrorSeen)
}

// ReasonPolicyRefused is what a template, and a pool that uses it, say whose
// NetworkPolicy cannot be what it should be.
const ReasonPolicyRefused = "NetworkPolicyRefused"

// ReasonReconcilerError is what a sandbox says whose pod cannot be made.
const ReasonReconcilerError = "ReconcilerError"

// ErrorSeen begins the message of that reason.
const ErrorSeen = "Error seen: "

func podRefused(s *agents.Sandbox) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, Ready)
	return c != nil && (c.Reason == ReasonReconcilerError || c.Reason == ReasonInvalid)
}

// ReadySince is when a sandbox became Ready.
func ReadySince(s *agents.Sandbox) time.Time {
	if c := meta.FindStatusCondition(s.Status.Conditions, Ready); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return s.CreationTimestamp.Time
}

// Member is a sandbox as its pool sees it. The pod is the one of its name, or nil.
func Member(s *agents.Sandbox, pod *corev1.Pod, current bool) states.Member {
	v := Sandbox(s)
	m := states.Member{
		Name: s.Name, State: states.Pod.Initial, Current: current, Refused: v.PodRefused,
		Terminating: v.Retired || v.Terminating, Born: s.CreationTimestamp.Time,
	}
	if pod == nil {
		return m
	}
	if m.Pod = Pod(pod, s); m.Pod != states.PodForeign {
		m.State, m.Node = StateOf(pod), pod.Spec.NodeName
	}
	return m
}

// Health is what tells whether a member's pod becomes ready by itself.
func Health(s *agents.Sandbox, pod *corev1.Pod) states.Health {
	if pod == nil {
		return states.Health{}
	}
	facts := PodFacts(pod, Pod(pod, s))
	h := states.Health{
		Pod: facts.View, Finished: facts.Phase == states.PodPhaseSucceeded || facts.Phase == states.PodPhaseFailed,
		Unscheduled: facts.Unscheduled, State: StateOf(pod), UnreadySince: s.CreationTimestamp.Time,
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, Ready); c != nil && c.Status != metav1.ConditionTrue {
		h.UnreadySince = c.LastTransitionTime.Time
	}
	if t := PodCondition(pod, corev1.PodScheduled).LastTransitionTime; t.After(h.UnreadySince) {
		h.UnreadySince = t.Time
	}
	return h
}

// OwnerName names an object's controller for a person.
func OwnerName(o metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return "nobody"
}
