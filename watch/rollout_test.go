package watch

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// aPool is a pool whose status gives a reason for how it progresses, and says that
// 2 of its 4 members are of revision r.
func aPool(reason string) *ext.SandboxWarmPool {
	p := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	p.Status = ext.SandboxWarmPoolStatus{CurrentRevision: "r", Replicas: 4, UpdatedReplicas: 2, UpdatedReadyReplicas: 2}
	if reason != "" {
		p.Status.Conditions = []metav1.Condition{condition(condProgressing, metav1.ConditionFalse, reason, "")}
	}
	return p
}

func TestWhatTheStatusSaysOfARolloutCountsAfterARestart(t *testing.T) {
	for reason, told := range map[string]struct{ arrived, exceeded bool }{
		"":                   {},
		reasonComplete:       {arrived: true},
		reasonWarming:        {arrived: true},
		reasonScaling:        {arrived: true},
		"RollingOut":         {},
		"Paused":             {},
		reasonDeadline:       {exceeded: true},
		reasonUnread:         {},
		"Unschedulable":      {},
		"MembersEnd":         {},
		"InvalidTemplate":    {},
		"SandboxRefused":     {},
		"TemplateNotFound":   {},
		"a reason yet to be": {},
	} {
		t.Run(reason, func(t *testing.T) {
			g := NewWithT(t)
			pool := aPool(reason)
			still := func(ready int) bool {
				return newPoolMemory().still(pool, step{"r", ready}, noon.Time) > 24*time.Hour
			}
			g.Expect([]bool{still(2), still(3)}).To(Equal([]bool{told.exceeded, false}), "a step since then counts")
			g.Expect(newPoolMemory().arrived(pool, "r", false)).To(BeFalse(), "some members are old")
			pool.Status.UpdatedReplicas = 4
			g.Expect(newPoolMemory().arrived(pool, "r", false)).To(Equal(told.arrived))
			g.Expect(newPoolMemory().arrived(pool, "another", false)).To(BeFalse())
			g.Expect(newPoolMemory().still(pool, step{"another", 2}, noon.Time)).To(BeZero())
		})
	}
}

func TestARolloutThatTurnsBackHasYetToArrive(t *testing.T) {
	g := NewWithT(t)
	m, pool := newPoolMemory(), aPool(reasonComplete)
	g.Expect(m.arrived(pool, "r", true)).To(BeTrue())
	g.Expect(m.arrived(pool, "r", false)).To(BeTrue(), "claims may take what they like")
	g.Expect(m.arrived(pool, "bad", false)).To(BeFalse())
	g.Expect(m.arrived(pool, "r", false)).To(BeFalse())
	g.Expect(m.arrived(pool, "r", true)).To(BeTrue())
}
