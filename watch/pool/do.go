package pool

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Do carries out the one effect of a decision.
func (l Members) Do(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	var err error
	switch d.Act {
	case states.ReadTemplate:
		known = l.readTemplate(ctx, s)
	case states.AskShelf:
		known.loansKnown, known.loans = true, l.Shelves.Loans(s.pool.UID)
	case states.Create:
		known.failure = l.create(ctx, s, d.About.Plan.Create)
	case states.Retire:
		l.retire(s, d.About.Plan.Retire)
	case states.Rest, states.Wait, states.Retry:
		err = known.failure
	case states.ReadPool, states.ReadSandbox, states.ReadClaim, states.ProveFresh, states.Move, states.Report,
		states.Annotate, states.Adopt, states.Refuse, states.Delete, states.Label: // not the members'
	}
	return known, err
}

// readTemplate asks the API server for the template. That it could not say is an
// answer, too.
func (l *Pools) readTemplate(ctx context.Context, s Snapshot) learned {
	known := s.learned
	known.templateIs, known.unreadable = l.Stores.Templates.Read(ctx, view.TemplateOf(s.pool))
	return known
}

// retire gives members up. The shelf is asked first, so that a claim that is just
// taking one is not raced; the guard on the sandbox is what makes it safe. The
// sandbox's own loop writes the retirement.
func (l Members) retire(s Snapshot, members []states.Retirement) {
	defer l.WakeStatus(s.key, StatusDelay) // it may wait for what is dropped here
	basis := s.basis()
	for _, m := range members {
		l.Retirements.Add(s.members[m.Name].UID, memory.Retirement{Pool: s.pool.UID, PoolName: s.pool.Name, Reason: m.Reason, Basis: basis})
	}
	overtaken := l.overtaken(s)
	for _, m := range members {
		b := s.members[m.Name]
		if overtaken || !l.Shelves.Withdraw(view.KeyOf(b)) {
			l.Retirements.Drop(b.UID) // the next look decides anew, or counts without it: a claim has it
			continue
		}
		if m.Reason == states.ReasonStuck {
			l.Churn.Add(s.pool.UID, l.Now())
		}
		l.WakeSandbox(view.KeyOf(b))
	}
}

// create makes members, and returns why the first that failed did so. What is to be
// retired does not wait for that.
func (l Members) create(ctx context.Context, s Snapshot, n int) error {
	defer l.WakeStatus(s.key, StatusDelay)
	defer l.Memory.begin(s.pool.UID, s.basis())()
	if l.overtaken(s) {
		return nil // the next look decides anew
	}
	names := l.Memory.names(s.pool, n)
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = l.createMember(ctx, s, name) })
	}
	wg.Wait()
	var failure error
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		failure = errs[i]
	}
	l.Memory.created(s.pool.UID, failure)
	return failure
}

func (l Members) createMember(ctx context.Context, s Snapshot, name string) error {
	got, err := l.Writer.CreateMember(ctx, s.pool, name, s.blueprint)
	key := view.Key{Namespace: s.key.Namespace, Name: name}
	switch {
	case errors.Is(err, apply.ErrLost):
		_, err := l.Stores.Sandboxes.Read(ctx, key)
		return err
	case errors.Is(err, apply.ErrRefused):
		return err
	case err != nil:
		l.Memory.keep(s.pool.UID, name)
		return err
	}
	if err := l.Stores.Sandboxes.Put(got); err != nil {
		return err
	}
	l.Shelves.Sync(key)
	l.WakeSandbox(key)
	return nil
}
