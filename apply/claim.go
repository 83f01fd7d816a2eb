package apply

import (
	"context"
	"slices"
	"time"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// recordConfig are the annotations on a claim that users of the API look for.
// Nothing of ours reads the sandbox's name there: the truth is the sandbox's
// owner.
func recordConfig(claim *ext.SandboxClaim, sandbox string, seen time.Time) *extac.SandboxClaimApplyConfiguration {
	at := claim.Annotations[NoteSeen]
	if at == "" {
		at = seen.UTC().Format(time.RFC3339Nano)
	}
	return extac.SandboxClaim(claim.Name, claim.Namespace).WithUID(claim.UID).
		WithAnnotations(map[string]string{NoteSandbox: sandbox, NoteSeen: at})
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

// RecordClaim notes on a claim which sandbox it gets and when it was first seen.
func (a *Applier) RecordClaim(ctx context.Context, claim *ext.SandboxClaim, sandbox string, seen time.Time) (*ext.SandboxClaim, error) {
	w := Write{Lane: ClaimLane, Manager: states.Claimant, Kind: "claim", Edge: "record", Key: keyOf(claim)}
	if claim.Annotations[NoteSandbox] == sandbox && claim.Annotations[NoteSeen] != "" {
		a.skip(w)
		return claim, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c clients) (*ext.SandboxClaim, error) {
		return c.kiln.Claims(claim.Namespace).Apply(ctx, recordConfig(claim, sandbox, seen), w.options())
	})
}

// MoveClaim writes an edge of a claim, as it was seen, with the status that goes
// with it.
func (a *Applier) MoveClaim(ctx context.Context, claim *ext.SandboxClaim, event states.Event, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	edge, err := states.Claim.Judge(states.Claim.Parse(string(claim.Status.State)), event)
	if err != nil {
		return nil, err
	}
	want.State = ext.State(edge.To)
	return a.claimStatus(ctx, claim, want, Write{
		Lane: ClaimLane, Manager: edge.By, Kind: "claim", Edge: string(event), Key: keyOf(claim),
		From: edge.From, To: edge.To,
	})
}

// RefuseSandbox writes on a claim, as it was seen, that it will never be told of a
// sandbox.
func (a *Applier) RefuseSandbox(ctx context.Context, claim *ext.SandboxClaim, s *agents.Sandbox) (*ext.SandboxClaim, error) {
	return a.claimStatus(ctx, claim, refusal(claim, s), Write{
		Lane: ClaimLane, Manager: states.Claimant, Kind: "claimstatus", Edge: "refuse", Key: keyOf(claim),
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
	w := Write{Lane: ClaimLane, Manager: states.Claimant, Kind: "claimstatus", Edge: "report", Key: keyOf(claim)}
	if SameClaimStatus(claim.Status, want) {
		a.skip(w)
		return claim, nil
	}
	return a.claimStatus(ctx, claim, want, w)
}

func (a *Applier) claimStatus(ctx context.Context, claim *ext.SandboxClaim, want ext.SandboxClaimStatus, w Write) (*ext.SandboxClaim, error) {
	return send(ctx, a, w, func(ctx context.Context, c clients) (*ext.SandboxClaim, error) {
		return c.kiln.Claims(claim.Namespace).ApplyStatus(ctx, claimStatusConfig(claim, want), w.options())
	})
}
