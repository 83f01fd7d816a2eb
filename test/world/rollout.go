package world

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// Recreating has a pool retire all old members at once.
func Recreating(p *ext.SandboxWarmPool) *ext.SandboxWarmPool {
	p.Spec.UpdateStrategy.Type = ext.Recreate
	return p
}

// Rolling has a pool replace old members within a budget, as changed by with.
func Rolling(p *ext.SandboxWarmPool, unavailable, surge intstr.IntOrString, with ...func(*ext.RollingUpdate)) *ext.SandboxWarmPool {
	r := &ext.RollingUpdate{MaxUnavailable: &unavailable, MaxSurge: &surge}
	for _, change := range with {
		change(r)
	}
	p.Spec.UpdateStrategy = ext.UpdateStrategy{Type: ext.Rolling, RollingUpdate: r}
	return p
}

// Budget is how many members a pool may lack, and have too many. Recreated, all may
// be missing and be there twice; otherwise a share that may be missing is rounded down, one that may
// be too many is rounded up, and one of the two is at least 1.
func Budget(p *ext.SandboxWarmPool) (unavailable, surge int) {
	r, all := p.Spec.UpdateStrategy.RollingUpdate, int(*p.Spec.Replicas)
	switch p.Spec.UpdateStrategy.Type {
	case ext.Recreate:
		return all, all
	case ext.OnReplenish, "":
		return all, (all + 3) / 4
	case ext.Rolling:
	}
	unavailable, _ = intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, all, false)
	surge, _ = intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, all, true)
	if unavailable+surge == 0 {
		surge = 1
	}
	return unavailable, surge
}

// Fresh holds when every member of a pool is of a revision, and the pool says so.
func Fresh(pool, revision string) Condition {
	return func(s *Snapshot) error {
		for _, name := range s.Members(pool) {
			if got := s.Sandboxes[name].Labels[apply.LabelRevision]; got != revision {
				return fmt.Errorf("member %s is of revision %s, not %s", name, got, revision)
			}
		}
		p, ok := s.Pools[pool]
		if !ok || p.Status.CurrentRevision != revision || p.Status.UpdatedReplicas != p.Status.Replicas {
			return fmt.Errorf("pool %s does not say that all its members are of revision %s", pool, revision)
		}
		return nil
	}
}

// Follows holds when a pool has seen a revision.
func Follows(pool, revision string) Condition {
	return func(s *Snapshot) error {
		if p, ok := s.Pools[pool]; !ok || p.Status.CurrentRevision != revision {
			return fmt.Errorf("pool %s does not follow revision %s", pool, revision)
		}
		return nil
	}
}

// Progress holds when a pool's Progressing condition is so, and gives a reason.
func Progress(pool string, status metav1.ConditionStatus, reason string) Condition {
	return func(s *Snapshot) error {
		p, ok := s.Pools[pool]
		if !ok {
			return fmt.Errorf("there is no pool %s", pool)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, "Progressing"); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("pool %s is not Progressing=%s/%s: %v", pool, status, reason, c)
		}
		return nil
	}
}
