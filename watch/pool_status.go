package watch

import (
	"context"
	"fmt"
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

// report writes the status once it has been out of date for a pause. That another
// spec or template was observed is told at once: whoever has changed one and waits
// for the end must not take what was said before for it.
func (l pools) report(ctx context.Context, sight poolSight) (time.Duration, error) {
	want, after := l.status(sight)
	if apply.SamePoolStatus(sight.pool.Status, want) {
		l.memory.settle(sight.pool.UID)
		return after, nil
	}
	if left := l.memory.pause(sight.pool.UID, l.now()); left > 0 && sameCause(sight.pool.Status, want) {
		return left, nil
	}
	got, err := l.apply.ReportPool(ctx, sight.pool, want)
	if err == nil {
		l.memory.settle(sight.pool.UID)
		l.tellRoom(ctx, sight.pool, want)
	}
	return after, last(ctx, l.stores.pools, l.reads.kiln.Pools(sight.pool.Namespace), sight.pool, got, err)
}

// sameCause reports whether two statuses speak of the same spec and template.
func sameCause(a, b ext.SandboxWarmPoolStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.CurrentRevision == b.CurrentRevision &&
		a.ObservedTemplateGeneration == b.ObservedTemplateGeneration
}

// status is the status a pool should have, and when to look at it again although
// nothing happened.
func (l pools) status(sight poolSight) (ext.SandboxWarmPoolStatus, time.Duration) {
	n := states.CountPool(sight.facts)
	want := ext.SandboxWarmPoolStatus{
		Replicas: int32(n.Replicas), ReadyReplicas: int32(n.Ready),
		UpdatedReplicas: int32(n.Updated), UpdatedReadyReplicas: int32(n.UpdatedReady),
		WarmingReplicas: int32(n.Warming), StaleReplicas: int32(n.Leaving),
		CurrentRevision:    sight.blueprint.For(sight.pool),
		Selector:           apply.LabelPool + "=" + apply.Hash(sight.pool.Name),
		ObservedGeneration: sight.pool.Generation, ObservedTemplateGeneration: sight.template,
	}
	if had := sight.pool.Status; sight.unread != nil {
		// What is current is not known, so nothing new is said of it: neither which
		// revision that is, nor that the spec was followed.
		want.CurrentRevision, want.ObservedGeneration = had.CurrentRevision, had.ObservedGeneration
		want.ObservedTemplateGeneration = had.ObservedTemplateGeneration
		want.UpdatedReplicas = min(had.UpdatedReplicas, want.Replicas)
		want.UpdatedReadyReplicas = min(had.UpdatedReadyReplicas, want.ReadyReplicas)
	}
	now := metav1.NewTime(l.now().Truncate(time.Second))
	all, after := l.conditions(sight, n)
	for _, c := range all {
		c.ObservedGeneration = sight.pool.Generation
		want.Conditions = append(want.Conditions, since(sight.pool.Status.Conditions, c, now))
	}
	return want, after
}

// conditions say in a person's words how a pool is.
func (l pools) conditions(sight poolSight, n states.PoolCount) (all []metav1.Condition, after time.Duration) {
	desired := sight.facts.Replicas
	have := fmt.Sprintf("%d of %d members are ready", n.Ready, desired)
	degraded := l.degraded(sight, n)
	ready := condition(condReady, metav1.ConditionTrue, "MembersReady", have)
	progress := condition(condProgressing, metav1.ConditionFalse, reasonComplete, have)
	if n.Ready < desired {
		ready = condition(condReady, metav1.ConditionFalse, "MembersNotReady", have)
		progress = condition(condProgressing, metav1.ConditionTrue, reasonWarming, have)
	}
	if n.Replicas > desired || n.Leaving > 0 {
		progress = condition(condProgressing, metav1.ConditionTrue, reasonScaling, fmt.Sprintf("%d members are leaving", max(n.Replicas-desired, n.Leaving)))
	}
	if l.rolling(sight, n) {
		progress, after = l.rollout(sight, n)
	}
	if degraded.Status == metav1.ConditionTrue && n.Ready < desired {
		ready.Reason, ready.Message = degraded.Reason, degraded.Message
		progress = condition(condProgressing, metav1.ConditionFalse, degraded.Reason, degraded.Message)
	}
	if sight.unread != nil {
		progress = condition(condProgressing, metav1.ConditionUnknown, degraded.Reason, degraded.Message)
	}
	return []metav1.Condition{degraded, progress, ready}, after
}

// degraded says what keeps a pool from being what it should be, and what helps.
func (l pools) degraded(sight poolSight, n states.PoolCount) metav1.Condition {
	yes := func(reason, message string) metav1.Condition {
		return condition(condDegraded, metav1.ConditionTrue, reason, message)
	}
	name := sight.pool.Spec.TemplateRef.Name
	switch {
	case sight.fault != "":
		return yes("InvalidTemplate", sight.fault)
	case sight.facts.Template == states.Missing:
		return yes(reasonNoTemplate, fmt.Sprintf("SandboxTemplate %q not found; create it in namespace %s, or change spec.sandboxTemplateRef.name", name, sight.pool.Namespace))
	case sight.unread != nil:
		return yes(reasonUnread, fmt.Sprintf("SandboxTemplate %q cannot be read, and nothing is created meanwhile: %s; "+
			"it is tried again: if it stays, look at the API server, and at what the controller may get", name, apply.Words(sight.unread)))
	case l.memory.said(sight.pool.UID) != "":
		return yes("SandboxRefused", "the API server refuses to create sandboxes: "+l.memory.said(sight.pool.UID))
	case n.Refused > 0:
		return yes("PodRefused", fmt.Sprintf("%d pods cannot be created: %s", n.Refused, refusalIn(sight)))
	case sight.hold > 0:
		return yes("MembersEnd", "members end as fast as they are made, so the next are made ever more slowly; look at the pods' events and logs")
	case sight.roomless != "":
		return yes(reasonRoomless, "no node has room for some members: "+sight.roomless)
	}
	return condition(condDegraded, metav1.ConditionFalse, "AsExpected", "nothing is in the way")
}

// tellRoom reports an Event when a pool has come to want room, and another when
// it has got it.
func (l pools) tellRoom(ctx context.Context, pool *ext.SandboxWarmPool, now ext.SandboxWarmPoolStatus) {
	lacks := func(s ext.SandboxWarmPoolStatus) *metav1.Condition {
		if c := meta.FindStatusCondition(s.Conditions, condDegraded); c != nil && c.Reason == reasonRoomless {
			return c
		}
		return nil
	}
	switch had, has := lacks(pool.Status), lacks(now); {
	case has != nil && had == nil:
		l.note(ctx, pool, poolKind, apply.Note{
			Type: corev1.EventTypeWarning, Reason: "WarmPoolNotProgressing", Action: "Reconciling", Text: has.Message,
		})
	case had != nil && has == nil:
		l.note(ctx, pool, poolKind, apply.Note{
			Type: corev1.EventTypeNormal, Reason: "WarmPoolProgressing", Action: "Reconciling", Text: "Warm pool is progressing again",
		})
	}
}

// refusalIn is what the first refused member by name says.
func refusalIn(sight poolSight) string {
	var first *agents.Sandbox
	for _, s := range sight.members {
		if refused(s) && !retired(s) && (first == nil || s.Name < first.Name) {
			first = s
		}
	}
	if first == nil {
		return ""
	}
	return strings.TrimPrefix(meta.FindStatusCondition(first.Status.Conditions, condReady).Message, errorSeen)
}
