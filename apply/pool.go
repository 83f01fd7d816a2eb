package apply

import (
	"context"
	"fmt"

	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func poolStatusConfig(pool *ext.SandboxWarmPool, want ext.SandboxWarmPoolStatus) *extac.SandboxWarmPoolApplyConfiguration {
	status := extac.SandboxWarmPoolStatus().
		WithReplicas(want.Replicas).
		WithReadyReplicas(want.ReadyReplicas).
		WithUpdatedReplicas(want.UpdatedReplicas).
		WithUpdatedReadyReplicas(want.UpdatedReadyReplicas).
		WithWarmingReplicas(want.WarmingReplicas).
		WithStaleReplicas(want.StaleReplicas).
		WithCurrentRevision(want.CurrentRevision).
		WithSelector(want.Selector).
		WithObservedGeneration(want.ObservedGeneration).
		WithObservedTemplateGeneration(want.ObservedTemplateGeneration).
		WithConditions(conditions(want.Conditions)...)
	if want.Rollout != (ext.RolloutStatus{}) {
		status.WithRollout(rolloutConfig(want.Rollout))
	}
	return extac.SandboxWarmPool(pool.Name, pool.Namespace).WithUID(pool.UID).WithStatus(status)
}

// rolloutConfig leaves out what is not known: an empty phase is none.
func rolloutConfig(want ext.RolloutStatus) *extac.RolloutStatusApplyConfiguration {
	c := extac.RolloutStatus()
	if want.Phase != "" {
		c.WithPhase(want.Phase)
	}
	if want.CompletedRevision != "" {
		c.WithCompletedRevision(want.CompletedRevision)
	}
	if want.LastProgressTime != nil {
		c.WithLastProgressTime(*want.LastProgressTime)
	}
	return c
}

// ReportPool writes the whole status of a pool, as a decision asks for. Another
// phase of the rollout is a move of its chart.
func (a *Applier) ReportPool(ctx context.Context, pool *ext.SandboxWarmPool, want ext.SandboxWarmPoolStatus, d states.Decision) (*ext.SandboxWarmPool, error) {
	w := write{urgency: urgency{class: classTrail}, manager: states.PoolManager, kind: "poolstatus", edge: "report", key: keyOf(pool), pool: pool.Name}
	if sameStatus(pool.Status, want) {
		a.skip(w)
		return pool, nil
	}
	var err error
	if w.move, err = phaseMove(pool.Status.Rollout.Phase, want.Rollout.Phase, d.Reason); err != nil {
		return nil, fmt.Errorf("pool %s: report: %w", w.key, err)
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxWarmPool, error) {
		return c.Kiln.Pools(pool.Namespace).ApplyStatus(ctx, poolStatusConfig(pool, want), w.options())
	})
}

// phaseMove is the move that leads from one phase of a rollout to another, or nil
// when the phase stays. Each phase has one event that leads to it.
func phaseMove(from, to string, why states.Reason) (*transition, error) {
	was, is := states.Rollout.Parse(from), states.State(to)
	if to == "" {
		is = states.Rollout.Initial
	}
	if was == is {
		return nil, nil
	}
	edge, ok := states.Rollout.Between(was, is)
	if !ok {
		return nil, fmt.Errorf("%s: no move from %q to %q", states.Rollout.Kind, was, is)
	}
	return judge(states.Rollout, from, states.Decision{About: states.About{Event: edge.Event}, Reason: why})
}
