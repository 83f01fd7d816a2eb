package sandbox

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Events about sandboxes tell what is new in a status, once it is written. A free
// member of a pool reports failures alone: two Events for each would be a fifth of
// all writes, and nobody looks at one.

// reconciling is what Kiln does whenever it reports an Event about a sandbox.
const reconciling = "Reconciling"

// warnings are the readinesses that are failures, and news the others that are told
// of.
var (
	warnings = map[states.Reason]bool{
		states.ReasonPodMultiple: true, states.ReasonPodFailed: true, states.ReasonPodProblem: true, states.ReasonInvalid: true,
	}
	news = map[states.Reason]bool{
		states.ReasonPodReady: true, states.ReasonSuspended: true, states.ReasonExpired: true, states.ReasonPodSucceeded: true,
	}
)

// tell reports the Event that goes with a new status, if it says something new.
func (l *Sandboxes) tell(s Snapshot, why states.Reason, now agents.SandboxStatus) {
	was, is := meta.FindStatusCondition(s.sandbox.Status.Conditions, view.Ready), meta.FindStatusCondition(now.Conditions, view.Ready)
	same := was != nil && was.Reason == is.Reason && (was.Message == is.Message || why != states.ReasonSuspended)
	body := apply.EventBody{Type: corev1.EventTypeNormal, Reason: is.Reason, Action: reconciling, Message: is.Message}
	switch {
	case same, !warnings[why] && !news[why]:
		return
	case why == states.ReasonPodProblem || why == states.ReasonInvalid:
		if s.refusal.part != states.PartPod || s.pods.is != states.PodNone {
			return
		}
		body.Reason, body.Message = "SandboxPodCreateFailed", s.refusal.words
	case why == states.ReasonPodReady:
		body.Reason = "SandboxReady"
	case why == states.ReasonExpired && s.Facts.Ephemeral:
		return
	}
	if warnings[why] {
		body.Type = corev1.EventTypeWarning
	} else if s.Facts.Holder == states.HolderPool {
		return
	}
	l.Events.Emit(s.sandbox, body)
}

// tellUnwritten says in an Event what is wrong with a sandbox whose status cannot be
// written. Of one that was stored under a slimmer schema the server may not even read
// enough for that.
func (l *Sandboxes) tellUnwritten(s Snapshot) {
	if words := s.problem.Message; words != "" && l.News.Tell(s.sandbox.UID, words) {
		l.Events.Emit(s.sandbox, apply.EventBody{Type: corev1.EventTypeWarning, Reason: view.ReasonInvalid, Action: reconciling, Message: words})
		l.settle(s.sandbox)
	}
}

// tellCreated reports that a sandbox has got its pod.
func (l *Sandboxes) tellCreated(s Snapshot) {
	if s.Facts.Holder != states.HolderPool {
		l.Events.Emit(s.sandbox, apply.EventBody{
			Type: corev1.EventTypeNormal, Reason: "SandboxPodCreated", Action: reconciling,
			Message: fmt.Sprintf("Created Pod %q", s.sandbox.Name),
		})
	}
}
