package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// keeps: a claim that has a sandbox has it all the same.
	keeps bool
}

// claimExpired is what a claim says whose lifetime is over.
const claimExpired = "ClaimExpired"

// waiting words the reasons for which a claim has no sandbox, or is not Ready
// whatever its sandbox says.
var waiting = map[states.Reason]wording{
	states.ReasonPoolMissing: {reason: "WarmPoolNotFound", message: func(s Snapshot) string {
		return fmt.Sprintf("SandboxWarmPool %q not found", s.claim.Spec.WarmPoolRef.Name)
	}},
	states.ReasonTemplateMissing: {reason: "TemplateNotFound", message: func(s Snapshot) string {
		return fmt.Sprintf("SandboxTemplate %q not found", s.pool.Spec.TemplateRef.Name)
	}},
	states.ReasonInLine: {reason: "AdoptionPending", message: func(s Snapshot) string {
		return fmt.Sprintf("waiting for a warm sandbox of pool %q; one is starting", s.claim.Spec.WarmPoolRef.Name)
	}},
	states.ReasonSandboxLost: {reason: "SandboxLost", message: func(s Snapshot) string {
		return fmt.Sprintf("Sandbox %q of this claim is gone, and what was in it is lost; create a new claim to get another", s.claim.Status.SandboxStatus.Name)
	}},
	states.ReasonExpired: {reason: claimExpired, message: expired},
	states.ReasonEnded:   {reason: claimExpired, message: expired},
	states.ReasonExpiredForeign: {reason: claimExpired, message: func(s Snapshot) string {
		return fmt.Sprintf("Claim expired. sandbox not owned by this claim: %s; deletion skipped.", s.stranger)
	}},
	states.ReasonInvalidMetadata: {reason: "InvalidMetadata", message: problem, keeps: true},
	states.ReasonEnvRejected:     {reason: "EnvVarsInjectionRejected", message: problem},
	states.ReasonEnvInvalid:      {reason: view.ReasonReconcilerError, message: errorSeen},
	states.ReasonVolumesRejected: {reason: "VolumeClaimTemplatesError", message: problem},
	states.ReasonTemplateInvalid: {reason: view.ReasonReconcilerError, message: errorSeen},
	states.ReasonNameTaken:       {reason: view.ReasonReconcilerError, message: errorSeen},
	states.ReasonCreateRefused:   {reason: view.ReasonReconcilerError, message: errorSeen, keeps: true},
	states.ReasonHandoverRefused: {reason: view.ReasonReconcilerError, message: errorSeen},
}

func expired(Snapshot) string { return "Claim expired. Sandbox cleanup initiated." }

func problem(s Snapshot) string   { return s.problem.Message }
func errorSeen(s Snapshot) string { return view.ErrorSeen + s.problem.Message }

// notReady is what a claim says whose sandbox has not said anything yet.
const notReady = "SandboxNotReady"

// status is the status of a claim for a reason. Its conditions are in the order of
// their types.
func (l *Claims) status(s Snapshot, why states.Reason) ext.SandboxClaimStatus {
	c, b := s.claim, s.sandbox
	want := ext.SandboxClaimStatus{State: c.Status.State, Lifecycle: inherited(s)}
	w, waits := waiting[why]
	if waits && states.RemedyOf(why) != states.RemedyNewClaim {
		want.RefusedSandboxes = c.Status.RefusedSandboxes
	}
	if b != nil && (!waits || w.keeps) {
		want.SandboxStatus = ext.SandboxStatus{Name: b.Name, UID: b.UID, PodIPs: b.Status.PodIPs}
	}
	if done := finished(s, why); done != nil {
		want.Conditions = append(want.Conditions, *done)
	}
	ready := l.ready(s, why)
	want.Conditions = append(want.Conditions, ready)
	slices.SortFunc(want.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	want.Startup = l.startup(s, ready.Status == metav1.ConditionTrue)
	return want
}

// ready is the Ready condition of a claim for a reason.
func (l *Claims) ready(s Snapshot, why states.Reason) metav1.Condition {
	c := s.claim
	ready := view.Condition(view.Ready, metav1.ConditionFalse, notReady, "Sandbox is not ready")
	if w, waits := waiting[why]; waits {
		ready.Reason, ready.Message = w.reason, w.message(s)
	} else if s.sandbox != nil {
		if is := meta.FindStatusCondition(s.sandbox.Status.Conditions, view.Ready); is != nil {
			ready = *is
			ready.ObservedGeneration = c.Generation
			if is.Reason == view.ReasonExpired {
				ready.Message = "Underlying Sandbox resource has expired independently of the Claim."
			}
			return ready
		}
	}
	ready.ObservedGeneration = c.Generation
	return view.Since(c.Status.Conditions, ready, view.Second(l.Now()))
}

// finished is how a claim's work has ended, if it has: what its sandbox says, or,
// when the sandbox goes with the claim's lifetime, what that has said last.
func finished(s Snapshot, why states.Reason) *metav1.Condition {
	if s.sandbox != nil {
		return meta.FindStatusCondition(s.sandbox.Status.Conditions, view.Finished)
	}
	if waiting[why].reason == claimExpired {
		return meta.FindStatusCondition(s.claim.Status.Conditions, view.Finished)
	}
	return nil
}

// startup is when a claim was first seen, and first told that it is Ready. A claim
// that had been served before anybody noted that keeps its silence.
func (l *Claims) startup(s Snapshot, ready bool) ext.StartupStatus {
	c := s.claim
	at, now := c.Status.Startup, metav1.NewMicroTime(l.Now().Truncate(time.Microsecond))
	if first := s.learned.startup.FirstReadyTime; first != nil {
		now = *first
	}
	if served := meta.IsStatusConditionTrue(c.Status.Conditions, view.Ready); served && at.ControllerObservedTime == nil {
		return at
	}
	if at.ControllerObservedTime == nil {
		seen := metav1.NewMicroTime(l.Metrics.FirstObserved(c, l.Now()).Truncate(time.Microsecond))
		at.ControllerObservedTime = &seen
	}
	if at.FirstReadyTime == nil && ready {
		at.FirstReadyTime = &now
	}
	return at
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
	states.ReasonExpired:        {corev1.EventTypeNormal, claimExpired, "Claim Expired", func(Snapshot) string { return "Claim expired" }},
	states.ReasonExpiredForeign: {corev1.EventTypeNormal, claimExpired, "Claim Expired", func(Snapshot) string { return "Claim expired" }},
	states.ReasonExpiredGoes: {corev1.EventTypeNormal, claimExpired, "Deleting", func(s Snapshot) string {
		return fmt.Sprintf("Deleting Claim (ShutdownPolicy=%s)", lifecycle(s.claim).ShutdownPolicy)
	}},
	states.ReasonSandboxLost: {corev1.EventTypeWarning, "SandboxLost", "Losing", waiting[states.ReasonSandboxLost].message},
}

// emit reports the Event that goes with a reason, if one does.
func (l *Claims) emit(s Snapshot, why states.Reason) {
	if o, ok := occasions[why]; ok {
		l.Events.Emit(s.claim, apply.EventBody{Type: o.kind, Reason: o.reason, Action: o.action, Message: o.message(s)})
	}
}

// withoutEffect is the Event of an edit that changes nothing any more.
func withoutEffect(c *ext.SandboxClaim, fields []string) apply.EventBody {
	why := "the claim got its sandbox, which stays as it is"
	if c.Status.State == ext.StateStale {
		why = "the claim ended, and it holds nothing any more"
	}
	return apply.EventBody{
		Type: corev1.EventTypeWarning, Reason: "ChangeWithoutEffect", Action: "Editing",
		Message: strings.Join(fields, ", ") + ": changed after " + why + "; create a new claim to have it otherwise",
	}
}
