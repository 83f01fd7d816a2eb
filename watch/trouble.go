package watch

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// The back-off of what is made in vain: pods that fail at once, or that somebody
// deletes as fast as they are made. Each loss beyond the free ones doubles the
// wait, and a quiet time forgives them all.
const (
	vainFirst = time.Second
	vainMost  = 5 * time.Minute
	vainQuiet = 10 * time.Minute
)

// troubles count what was lost of each object, by its UID.
type troubles struct {
	mu   sync.Mutex
	seen map[types.UID]trouble
}

type trouble struct {
	count int
	last  time.Time
}

func newTroubles() *troubles { return &troubles{seen: map[types.UID]trouble{}} }

// add notes a loss.
func (t *troubles) add(uid types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.seen[uid]
	if now.Sub(had.last) > vainQuiet {
		had = trouble{}
	}
	t.seen[uid] = trouble{had.count + 1, now}
}

// wait returns how long to wait before making another, when so many losses are
// free.
func (t *troubles) wait(uid types.UID, free int, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.seen[uid]
	if had.count <= free {
		return 0
	}
	hold := vainMost
	if over := had.count - free - 1; over < 10 {
		hold = min(vainFirst<<over, vainMost)
	}
	return hold - now.Sub(had.last)
}

func (t *troubles) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, uid)
}

// stranded reports whether a member has been unready for longer than it may, and
// if not yet, when that will be so. Its pod may wait for room or for a gate as
// long as it takes: another one would wait no less.
func (l pools) stranded(s *agents.Sandbox, pod *corev1.Pod) (stuck bool, left time.Duration) {
	if _, over := finished(pod); over || pod != nil && misworded(pod) {
		return true, 0
	}
	if pod == nil || podReady(pod) || waitsForRoom(pod) {
		return false, 0
	}
	since := unreadySince(s)
	if room := podCondition(pod, corev1.PodScheduled).LastTransitionTime; room.After(since) {
		since = room.Time // while it waited for room nothing could start
	}
	left = l.opts.Grace - l.now().Sub(since)
	return left <= 0, left
}

// misworded reports whether a member's pod carries a word that no member comes to:
// a hand wrote it.
func misworded(pod *corev1.Pod) bool {
	w := word(pod)
	return w == states.Binding || w == states.Bound || w == states.Stale
}

// waitsForRoom reports whether a pod is not scheduled, and why does not matter:
// no node has room, or a gate is not lifted.
func waitsForRoom(pod *corev1.Pod) bool {
	return podCondition(pod, corev1.PodScheduled).Status == corev1.ConditionFalse
}

// unschedulable is what the scheduler says of a pod that no node has room for.
func unschedulable(pod *corev1.Pod) string {
	c := podCondition(pod, corev1.PodScheduled)
	if c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return c.Message
	}
	return ""
}

// unreadySince is when a sandbox lost its readiness, or its birth if it never
// had any.
func unreadySince(s *agents.Sandbox) time.Time {
	c := meta.FindStatusCondition(s.Status.Conditions, condReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return s.CreationTimestamp.Time
	}
	return c.LastTransitionTime.Time
}
