package watch

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

func TestEachLossBeyondTheFreeOnesDoublesTheWait(t *testing.T) {
	g := NewWithT(t)
	all, now := newTroubles(), noon.Time
	g.Expect(all.wait("u", 2, now)).To(BeZero(), "nothing was lost")
	var waits []time.Duration
	for range 14 {
		all.add("u", now)
		waits = append(waits, all.wait("u", 2, now))
	}
	g.Expect(waits[:6]).To(Equal([]time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}))
	g.Expect(waits[13]).To(Equal(vainMost))
	g.Expect(all.wait("u", 2, now.Add(time.Minute))).To(Equal(vainMost-time.Minute), "the wait runs out")
	g.Expect(all.wait("other", 0, now)).To(BeZero())
}

func TestAQuietTimeForgivesAllLosses(t *testing.T) {
	g := NewWithT(t)
	all, now := newTroubles(), noon.Time
	for range 9 {
		all.add("u", now)
	}
	later := now.Add(vainQuiet + time.Second)
	all.add("u", later)
	g.Expect(all.wait("u", 1, later)).To(BeZero())
	all.forget("u")
	g.Expect(all.seen).To(BeEmpty())
}

func TestAMemberIsStuckByTheTimeItHasBeenUnreadyAndNotByItsAge(t *testing.T) {
	const grace = 5 * time.Minute
	aged := func(ready metav1.ConditionStatus, since time.Duration) *agents.Sandbox {
		s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
		if ready != "" {
			c := condition(condReady, ready, "x", "")
			c.LastTransitionTime = metav1.NewTime(noon.Add(-since))
			s.Status.Conditions = []metav1.Condition{c}
		}
		return s
	}
	reason := func(why string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: why}
		}
	}
	for _, row := range []struct {
		name    string
		sandbox *agents.Sandbox
		pod     *corev1.Pod
		stuck   bool
		left    time.Duration
	}{
		{"one that is ready", aged(metav1.ConditionTrue, time.Hour), running(), false, 0},
		{"one that blinks", aged(metav1.ConditionFalse, time.Minute), running(unready), false, 4 * time.Minute},
		{"one that lost its readiness long ago", aged(metav1.ConditionFalse, grace), running(unready), true, 0},
		{"one that never had any", aged("", 0), running(unready), true, -55 * time.Minute},
		{"one that no node has room for", aged(metav1.ConditionFalse, time.Hour), running(unready, reason(corev1.PodReasonUnschedulable)), false, 0},
		{"one that waits at a gate", aged(metav1.ConditionFalse, time.Hour), running(unready, reason(corev1.PodReasonSchedulingGated)), false, 0},
		{"one that got room a minute ago", aged(metav1.ConditionFalse, time.Hour), running(unready, func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
		}), false, 4 * time.Minute},
		{"one whose pod failed", aged(metav1.ConditionFalse, 0), running(unready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), true, 0},
		{"one that a hand called bound", aged(metav1.ConditionTrue, 0), running(func(p *corev1.Pod) {
			p.Labels = map[string]string{"agents.x-k8s.io/state": "bound"}
		}), true, 0},
		{"one without a pod", aged(metav1.ConditionFalse, time.Hour), nil, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			l := pools{world: &world{opts: Options{Grace: grace}, now: func() time.Time { return noon.Time }}}
			stuck, left := l.stranded(row.sandbox, row.pod)
			g.Expect(stuck).To(Equal(row.stuck))
			g.Expect(left).To(Equal(row.left))
		})
	}
}
