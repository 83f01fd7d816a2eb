package pool

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// StatusDelay is how long a changed count waits before it is written. A claim takes
// a member and the refill replaces it within this time, and nothing has changed; a
// burst is reported in a few writes.
const StatusDelay = 250 * time.Millisecond

// Status is the loop of pools' statuses.
type Status struct{ *Pools }

// Observe reads what there is to know of a pool, and what was remembered of its rollout.
func (l Status) Observe(key view.Key, known learned) Snapshot {
	s := l.Pools.Observe(key, known)
	f := &s.StatusFacts
	*f = states.PoolStatusFacts{PoolFacts: s.Facts, Unschedulable: s.count.Unschedulable != "", Now: l.Now(), Reported: s.reported}
	if s.pool != nil {
		f.Revision, f.Deadline = s.blueprint.RevisionFor(s.pool), view.Deadline(s.pool)
		f.Progress = l.Memory.progress(s.pool)
		_, f.AdoptionRefused = l.Refusals.Of(s.pool.UID)
		f.Superseded = l.Memory.superseded(s.pool.UID, s.basis()) || l.Retirements.Superseded(s.pool.UID, s.basis())
	}
	return s
}

// Decide decides what a pool's status says.
func (l Status) Decide(s Snapshot) states.Decision { return states.StepPoolStatus(s.StatusFacts) }

// Do carries out the one effect of a decision.
func (l Status) Do(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	defer l.settle(s.pool)
	known := s.learned
	switch d.Act {
	case states.ReadTemplate:
		return l.readTemplate(ctx, s), nil
	case states.Report:
		return l.report(ctx, s, d)
	case states.Rest, states.Wait, states.Retry:
	case states.AskShelf, states.ReadPool, states.ReadSandbox, states.ReadClaim, states.ReadPod, states.ProveFresh, states.Move, states.Annotate,
		states.Adopt, states.Refuse, states.Create, states.Sync, states.Retire, states.Delete, states.Label: // not a status's
	}
	return known, nil
}

// report writes the status if it differs.
func (l Status) report(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known, r := s.learned, *d.About.Report
	want := l.status(s, r)
	got, err := l.Writer.ReportPool(ctx, s.pool, want, d)
	if err == nil {
		known.reported = true
		l.emit(s, l.Memory.reported(s.pool.UID, r), r)
	}
	return known, l.Stores.Pools.Settle(ctx, s.pool, got, err)
}

// status is the status of a pool for a report. A template that cannot be read
// leaves open what is current, so nothing new is said of it: neither which revision
// that is, nor that the spec was followed.
func (l Status) status(s Snapshot, r states.PoolReport) ext.SandboxWarmPoolStatus {
	n, had := r.Count, s.pool.Status
	want := ext.SandboxWarmPoolStatus{
		Replicas: int32(n.Replicas), ReadyReplicas: int32(n.Ready),
		UpdatedReplicas: int32(n.Updated), UpdatedReadyReplicas: int32(n.UpdatedReady),
		WarmingReplicas: int32(n.Warming), StaleReplicas: int32(n.Terminating),
		CurrentRevision:    s.blueprint.RevisionFor(s.pool),
		Selector:           apply.LabelPool + "=" + apply.Hash(s.pool.Name),
		ObservedGeneration: s.pool.Generation, Rollout: rollout(r.Progress),
	}
	if s.template != nil {
		want.ObservedTemplateGeneration = s.template.Generation
	}
	if s.unreadable != nil {
		want.CurrentRevision, want.ObservedGeneration = had.CurrentRevision, had.ObservedGeneration
		want.ObservedTemplateGeneration = had.ObservedTemplateGeneration
		want.UpdatedReplicas = min(had.UpdatedReplicas, want.Replicas)
		want.UpdatedReadyReplicas = min(had.UpdatedReadyReplicas, want.ReadyReplicas)
	}
	now := view.Second(l.Now())
	for _, c := range l.conditions(s, r) {
		c.ObservedGeneration = s.pool.Generation
		want.Conditions = append(want.Conditions, view.Since(had.Conditions, c, now))
	}
	return want
}

// rollout is what a status keeps of a rollout: what a new leader needs of it. The
// time matters to pools that are on their way.
func rollout(p states.Progress) ext.RolloutStatus {
	r := ext.RolloutStatus{Phase: string(p.Phase), CompletedRevision: p.Arrived}
	if p.Phase == states.PhaseRollingOut || p.Phase == states.PhaseDeadlineExceeded {
		at := metav1.NewTime(p.Since.Truncate(time.Second))
		r.LastProgressTime = &at
	}
	return r
}
