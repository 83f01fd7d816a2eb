package watch

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
)

// retire marks members as never to be handed out. It asks the shelf first, so
// that a claim that is just taking one is not raced; the guard on the sandbox is
// what makes it safe.
func (l pools) retire(ctx context.Context, sight poolSight, leaves []states.Leave) error {
	return each(leaves, func(leave states.Leave) error {
		s := sight.members[leave.Name]
		if !l.shelves.withdraw(keyOf(s)) {
			return nil // a claim has it; the next look counts without it
		}
		got, err := l.apply.Retire(ctx, s, leave.Reason)
		if err == nil && leave.Reason == states.Stuck {
			l.troubles.add(sight.pool.UID, l.now())
		}
		err = l.settleSandbox(ctx, s, got, err)
		l.shelves.sync(keyOf(s))
		l.sandboxes.wake(keyOf(s))
		return err
	})
}

// create makes members. While the server refuses them, one is tried at a time.
func (l pools) create(ctx context.Context, sight poolSight, n int) error {
	if n > 1 && l.memory.said(sight.pool.UID) != "" {
		n = 1
	}
	err := each(l.memory.take(sight.pool, n), func(name string) error {
		got, err := l.apply.CreateMember(ctx, sight.pool, name, sight.blueprint)
		switch {
		case errors.Is(err, apply.ErrLost):
			_, err := ask(ctx, l.stores.sandboxes, l.reads.kiln.Sandboxes(sight.pool.Namespace), Key{Namespace: sight.pool.Namespace, Name: name})
			return err
		case errors.Is(err, apply.ErrRefused):
			return err
		case err != nil:
			l.memory.keep(sight.pool.UID, name)
			return err
		}
		if err := take(l.stores.sandboxes, got); err != nil {
			return err
		}
		l.shelves.sync(keyOf(got))
		l.sandboxes.wake(keyOf(got))
		return nil
	})
	l.memory.hear(sight.pool.UID, err)
	if err == nil && n > 0 {
		l.pools.wake(keyOf(sight.pool)) // after a refusal ends there are more to make
	}
	return err
}

// each does something to many at once; the lane is what bounds it. It returns
// the first error.
func each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
