package apply

import (
	"context"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func poolStatusConfig(pool *ext.SandboxWarmPool, want ext.SandboxWarmPoolStatus) *extac.SandboxWarmPoolApplyConfiguration {
	return extac.SandboxWarmPool(pool.Name, pool.Namespace).WithUID(pool.UID).
		WithStatus(extac.SandboxWarmPoolStatus().
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
			WithConditions(conditions(want.Conditions)...))
}

// ReportPool writes the whole status of a pool.
func (a *Applier) ReportPool(ctx context.Context, pool *ext.SandboxWarmPool, want ext.SandboxWarmPoolStatus) (*ext.SandboxWarmPool, error) {
	w := Write{Lane: BackgroundLane, Manager: states.Pooler, Kind: "poolstatus", Edge: "report", Key: keyOf(pool)}
	if SamePoolStatus(pool.Status, want) {
		a.skip(w)
		return pool, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c clients) (*ext.SandboxWarmPool, error) {
		return c.kiln.Pools(pool.Namespace).ApplyStatus(ctx, poolStatusConfig(pool, want), w.options())
	})
}
