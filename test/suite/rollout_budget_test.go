package suite

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// least is how many free members must be left.
func (j *rolloutJudge) least() int {
	least := int(*j.specs[0].Spec.Replicas)
	for _, p := range j.specs {
		unavailable, _ := j.budget(p)
		least = min(least, max(int(*p.Spec.Replicas)-unavailable, 0))
	}
	return least
}

// most is how many members there may be.
func (j *rolloutJudge) most() (most int) {
	for _, p := range j.specs {
		_, surge := j.budget(p)
		most = max(most, int(*p.Spec.Replicas)+surge)
	}
	return most
}

// budgetOf is a pool's budget in members. Recreated, all may be missing and be
// there twice; otherwise a share that may be missing is rounded down, one that may
// be too many is rounded up, and one of the two is at least 1.
func budgetOf(p *ext.SandboxWarmPool) (unavailable, surge int) {
	r, all := p.Spec.UpdateStrategy.RollingUpdate, int(*p.Spec.Replicas)
	switch p.Spec.UpdateStrategy.Type {
	case ext.Recreate:
		return all, all
	case ext.OnReplenish, "":
		return all, (all + 3) / 4
	}
	unavailable, _ = intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, all, false)
	surge, _ = intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, all, true)
	if unavailable+surge == 0 {
		surge = 1
	}
	return unavailable, surge
}

func TestARollingUpdateReplacesEveryMemberWithinItsBudget(t *testing.T) {
	for _, row := range []struct {
		size               int32
		unavailable, surge intstr.IntOrString
	}{
		{4, intstr.FromInt32(1), intstr.FromInt32(1)},
		{4, intstr.FromInt32(0), intstr.FromInt32(1)},
		{4, intstr.FromInt32(1), intstr.FromInt32(0)},
		{4, intstr.FromInt32(0), intstr.FromInt32(0)},
		{5, intstr.FromString("25%"), intstr.FromString("25%")},
		{3, intstr.FromString("100%"), intstr.FromString("100%")},
		{1, intstr.FromInt32(1), intstr.FromInt32(0)},
		{1, intstr.FromString("25%"), intstr.FromString("0%")},
	} {
		name := fmt.Sprintf("%d members, %s unavailable, %s surge", row.size, row.unavailable.String(), row.surge.String())
		t.Run(name, func(t *testing.T) {
			w, c := rollable(t, kit.Rolling(kit.Pool("p", row.size), row.unavailable, row.surge))
			now := w.Retemplate("t", "image:2")
			w.Await(kit.Fresh("p", now), kit.Right("p", int(row.size), "held"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
			if n := c.Wire.Count("sandbox", "retire"); n != int(row.size) {
				t.Errorf("%d members were retired, and there were %d", n, row.size)
			}
		})
	}
}
