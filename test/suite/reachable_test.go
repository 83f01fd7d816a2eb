package suite

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A router finds pods as the sandbox router does: by the hash of the sandbox's name, and
// none that carries the pool's label. A watch of its own feeds it.
type router struct {
	mu   sync.Mutex
	pods map[string]*corev1.Pod
	// version is how far its watch has come, and news is closed when that goes on.
	version uint64
	news    chan struct{}
	// unclaimed are pool members that it has served while nobody had claimed them.
	unclaimed []string
}

// routing starts a router for a world.
func routing(t *testing.T, w *kit.World) *router {
	t.Helper()
	r := &router{pods: map[string]*corev1.Pod{}, news: make(chan struct{})}
	watching(t, w.Pods().Watch, func(pod *corev1.Pod, deleted bool) { r.see(pod, deleted) })
	return r
}

// watching passes on what a watch shows until the test ends.
func watching[T runtime.Object](t *testing.T, watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error), see func(o T, deleted bool)) {
	t.Helper()
	events, err := watch(t.Context(), metav1.ListOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(events.Stop)
	go func() {
		for e := range events.ResultChan() {
			if o, ok := e.Object.(T); ok {
				see(o, e.Type == apiwatch.Deleted)
			}
		}
	}()
}

func (r *router) see(pod *corev1.Pod, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash := pod.Labels[apply.LabelNameHash]
	switch _, pooled := pod.Labels[apply.LabelPool]; {
	case deleted || pooled:
		delete(r.pods, hash)
	default:
		r.pods[hash] = pod
		if pod.Annotations[apply.AnnotationPoolUID] != "" && pod.Labels[apply.LabelClaimUID] == "" && pod.Labels[apply.LabelState] != string(ext.StateStale) {
			r.unclaimed = append(r.unclaimed, pod.Name)
		}
	}
	r.version = number(pod.ResourceVersion)
	close(r.news)
	r.news = make(chan struct{})
}

func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

// find finds the pod of a sandbox for a claim.
func (r *router) find(sandbox, claim string) bool {
	pod, ok := r.pods[apply.Hash(sandbox)]
	return ok && pod.Name == sandbox && pod.Labels[apply.LabelClaimUID] == claim
}

// await finds the pod of a sandbox whose claim was Ready at a version, and says how long
// it took, which is nothing if the router knew the pod. The pod is lost if the router does
// not find it although it knows all that was written until then.
func (r *router) await(ctx context.Context, sandbox, claim string, version uint64) (took time.Duration, found bool) {
	begun := time.Now()
	for {
		r.mu.Lock()
		found, knows, news := r.find(sandbox, claim), r.version >= version, r.news
		r.mu.Unlock()
		if found || knows {
			return took, found
		}
		select {
		case <-news:
		case <-ctx.Done():
			return took, false
		}
		took = time.Since(begun)
	}
}

// At the event in which a claim is Ready, a router knows its pod. Where its watch is
// behind that of the claims, the pod is in what it has not read yet.
func TestARouterFindsTheClaimsPodWhenTheClaimIsReadyAndNoMemberThatNobodyClaimed(t *testing.T) {
	for _, row := range []struct {
		name  string
		n     int
		every time.Duration
	}{
		{"ten claims a second", stage.Number("KILN_CLAIMS", 40), 100 * time.Millisecond},
		{"a burst", stage.Number("KILN_BURST", 100), time.Nanosecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			r := routing(t, w)
			ready := readyClaims(t, w, r)
			w.Controller()
			w.Create(world.Template("t"), world.Pool("p", int32(row.n)))
			w.Await(world.Full("p", row.n))
			clock := time.NewTicker(row.every)
			defer clock.Stop()
			for i := range row.n {
				<-clock.C
				w.Create(world.Claim(fmt.Sprintf("claim-%d", i), "p"))
			}
			g, atOnce, last := NewWithT(t), 0, time.Duration(0)
			for range row.n {
				one := <-ready
				g.Expect(one.found).To(BeTrue(), "%s was Ready, and its pod was not its own", one.claim)
				if last = max(last, one.took); one.took == 0 {
					atOnce++
				}
			}
			w.Await(world.Full("p", row.n))
			g.Expect(r.unclaimed).To(BeEmpty(), "members that were found, and nobody had claimed them")
			t.Logf("%d claims: %d pods were known at the Ready event, the last one after %v", row.n, atOnce, last)
		})
	}
}

// A look is what a router said of a claim that became Ready.
type look struct {
	claim string
	took  time.Duration
	found bool
}

// readyClaims asks a router for the pod of each claim that becomes Ready.
func readyClaims(t *testing.T, w *kit.World, r *router) <-chan look {
	looks, seen := make(chan look, 1000), map[string]bool{}
	watching(t, w.Claims().Watch, func(c *ext.SandboxClaim, _ bool) {
		if seen[c.Name] || !meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") {
			return
		}
		seen[c.Name] = true
		go func() {
			took, found := r.await(t.Context(), c.Status.SandboxStatus.Name, string(c.UID), number(c.ResourceVersion))
			looks <- look{c.Name, took, found}
		}()
	})
	return looks
}
