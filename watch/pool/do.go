package pool

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Do carries out the one effect of a decision.
func (l Members) Do(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	defer l.settle(s.pool)
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
	case states.ReadPool, states.ReadSandbox, states.ReadClaim, states.ReadPod, states.ProveFresh, states.Move, states.Report,
		states.Annotate, states.Adopt, states.Refuse, states.Sync, states.Delete, states.Label: // not the members'
	}
	return known, err
}

// settle forgets what was remembered of a pool that has ended meanwhile. What is
// remembered is remembered first: either this look sees the end, or the end comes
// after it and forgets.
func (l *Pools) settle(pool *ext.SandboxWarmPool) {
	if pool == nil {
		return
	}
	if !l.Stores.Pools.Has(pool) {
		l.forget(pool)
	}
}

// forget drops what is remembered of a pool that is gone.
func (l *Pools) forget(pool *ext.SandboxWarmPool) {
	l.Memory.forget(pool.UID)
	l.Churn.Forget(pool.UID)
	l.ForgetSeries(view.KeyOf(pool))
}

// readTemplate asks the API server for the template. That it could not say is an
// answer, too.
func (l *Pools) readTemplate(ctx context.Context, s Snapshot) learned {
	known := s.learned
	known.templateIs, known.unreadable = l.Stores.Templates.Read(ctx, view.TemplateOf(s.pool))
	if known.templateIs == states.PresenceMissing {
		l.Memory.lack(s.pool)
	}
	return known
}

// retire gives members up. The shelf is asked first, so that a claim that is just
// taking one is not raced; the guard on the sandbox is what makes it safe. The
// sandbox's own loop writes the retirement. A change of the pool or its template is
// noticed between two batches, and in a rolling update also that fewer are free than
// the plan was made for: either that is seen here, or the status that tells of it sees
// what is given up.
func (l Members) retire(s Snapshot, members []states.Retirement) {
	defer l.WakeStatus(s.key, StatusDelay) // it may wait for what is dropped here
	ready := s.count.Free()
	for batch := range slices.Chunk(members, l.Batch) {
		for _, m := range batch {
			b := s.members[m.Name]
			if s.ready[m.Name] {
				ready--
			}
			l.Retirements.Add(b.UID, memory.Retirement{
				Member: view.KeyOf(b), Pool: s.pool.UID, PoolName: s.pool.Name, Reason: m.Reason, Basis: s.basis(),
			})
		}
		overtaken := l.overtaken(s) || s.Facts.Strategy == states.Rolling && l.count(&s).Free() < ready
		for _, m := range batch {
			l.give(s.pool, s.members[m.Name], m.Reason, overtaken)
		}
		if overtaken {
			return // the next look decides anew
		}
	}
}

// give gives a member up that was registered to be, unless something has come first.
func (l Members) give(pool *ext.SandboxWarmPool, b *agents.Sandbox, why states.Reason, overtaken bool) {
	if overtaken || !l.Shelves.Withdraw(view.KeyOf(b)) {
		l.Retirements.Drop(b.UID) // the next look counts without it, if a claim has it
		return
	}
	if why == states.ReasonStuck && !l.Churn.Lived(b.UID) {
		l.Churn.Add(pool.UID, view.LossesFree(pool), l.Now())
	}
	l.WakeSandbox(view.KeyOf(b))
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
