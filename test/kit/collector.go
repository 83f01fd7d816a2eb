package kit

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A Collector is the garbage collector of a world: what belongs to something
// that is no more goes too.
type Collector struct {
	w     *World
	queue workqueue.TypedRateLimitingInterface[types.UID]

	mu     sync.Mutex
	paused bool
}

func newCollector(w *World) *Collector {
	c := &Collector{w: w, queue: newQueue[types.UID]()}
	w.Listen(func(change world.Change) {
		if change.Deleted {
			c.queue.Add(change.Object.GetUID())
		} else if owner := metav1.GetControllerOf(change.Object); owner != nil {
			c.queue.Add(owner.UID)
		}
	})
	return c
}

// Pause keeps what it would delete.
func (c *Collector) Pause() { c.set(true) }

// Resume deletes what has been kept.
func (c *Collector) Resume() { c.set(false) }

func (c *Collector) set(paused bool) {
	c.mu.Lock()
	c.paused = paused
	c.mu.Unlock()
	c.w.Recorder.Look(func(s *world.Snapshot) {
		for uid := range s.Deleted {
			c.queue.Add(uid)
		}
	})
}

func (c *Collector) run(ctx context.Context) { work(ctx, c.queue, c.step) }

// step deletes what belongs to an owner, if that is no more.
func (c *Collector) step(ctx context.Context, owner types.UID) error {
	c.mu.Lock()
	paused := c.paused
	c.mu.Unlock()
	var orphans []metav1.Object
	c.w.Recorder.Look(func(s *world.Snapshot) {
		if paused || !s.Deleted[owner] {
			return
		}
		for _, o := range s.Owned(owner) {
			if o.GetDeletionTimestamp() == nil {
				orphans = append(orphans, o)
			}
		}
	})
	for _, o := range orphans {
		if err := c.delete(ctx, o); err != nil && !errors.IsNotFound(err) {
			return err // not gone already: some of the others may still be there
		}
	}
	return nil
}

func (c *Collector) delete(ctx context.Context, o metav1.Object) error {
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.GetUID()))}
	switch o.(type) {
	case *agents.Sandbox:
		return c.w.Sandboxes().Delete(ctx, o.GetName(), only)
	case *corev1.Pod:
		return c.w.Pods().Delete(ctx, o.GetName(), only)
	}
	return nil
}
