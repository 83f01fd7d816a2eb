package claim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A wording is what a claim's Ready condition says for a reason, as the users of
// the API know it. A claim that has its sandbox says what the sandbox says.
type wording struct {
	reason  string
	message func(Snapshot) string
}

// waiting words the reasons for which a claim has no sandbox.
var waiting = map[states.Reason]wording{
	states.ReasonPoolMissing: {"WarmPoolNotFound", func(s Snapshot) string {
		return fmt.Sprintf("SandboxWarmPool %q not found", s.claim.Spec.WarmPoolRef.Name)
	}},
	states.ReasonTemplateMissing: {"TemplateNotFound", func(s Snapshot) string {
		return fmt.Sprintf("SandboxTemplate %q not found", s.pool.Spec.TemplateRef.Name)
	}},
	states.ReasonInLine: {"AdoptionPending", func(s Snapshot) string {
		return fmt.Sprintf("waiting for a warm sandbox of pool %q; one is starting", s.claim.Spec.WarmPoolRef.Name)
	}},
	states.ReasonSandboxLost: {"SandboxLost", func(s Snapshot) string {
		return fmt.Sprintf("Sandbox %q of this claim is gone, and what was in it is lost; create a new claim to get another", s.claim.Status.SandboxStatus.Name)
	}},
	states.ReasonInvalidMetadata: {"InvalidMetadata", problem},
	states.ReasonEnvRejected:     {"EnvVarsInjectionRejected", problem},
	states.ReasonVolumesRejected: {"VolumeClaimTemplatesError", problem},
	states.ReasonTemplateInvalid: {view.ReasonReconcilerError, errorSeen},
	states.ReasonNameTaken:       {view.ReasonReconcilerError, errorSeen},
	states.ReasonCreateRefused:   {view.ReasonReconcilerError, errorSeen},
}

func problem(s Snapshot) string   { return s.problem.Message }
func errorSeen(s Snapshot) string { return view.ErrorSeen + s.problem.Message }

// notReady is what a claim says whose sandbox has not said anything yet.
const notReady = "SandboxNotReady"

// status is the status of a claim for a reason.
func (l *Claims) status(s Snapshot, why states.Reason) ext.SandboxClaimStatus {
	want := ext.SandboxClaimStatus{State: s.claim.Status.State}
	ready := view.Condition(view.Ready, metav1.ConditionFalse, notReady, "Sandbox is not ready")
	if w, waits := waiting[why]; waits {
		ready.Reason, ready.Message = w.reason, w.message(s)
		if why != states.ReasonSandboxLost {
			want.RefusedSandboxes = s.claim.Status.RefusedSandboxes
		}
	} else if b := s.sandbox; b != nil {
		want.SandboxStatus = ext.SandboxStatus{Name: b.Name, UID: b.UID, PodIPs: b.Status.PodIPs}
		if done := meta.FindStatusCondition(b.Status.Conditions, view.Finished); done != nil {
			want.Conditions = append(want.Conditions, *done)
		}
		if c := meta.FindStatusCondition(b.Status.Conditions, view.Ready); c != nil {
			ready = *c
			ready.ObservedGeneration = s.claim.Generation
			want.Conditions = append(want.Conditions, ready)
			return want
		}
	}
	ready.ObservedGeneration = s.claim.Generation
	want.Conditions = append(want.Conditions, view.Since(s.claim.Status.Conditions, ready, view.Second(l.Now())))
	return want
}

// An occasion is the Event that goes with an effect, once it is written.
type occasion struct {
	kind, reason, action string
	message              func(Snapshot) string
}

// occasions are the Events about claims, by the reason of the decision.
var occasions = map[states.Reason]occasion{
	states.ReasonAdopted: {corev1.EventTypeNormal, "SandboxAdopted", "Adoption", func(s Snapshot) string {
		return fmt.Sprintf("Adopted warm pool Sandbox %q", s.sandbox.Name)
	}},
	states.ReasonNoneWarm: {corev1.EventTypeNormal, "SandboxProvisioned", "Provisioning", func(s Snapshot) string {
		return fmt.Sprintf("Created Sandbox %q", s.sandbox.Name)
	}},
	states.ReasonOutdated: {corev1.EventTypeNormal, "SandboxOutdated", "Adoption", func(s Snapshot) string {
		return fmt.Sprintf("Sandbox %q is of an older template than the claim may get; taking another", s.sandbox.Name)
	}},
	states.ReasonSandboxLost: {corev1.EventTypeWarning, "SandboxLost", "Losing", waiting[states.ReasonSandboxLost].message},
}

// emit reports the Event that goes with a reason, if one does.
func (l *Claims) emit(s Snapshot, why states.Reason) {
	if o, ok := occasions[why]; ok {
		l.Events.Emit(s.claim, apply.EventBody{Type: o.kind, Reason: o.reason, Action: o.action, Message: o.message(s)})
	}
}
