package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// A world is what the loops share: what is known, how to write, whom to wake.
type world struct {
	opts       Options
	log        *slog.Logger
	stores     *stores
	shelves    *shelves
	reads      reads
	apply      *apply.Applier
	metrics    *metrics
	blueprints *blueprints
	proofs     *proofs
	troubles   *troubles
	births     *births
	now        func() time.Time

	claims, sandboxes, pools, templates *loop

	// notes are the events being reported; nobody waits for them but the
	// shutdown.
	notes sync.WaitGroup
}

// maxMoves bounds how many writes one step makes before it lets other keys have
// their turn. The longest story, a pool member from nothing to ready, is five.
const maxMoves = 8

// errRestless sends a key that did not come to rest to the back of the queue.
var errRestless = errors.New("it did not come to rest in one step")

// take puts what a write returned into its store.
func take[T object](s *store[T], got T) error {
	if _, err := trim(got); err != nil {
		return err
	}
	s.put(got)
	return nil
}

// settle takes in the answer to a write on an object as it was seen. Someone
// else having moved first, or the object being gone, is not a failure: what the
// API server has now is read, and the step goes on from there.
func settle[T object](ctx context.Context, s *store[T], c getter[T], was, got T, err error) error {
	switch {
	case err == nil:
		return take(s, got)
	case errors.Is(err, apply.ErrLost), errors.Is(err, apply.ErrGone):
		_, err := ask(ctx, s, c, keyOf(was))
		return err
	}
	return err
}

// last settles the write that a step ends with. Where others look again at once, a
// write that lost is an error here, so that the key comes again.
func last[T object](ctx context.Context, s *store[T], c getter[T], was, got T, err error) error {
	settled := settle(ctx, s, c, was, got, err)
	if settled == nil && errors.Is(err, apply.ErrLost) {
		return err
	}
	return settled
}

// settleSandbox takes in the answer to a write on a sandbox.
func (w *world) settleSandbox(ctx context.Context, was, got *agents.Sandbox, err error) error {
	return settle(ctx, w.stores.sandboxes, w.reads.kiln.Sandboxes(was.Namespace), was, got, err)
}

// wakeOwner wakes whoever counts or holds a sandbox.
func (w *world) wakeOwner(s *agents.Sandbox) {
	owner := metav1.GetControllerOfNoCopy(s)
	switch {
	case isPool(owner):
		w.pools.wake(ownerKey(s, owner))
	case isClaim(owner):
		w.claims.wake(ownerKey(s, owner))
	}
}

// note reports an event about an object without waiting for it. An event that
// fails is logged and lost: it is news, not state.
func (w *world) note(ctx context.Context, about apply.Regarding, kind string, n apply.Note) {
	if !w.opts.Events {
		return
	}
	w.notes.Go(func() {
		if err := w.apply.Event(ctx, about, kindOf(kind), n); err != nil {
			w.log.Debug("event", "about", keyOf(about).String(), "reason", n.Reason, "err", err)
		}
	})
}
