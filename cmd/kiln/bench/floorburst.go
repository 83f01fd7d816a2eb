package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// hands is how many claims of a burst's floor are served at once: as many as keep a
// server of a few cores busy. With more each claim waits longer for its own two writes.
const hands = 12

// playFloorBurst makes the claims of a burst at once, and does for each in this program
// the least that makes it be served: it becomes the owner of a sandbox that is there, and
// is told of it. There are no pods, and what a claim's cycle costs is not measured.
func (s *session) playFloorBurst(ctx context.Context) ([]Result, error) {
	claims := or(s.Claims, ownBurst)
	shelf, err := s.floorShelf(ctx, claims)
	if err != nil {
		return nil, err
	}
	r, err := s.measure(ctx, FloorBurst, 0, func(ctx context.Context, t *trial) error {
		return t.floorBurst(ctx, claims, shelf)
	})
	if err != nil {
		return nil, err
	}
	r.Pool, r.CPU, r.Requests, r.Memory = claims, nil, nil, nil
	return []Result{r}, s.floorCleared(ctx)
}

// floorShelf makes sandboxes that nobody has.
func (s *session) floorShelf(ctx context.Context, n int) ([]object, error) {
	shelf, failed := make([]object, n), make([]error, n)
	var making sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range hands {
		making.Go(func() {
			for i := range next {
				meta := map[string]any{"name": fmt.Sprintf("free-%d-%d", s.round, i)}
				shelf[i], failed[i] = s.server.create(ctx, s.floor.path(s.Namespace, "sandboxes"), s.floorSandboxOf(meta))
				s.progress.update("round %d: %s: making sandboxes", s.round, FloorBurst)
			}
		})
	}
	making.Wait()
	return shelf, errors.Join(failed...)
}

// floorBurst is the load: the claims are served in the order in which they were made.
func (t *trial) floorBurst(ctx context.Context, claims int, shelf []object) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	made := make(chan object, claims)
	t.claims = t.floor.path(t.Namespace, "sandboxclaims")
	t.ledger.ignorePods()
	t.make = func(ctx context.Context, one *life) error {
		claim, err := t.floorClaim(ctx, one.name)
		if err == nil {
			made <- claim
		}
		return err
	}
	ctx, stop, err := t.server.attend(ctx, source{path: t.claims}, t.ledger.see)
	if err != nil {
		return err
	}
	defer stop()
	var serving sync.WaitGroup
	free := make(chan object, len(shelf))
	for _, sandbox := range shelf {
		free <- sandbox
	}
	for range hands {
		serving.Go(func() {
			for claim := range made {
				if err := t.floorServe(ctx, claim, <-free); err != nil {
					cancel(err)
				}
			}
		})
	}
	err = burst(claims)(ctx, t)
	close(made) // nobody asks any more
	serving.Wait()
	return err
}

// floorServe gives a claim a sandbox: two writes, the first one guarded.
func (t *trial) floorServe(ctx context.Context, claim, sandbox object) error {
	id := sandbox.Metadata.Name
	meta := owned(id, t.floor.version(), "SandboxClaim", claim)
	meta["resourceVersion"] = sandbox.Metadata.ResourceVersion
	if _, err := t.server.merge(ctx, t.floor.path(t.Namespace, "sandboxes")+"/"+id, marshal(map[string]any{"metadata": meta})); err != nil {
		return err
	}
	return t.floorTell(ctx, claim.Metadata.Name, id)
}

// floorCleared returns when the garbage collector has taken the sandboxes.
func (s *session) floorCleared(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience(), fmt.Errorf("the sandboxes of %s are not gone after %v", FloorBurst, s.patience()))
	defer cancel()
	return s.server.names(ctx, s.floor.path(s.Namespace, "sandboxes"), func(there map[string]bool) bool { return len(there) == 0 })
}
