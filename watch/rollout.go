package watch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// The defaults of a rolling update, for pools that do not say.
var quarter = intstr.FromString("25%")

const progressDeadline = 600 * time.Second

// strategyOf reads a pool's update strategy. Where all may be replaced at once
// they need their room a second time, until they are gone. Where nothing is
// replaced, members that end make room for a few: a node whose pods never finish
// terminating does not stop the pool, and a runaway stays small.
func strategyOf(p *ext.SandboxWarmPool) (states.Strategy, states.Budget) {
	switch p.Spec.UpdateStrategy.Type {
	case ext.Recreate:
		return states.Recreate, states.Budget{Surge: replicas(p)}
	case ext.Rolling:
		return states.Rolling, budgetOf(p)
	case ext.OnReplenish:
	}
	return states.OnReplenish, states.Budget{Surge: share(nil, replicas(p), true)}
}

// budgetOf works out a pool's budget in members. A share that may be missing is
// rounded down and one that may be too many is rounded up; if both come to
// nothing one too many is allowed, or nothing would ever move.
func budgetOf(p *ext.SandboxWarmPool) states.Budget {
	r := p.Spec.UpdateStrategy.RollingUpdate
	if r == nil {
		r = &ext.RollingUpdate{}
	}
	b := states.Budget{
		Unavailable: share(r.MaxUnavailable, replicas(p), false),
		Surge:       share(r.MaxSurge, replicas(p), true),
		Paused:      r.Paused,
	}
	if b.Unavailable == 0 && b.Surge == 0 {
		b.Surge = 1
	}
	return b
}

// share is a number of members, or a part of all. The API server lets nothing
// pass that is neither; should it, the default counts.
func share(of *intstr.IntOrString, all int, up bool) int {
	if of == nil {
		of = &quarter
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(of, all, up)
	if err != nil {
		n, _ = intstr.GetScaledValueFromIntOrPercent(&quarter, all, up)
	}
	return n
}

// deadlineOf is how long a rollout may go without a step.
func deadlineOf(p *ext.SandboxWarmPool) time.Duration {
	r := p.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.ProgressDeadlineSeconds == nil {
		return progressDeadline
	}
	return time.Duration(*r.ProgressDeadlineSeconds) * time.Second
}

// rolling reports whether a pool is on its way to the current revision. It is
// there once as many members of it have been ready as it shall have; from then on
// claims may take as many as they like.
func (l pools) rolling(sight poolSight, n states.PoolCount) bool {
	if sight.facts.Strategy == states.OnReplenish || sight.facts.Template != states.Present {
		return false
	}
	there := n.UpdatedReady >= sight.facts.Replicas && n.Updated == n.Replicas
	return !l.memory.arrived(sight.pool, sight.blueprint.For(sight.pool), there)
}

// rollout is the Progressing condition of a pool that is replacing old members,
// and when to look again.
func (l pools) rollout(sight poolSight, n states.PoolCount) (metav1.Condition, time.Duration) {
	far := fmt.Sprintf("%d of %d members are of the current revision, %d of them ready", n.Updated, sight.facts.Replicas, n.UpdatedReady)
	if n.Leaving > 0 {
		far += fmt.Sprintf(", and %d are leaving", n.Leaving)
	}
	if sight.facts.Strategy == states.Rolling && sight.facts.Budget.Paused {
		return condition(condProgressing, metav1.ConditionUnknown, "Paused", far+"; spec.updateStrategy.rollingUpdate.paused holds the rollout"), 0
	}
	deadline := deadlineOf(sight.pool)
	left := deadline - l.memory.still(sight.pool, step{sight.blueprint.For(sight.pool), n.UpdatedReady}, l.now())
	if left <= 0 {
		return condition(condProgressing, metav1.ConditionFalse, reasonDeadline,
			fmt.Sprintf("%s, and no other has become ready for %s; the old members stay: mend the template", far, deadline)), 0
	}
	return condition(condProgressing, metav1.ConditionTrue, "RollingOut", far), left
}

// arrived reports whether a pool has once been all of a revision, and notes that
// it is.
func (m *poolMemory) arrived(pool *ext.SandboxWarmPool, revision string, now bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	had, known := m.there[pool.UID]
	if !known {
		had = toldThere(pool.Status)
	}
	switch {
	case now:
		had = revision
	case had != revision:
		had = "" // it has left, and would have to arrive once more
	}
	m.there[pool.UID] = had
	return had == revision
}

// toldThere is the revision that a pool had arrived at, as its status says it. What
// is in a pool's way is a reason too, and tells nothing.
func toldThere(s ext.SandboxWarmPoolStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, condProgressing); c != nil && s.UpdatedReplicas == s.Replicas {
		switch c.Reason {
		case reasonComplete, reasonWarming, reasonScaling:
			return s.CurrentRevision
		}
	}
	return ""
}

// A step is how far a rollout has come.
type step struct {
	revision string
	ready    int
}

// since when a rollout has been at a step.
type pace struct {
	step
	at time.Time
}

// still returns how long a pool's rollout has been at a step.
func (m *poolMemory) still(pool *ext.SandboxWarmPool, s step, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	had, known := m.paces[pool.UID]
	if !known {
		had = toldPace(pool.Status)
	}
	if had.step != s {
		had = pace{s, now}
	}
	m.paces[pool.UID] = had
	return now.Sub(had.at)
}

// toldPace is the step at which a rollout has been for too long, as the pool's
// status says it: for longer than any deadline.
func toldPace(s ext.SandboxWarmPoolStatus) pace {
	c := meta.FindStatusCondition(s.Conditions, condProgressing)
	if c == nil || c.Reason != reasonDeadline {
		return pace{}
	}
	return pace{step: step{s.CurrentRevision, int(s.UpdatedReadyReplicas)}}
}
