package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// claimAnnotationsConfig are the annotations on a claim that users of the API look
// for. Nothing of ours reads the sandbox's name there: the truth is the sandbox's
// owner.
//
// The times are those of the claim's status, or of the one that is written next. A claim
// that was served before its status had times keeps what it says of them, and nobody
// knows when it was ready.
func claimAnnotationsConfig(claim *ext.SandboxClaim, sandbox string, next ext.StartupStatus) *extac.SandboxClaimApplyConfiguration {
	is, said := claim.Status.Startup, claim.Annotations
	return extac.SandboxClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithAnnotations(map[string]string{
		AnnotationSandboxName:   sandbox,
		AnnotationFirstObserved: startupTime(is.ControllerObservedTime, said[AnnotationFirstObserved], next.ControllerObservedTime),
		AnnotationFirstReady:    startupTime(is.FirstReadyTime, said[AnnotationFirstReady], next.FirstReadyTime),
	})
}

// startupTime is a time of a claim's startup as an annotation says it: that of the
// status, or else what the annotation says already, or else that of the next status.
func startupTime(is *metav1.MicroTime, said string, next *metav1.MicroTime) string {
	switch {
	case is != nil:
		return is.UTC().Format(time.RFC3339Nano)
	case said != "":
		return said
	case next != nil:
		return next.UTC().Format(time.RFC3339Nano)
	}
	return unknownTime
}

// unknownTime is the time of a claim that was ready before anybody noted it.
const unknownTime = "unknown"

// ClaimMisannotated reports whether a claim's annotations are not those of a claim
// that holds a sandbox.
func ClaimMisannotated(claim *ext.SandboxClaim, sandbox string) bool {
	if claim.Annotations[AnnotationFirstObserved] == "" || claim.Annotations[AnnotationFirstReady] == "" {
		return true
	}
	return lacks(claim.Annotations, claimAnnotationsConfig(claim, sandbox, ext.StartupStatus{}).Annotations)
}

func claimStatusConfig(claim *ext.SandboxClaim, want ext.SandboxClaimStatus) *extac.SandboxClaimApplyConfiguration {
	status := extac.SandboxClaimStatus().WithState(want.State).WithConditions(conditions(want.Conditions)...).
		WithRefusedSandboxes(want.RefusedSandboxes...)
	if l := want.Lifecycle; l != nil {
		status.WithLifecycle(&extac.LifecycleApplyConfiguration{
			ShutdownTime: l.ShutdownTime, TTLSecondsAfterFinished: l.TTLSecondsAfterFinished, ShutdownPolicy: &l.ShutdownPolicy,
		})
	}
	if at := want.Startup; at != (ext.StartupStatus{}) {
		status.WithStartup(&extac.StartupStatusApplyConfiguration{
			ControllerObservedTime: at.ControllerObservedTime, FirstReadyTime: at.FirstReadyTime,
		})
	}
	if want.SandboxStatus.Name != "" {
		status.WithSandboxStatus(extac.SandboxStatus().WithName(want.SandboxStatus.Name).
			WithUID(want.SandboxStatus.UID).WithPodIPs(want.SandboxStatus.PodIPs...))
	}
	return extac.SandboxClaim(claim.Name, claim.Namespace).WithUID(claim.UID).
		WithResourceVersion(claim.ResourceVersion).WithStatus(status)
}

// A ClaimAnnotations is what a claim is annotated with.
type ClaimAnnotations struct {
	// Sandbox is the name of the sandbox that the claim holds.
	Sandbox string
	// Startup are the times of the status, as far as that does not say them yet.
	Startup ext.StartupStatus
	// Urgent: the claim is told when its annotations are written.
	Urgent bool
}

// AnnotateClaim writes on a claim which sandbox it gets, and when it was first observed
// and first ready.
func (a *Applier) AnnotateClaim(ctx context.Context, claim *ext.SandboxClaim, of ClaimAnnotations) (*ext.SandboxClaim, error) {
	w := write{urgency: urgency{class: classTrail}, manager: states.ClaimManager, kind: "claim", edge: "annotate", key: keyOf(claim), pool: claim.Spec.WarmPoolRef.Name}
	if of.Urgent {
		w.class = classHand
	}
	if !ClaimMisannotated(claim, of.Sandbox) {
		a.skip(w)
		return claim, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxClaim, error) {
		return c.Kiln.Claims(claim.Namespace).Apply(ctx, claimAnnotationsConfig(claim, of.Sandbox, of.Startup), w.options())
	})
}

// DeleteClaim deletes a claim whose lifetime is over: in the foreground, which is
// after what it owns, if its policy says so.
func (a *Applier) DeleteClaim(ctx context.Context, claim *ext.SandboxClaim, policy ext.ShutdownPolicy) error {
	w := write{urgency: urgency{class: classTrail}, manager: states.ClaimManager, kind: "claim", edge: "delete", key: keyOf(claim), pool: claim.Spec.WarmPoolRef.Name}
	uid, how := claim.UID, metav1.DeletePropagationBackground
	if policy == ext.ShutdownDeleteForeground {
		how = metav1.DeletePropagationForeground
	}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (struct{}, error) {
		return struct{}{}, c.Kiln.Claims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &how,
		})
	})
	return err
}

// MoveClaim writes the edge that a decision makes of a claim, as it was seen, with
// the status that goes with it.
func (a *Applier) MoveClaim(ctx context.Context, claim *ext.SandboxClaim, d states.Decision, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	move, err := judge(states.Claim, string(ClaimState(claim)), d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyOf(claim), err)
	}
	want.State = ext.State(move.edge.To)
	return a.claimStatus(ctx, claim, want, write{
		urgency: urgency{class: classTell}, manager: move.edge.By, kind: "claim", edge: string(move.edge.Event), key: keyOf(claim), move: move,
		pool: claim.Spec.WarmPoolRef.Name,
	})
}

// RefuseSandbox writes on a claim, as it was seen, that it will never be told of a
// sandbox.
func (a *Applier) RefuseSandbox(ctx context.Context, claim *ext.SandboxClaim, s *agents.Sandbox) (*ext.SandboxClaim, error) {
	return a.claimStatus(ctx, claim, refusal(claim, s), write{
		urgency: urgency{class: classTake}, manager: states.ClaimManager, kind: "claimstatus", edge: "refuse", key: keyOf(claim),
		pool: claim.Spec.WarmPoolRef.Name,
	})
}

func refusal(claim *ext.SandboxClaim, s *agents.Sandbox) ext.SandboxClaimStatus {
	want := claim.Status
	want.State = ext.State(ClaimState(claim))
	want.RefusedSandboxes = append(slices.Clone(want.RefusedSandboxes), s.UID)
	return want
}

// ReportClaim writes the status of a claim, as it was seen, whose state stays.
func (a *Applier) ReportClaim(ctx context.Context, claim *ext.SandboxClaim, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	want.State = ext.State(ClaimState(claim))
	w := write{urgency: urgency{class: classTake}, manager: states.ClaimManager, kind: "claimstatus", edge: "report", key: keyOf(claim), pool: claim.Spec.WarmPoolRef.Name}
	if sameStatus(claim.Status, want) {
		a.skip(w)
		return claim, nil
	}
	return a.claimStatus(ctx, claim, want, w)
}

func (a *Applier) claimStatus(ctx context.Context, claim *ext.SandboxClaim, want ext.SandboxClaimStatus, w write) (*ext.SandboxClaim, error) {
	w.seen = claim.ResourceVersion
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxClaim, error) {
		return c.Kiln.Claims(claim.Namespace).ApplyStatus(ctx, claimStatusConfig(claim, want), w.options())
	})
}
