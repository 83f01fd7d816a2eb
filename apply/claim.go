package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// claimAnnotationsConfig are the annotations on a claim that users of the API look
// for. Nothing of ours reads the sandbox's name there: the truth is the sandbox's
// owner.
func claimAnnotationsConfig(claim *ext.SandboxClaim, sandbox string, firstObserved time.Time) *extac.SandboxClaimApplyConfiguration {
	at := claim.Annotations[AnnotationFirstObserved]
	if at == "" {
		at = firstObserved.UTC().Format(time.RFC3339Nano)
	}
	return extac.SandboxClaim(claim.Name, claim.Namespace).WithUID(claim.UID).
		WithAnnotations(map[string]string{AnnotationSandboxName: sandbox, AnnotationFirstObserved: at})
}

func claimStatusConfig(claim *ext.SandboxClaim, want ext.SandboxClaimStatus) *extac.SandboxClaimApplyConfiguration {
	status := extac.SandboxClaimStatus().WithState(want.State).WithConditions(conditions(want.Conditions)...).
		WithRefusedSandboxes(want.RefusedSandboxes...)
	if want.SandboxStatus.Name != "" {
		status.WithSandboxStatus(extac.SandboxStatus().WithName(want.SandboxStatus.Name).
			WithUID(want.SandboxStatus.UID).WithPodIPs(want.SandboxStatus.PodIPs...))
	}
	return extac.SandboxClaim(claim.Name, claim.Namespace).WithUID(claim.UID).
		WithResourceVersion(claim.ResourceVersion).WithStatus(status)
}

// AnnotateClaim writes on a claim which sandbox it gets and when it was first
// observed.
func (a *Applier) AnnotateClaim(ctx context.Context, claim *ext.SandboxClaim, sandbox string, firstObserved time.Time) (*ext.SandboxClaim, error) {
	w := write{class: classTrail, manager: states.ClaimManager, kind: "claim", edge: "annotate", key: keyOf(claim)}
	if claim.Annotations[AnnotationSandboxName] == sandbox && claim.Annotations[AnnotationFirstObserved] != "" {
		a.skip(w)
		return claim, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxClaim, error) {
		return c.Kiln.Claims(claim.Namespace).Apply(ctx, claimAnnotationsConfig(claim, sandbox, firstObserved), w.options())
	})
}

// MoveClaim writes the edge that a decision makes of a claim, as it was seen, with
// the status that goes with it.
func (a *Applier) MoveClaim(ctx context.Context, claim *ext.SandboxClaim, d states.Decision, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	move, err := judge(states.Claim, string(claim.Status.State), d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyOf(claim), err)
	}
	want.State = ext.State(move.edge.To)
	return a.claimStatus(ctx, claim, want, write{
		class: classTell, manager: move.edge.By, kind: "claim", edge: string(move.edge.Event), key: keyOf(claim), move: move,
	})
}

// RefuseSandbox writes on a claim, as it was seen, that it will never be told of a
// sandbox.
func (a *Applier) RefuseSandbox(ctx context.Context, claim *ext.SandboxClaim, s *agents.Sandbox) (*ext.SandboxClaim, error) {
	return a.claimStatus(ctx, claim, refusal(claim, s), write{
		class: classTake, manager: states.ClaimManager, kind: "claimstatus", edge: "refuse", key: keyOf(claim),
	})
}

func refusal(claim *ext.SandboxClaim, s *agents.Sandbox) ext.SandboxClaimStatus {
	want := claim.Status
	want.State = ext.State(states.Claim.Parse(string(want.State)))
	want.RefusedSandboxes = append(slices.Clone(want.RefusedSandboxes), s.UID)
	return want
}

// ReportClaim writes the status of a claim, as it was seen, whose state stays.
func (a *Applier) ReportClaim(ctx context.Context, claim *ext.SandboxClaim, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	want.State = ext.State(states.Claim.Parse(string(claim.Status.State)))
	w := write{class: classTake, manager: states.ClaimManager, kind: "claimstatus", edge: "report", key: keyOf(claim)}
	if SameStatus(claim.Status, want) {
		a.skip(w)
		return claim, nil
	}
	return a.claimStatus(ctx, claim, want, w)
}

func (a *Applier) claimStatus(ctx context.Context, claim *ext.SandboxClaim, want ext.SandboxClaimStatus, w write) (*ext.SandboxClaim, error) {
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxClaim, error) {
		return c.Kiln.Claims(claim.Namespace).ApplyStatus(ctx, claimStatusConfig(claim, want), w.options())
	})
}
