package pool

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A wording is what a condition of a pool says for a reason.
type wording struct {
	reason  string
	message func(l Status, s Snapshot, r states.PoolReport) string
}

// problems words what keeps a pool from being what it should be, and what helps.
var problems = map[states.Reason]wording{
	states.ReasonTemplateInvalid: {"InvalidTemplate", func(_ Status, s Snapshot, _ states.PoolReport) string { return s.problem }},
	states.ReasonTemplateMissing: {"TemplateNotFound", func(_ Status, s Snapshot, _ states.PoolReport) string {
		return fmt.Sprintf("SandboxTemplate %q not found; create it in namespace %s, or change spec.sandboxTemplateRef.name",
			s.pool.Spec.TemplateRef.Name, s.pool.Namespace)
	}},
	states.ReasonTemplateUnreadable: {"TemplateUnreadable", func(_ Status, s Snapshot, _ states.PoolReport) string {
		return fmt.Sprintf("SandboxTemplate %q cannot be read, and nothing is created meanwhile: %s; "+
			"it is tried again: if it stays, look at the API server, and at what the controller may get",
			s.pool.Spec.TemplateRef.Name, apply.Message(s.unreadable))
	}},
	states.ReasonPolicyRefused: {view.ReasonPolicyRefused, func(_ Status, s Snapshot, _ states.PoolReport) string { return s.policyProblem }},
	states.ReasonMembersRefused: {"SandboxRefused", func(l Status, s Snapshot, _ states.PoolReport) string {
		return "the API server refuses to create sandboxes: " + l.Memory.refusal(s.pool.UID)
	}},
	states.ReasonPodsRefused: {"PodRefused", func(_ Status, s Snapshot, r states.PoolReport) string {
		return fmt.Sprintf("%d pods cannot be created: %s", r.Count.Refused, s.count.Refused)
	}},
	states.ReasonAdoptionRefused: {"AdoptionRefused", func(l Status, s Snapshot, _ states.PoolReport) string {
		one, _ := l.Refusals.Of(s.pool.UID)
		return fmt.Sprintf("the API server refuses to hand out Sandbox %q: %s; it is tried again ever more rarely, and claims get others: "+
			"mend what refuses, or delete the Sandbox", one.Member, one.Message)
	}},
	states.ReasonMembersEnd: {"MembersEnd", func(Status, Snapshot, states.PoolReport) string {
		return "members end as fast as they are made, so the next are made ever more slowly; look at the pods' events and logs"
	}},
	states.ReasonUnschedulable: {"Unschedulable", func(_ Status, s Snapshot, _ states.PoolReport) string {
		return "no node has room for some members: " + s.count.Unschedulable
	}},
	states.ReasonAsPlanned: {"AsExpected", func(Status, Snapshot, states.PoolReport) string { return "nothing is in the way" }},
}

// A phase is what the Progressing condition says in a phase of the rollout.
type phase struct {
	status metav1.ConditionStatus
	wording
}

// phases words how far a pool has come.
var phases = map[states.Phase]phase{
	states.PhaseComplete: {metav1.ConditionFalse, wording{"Complete", ready}},
	states.PhaseWarming:  {metav1.ConditionTrue, wording{"Warming", ready}},
	states.PhaseScalingDown: {metav1.ConditionTrue, wording{"ScalingDown", func(_ Status, s Snapshot, r states.PoolReport) string {
		return fmt.Sprintf("%d members are leaving", max(r.Count.Replicas-s.Facts.Replicas, r.Count.Terminating))
	}}},
	states.PhaseRollingOut: {metav1.ConditionTrue, wording{"RollingOut", updated}},
	states.PhasePaused: {metav1.ConditionUnknown, wording{"Paused", func(l Status, s Snapshot, r states.PoolReport) string {
		return updated(l, s, r) + "; spec.updateStrategy.rollingUpdate.paused holds the rollout"
	}}},
	states.PhaseDeadlineExceeded: {metav1.ConditionFalse, wording{"ProgressDeadlineExceeded", func(l Status, s Snapshot, r states.PoolReport) string {
		return fmt.Sprintf("%s, and no other has become ready for %s; the old members stay: mend the template", updated(l, s, r), view.Deadline(s.pool))
	}}},
}

func ready(_ Status, s Snapshot, r states.PoolReport) string {
	return fmt.Sprintf("%d of %d members are ready", r.Count.Ready, s.Facts.Replicas)
}

func updated(_ Status, s Snapshot, r states.PoolReport) string {
	far := fmt.Sprintf("%d of %d members are of the current revision, %d of them ready", r.Count.Updated, s.Facts.Replicas, r.Count.UpdatedReady)
	if r.Count.Terminating > 0 {
		far += fmt.Sprintf(", and %d are leaving", r.Count.Terminating)
	}
	return far
}

// members words whether as many members are ready as shall be.
var members = map[states.Reason]wording{
	states.ReasonMembersReady:   {"MembersReady", ready},
	states.ReasonMembersMissing: {"MembersNotReady", ready},
}

// conditions say in a person's words how a pool is.
func (l Status) conditions(s Snapshot, r states.PoolReport) []metav1.Condition {
	say := func(kind string, status metav1.ConditionStatus, w wording) metav1.Condition {
		return view.Condition(kind, status, w.reason, w.message(l, s, r))
	}
	truth := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}
	problem, at := problems[r.Degraded], phases[r.Progress.Phase]
	short := r.Count.Ready < s.Facts.Replicas
	words, known := members[r.Ready]
	if !known { // what is in the way keeps members from being ready
		words = problem
		at = phase{metav1.ConditionFalse, problem}
	}
	if r.Degraded == states.ReasonTemplateUnreadable {
		at = phase{metav1.ConditionUnknown, problem}
	}
	return []metav1.Condition{
		say(view.Degraded, truth[r.Degraded != states.ReasonAsPlanned], problem),
		say(view.Progressing, at.status, at.wording),
		say(view.Ready, truth[!short], words),
	}
}

// emit reports an Event when a pool has come to want room, and another when it has
// got it. A new leader says again what it finds.
func (l Status) emit(s Snapshot, had states.Reason, r states.PoolReport) {
	lacked, lacks := had == states.ReasonUnschedulable, r.Degraded == states.ReasonUnschedulable
	switch {
	case lacks && !lacked:
		l.Events.Emit(s.pool, apply.EventBody{
			Type: corev1.EventTypeWarning, Reason: "WarmPoolNotProgressing", Action: "Reconciling",
			Message: problems[r.Degraded].message(l, s, r),
		})
	case lacked && !lacks:
		l.Events.Emit(s.pool, apply.EventBody{
			Type: corev1.EventTypeNormal, Reason: "WarmPoolProgressing", Action: "Reconciling", Message: "Warm pool is progressing again",
		})
	}
}

// refusal is what a refused member says.
func refusal(b *agents.Sandbox) string {
	c := meta.FindStatusCondition(b.Status.Conditions, view.Ready)
	return strings.TrimPrefix(c.Message, view.ErrorSeen)
}
