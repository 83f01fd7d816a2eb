package watch

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// going counts what is left of a pool's former members. Their sandboxes are no
// more, and their pods still terminate, or are just being made.
func (l pools) going(pool *ext.SandboxWarmPool) (n int) {
	for _, s := range l.births.of(pool.UID) { // first: what ends here is a pod already
		if !l.exists(keyOf(s), s.UID) {
			n++
		}
	}
	for _, pod := range l.stores.pods.by(byBirth, uidOf(pool)) {
		if l.outlives(pod) {
			n++
		}
	}
	return n
}

// bornFor is the UID of the pool whose member a pod was to the end, or nothing.
// What a claim has had is no pool's, though it was born there.
func bornFor(pod *corev1.Pod) string {
	switch word(pod) {
	case states.Warming, states.Ready, states.Stale:
		if pod.Labels[apply.LabelClaim] == "" {
			return pod.Annotations[apply.NotePool]
		}
	case states.Binding, states.Bound: // a claim's
	}
	return ""
}

// outlives reports whether the sandbox of a pod is no more.
func (w *world) outlives(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return isSandbox(owner) && !w.exists(ownerKey(pod, owner), owner.UID)
}

// exists reports whether a sandbox is known, and not another of its name.
func (w *world) exists(key Key, uid types.UID) bool {
	s, ok := w.stores.sandboxes.get(key)
	return ok && s.UID == uid
}

// births are the sandboxes whose pods are being made this moment. Should such a
// sandbox end before the answer has come, its pod is born all the same.
type births struct {
	mu    sync.Mutex
	under map[types.UID]*agents.Sandbox
}

func newBirths() *births { return &births{under: map[types.UID]*agents.Sandbox{}} }

func (b *births) begin(s *agents.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.under[s.UID] = s
}

func (b *births) end(s *agents.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.under, s.UID)
}

// of lists those of a pool.
func (b *births) of(pool types.UID) (all []*agents.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.under {
		if controls(pool, s) {
			all = append(all, s)
		}
	}
	return all
}
