package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Do carries out the one effect of a decision.
func (l *Claims) Do(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	defer l.settle(s)
	known := s.learned
	var err error
	switch d.Act {
	case states.Rest, states.Wait, states.Retry:
		l.end(s, d)
	case states.AskShelf:
		known.offer = l.Shelves.Take(s.pool, s.claim, l.Now())
	case states.ReadPool:
		known.poolIs, err = l.Stores.Pools.Read(ctx, view.PoolOf(s.claim))
	case states.ReadTemplate:
		known.templateIs, err = l.Stores.Templates.Read(ctx, view.TemplateOf(s.pool))
	case states.ReadSandbox:
		known.sandboxIs, err = l.fate(ctx, s)
	case states.ProveFresh:
		known, err = l.prove(ctx, s)
	case states.Adopt:
		known, err = l.adopt(ctx, s, d)
	case states.Create:
		known, err = l.create(ctx, s, d)
	case states.Refuse:
		err = l.refuse(ctx, s, d)
	case states.Move:
		if d.About.Part == states.PartPod {
			known, err = l.handPod(ctx, s, d)
		} else {
			known, err = l.move(ctx, s, d)
		}
	case states.Report:
		known, err = l.report(ctx, s, d.Reason)
	case states.Annotate:
		known.annotating = true
		l.Annotate(s.key)
	case states.Sync:
		known, err = l.sync(ctx, s, d)
	case states.Delete:
		err = l.delete(ctx, s, d)
	case states.ReadClaim, states.ReadPod, states.Retire, states.Label: // not a claim's
	}
	return known, err
}

// report writes the status of a claim whose state stays. It is not sent when the claim has
// changed, or has a member to take by now: then the step goes on from there.
func (l *Claims) report(ctx context.Context, s Snapshot, why states.Reason) (learned, error) {
	known, still := s.learned, l.Stores.Claims.Still(s.claim)
	holds := func() bool { return still() && (why != states.ReasonInLine || !l.Shelves.Serves(s.key)) }
	got, err := l.Writer.ReportClaim(apply.While(ctx, holds), s.claim, l.status(s, why))
	if errors.Is(err, apply.ErrOutdated) {
		known.offer.Offer = states.OfferNone
	} else {
		known.reported = why
	}
	if err == nil {
		l.Metrics.ready(s.claim, got, s.sandbox)
	}
	return known, l.Stores.Claims.Settle(ctx, s.claim, got, err)
}

// settle forgets what was measured of a claim or a pool that has ended meanwhile: its
// event has passed, or is to come and forgets, too.
func (l *Claims) settle(s Snapshot) {
	if s.claim != nil && !l.Stores.Claims.Has(s.claim) {
		l.Metrics.Forget(s.claim)
	}
	if s.pool != nil {
		if _, ok := l.Stores.Pools.Get(view.KeyOf(s.pool)); !ok {
			l.Metrics.ForgetPool(view.KeyOf(s.pool))
		}
	}
}

// end ends what a step has open. A claim that has its sandbox has no business with
// the shelf any more, and the sandbox's pod may follow. One that waits keeps its
// place in line; one whose adoption failed keeps what it took, for nobody knows
// whether it has it.
func (l *Claims) end(s Snapshot, d states.Decision) {
	switch {
	case s.sandbox != nil:
		if l.Shelves.Done(s.key, s.sandbox.Name) {
			l.handOver(s)
		}
	case d.Act == states.Rest:
		l.Shelves.GiveBack(s.key)
	}
}

// handOver wakes who waits for the end of an adoption: the sandbox, whose pod's
// state follows, and the pool, which makes another member.
func (l *Claims) handOver(s Snapshot) {
	l.WakeSandbox(view.KeyOf(s.sandbox))
	l.WakePool(view.PoolOf(s.claim))
}

// fate asks what became of the sandbox that a claim names.
func (l *Claims) fate(ctx context.Context, s Snapshot) (states.Presence, error) {
	c := view.Claim(s.claim)
	if c.SandboxName == "" {
		return c.Loses(states.Sandbox{}, states.PresenceMissing), nil
	}
	key := view.Key{Namespace: s.claim.Namespace, Name: c.SandboxName}
	is, err := l.Stores.Sandboxes.Read(ctx, key)
	if err != nil {
		return is, err
	}
	b, ok := l.Stores.Sandboxes.Get(key)
	if !ok {
		return c.Loses(states.Sandbox{}, is), nil
	}
	return c.Loses(view.Sandbox(b), is), nil
}

// prove asks whether the stores are as new as the claim.
func (l *Claims) prove(ctx context.Context, s Snapshot) (learned, error) {
	known := s.learned
	known.proven, known.freshness = s.subject(), states.FreshnessUnknown
	if s.pool == nil { // no event of the template would wake the claim: it is read itself
		if _, err := l.Stores.Templates.Read(ctx, known.proven.Template); err != nil {
			return known, err
		}
		known.freshness = states.FreshnessProven
		return known, nil
	}
	is, err := l.Prove(ctx, known.version, known.proven)
	known.freshness = is
	return known, err
}

// adopt takes the sandbox that the shelf gave, and proves freshness beside that. A
// proof that fails holds nothing up: the claim asks again before it is told.
func (l *Claims) adopt(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	member, ok := l.Stores.Sandboxes.Get(s.offer.Member)
	outdated := ok && s.Facts.Strict && !l.Stores.Current(member, view.TemplateOf(s.pool), s.pool)
	known.offer.Offer = states.OfferNone // whatever comes, it is not on offer any more
	of := apply.Claimed{Sandbox: member, Claim: s.claim}
	if ok {
		// A member of an older template may have other labels than the newest.
		added, err := apply.ClaimMetadataOf(of, l.labelDomains())
		if err != nil && !view.AddedMetadata(s.claim).Fits(view.PodMetadata(member)) {
			l.Shelves.Sync(s.offer.Member) // one of them has changed since the shelf gave it, and gives another
			l.Shelves.GiveBack(s.key)
			return known, nil
		}
		if err != nil {
			known.failure = refusalIn(err)
			return known, nil
		}
		of.Added = added
	}
	if !ok || outdated || !apply.ControlledBy(s.pool.UID, member) || view.Sandbox(member).Idle {
		l.Shelves.Sync(s.offer.Member) // it left in this moment; the shelf offers another
		return known, nil
	}
	var beside sync.WaitGroup
	if d.About.Beside == states.ProveFresh {
		beside.Go(func() {
			if proven, err := l.prove(ctx, s); err == nil {
				known.proven, known.freshness = proven.proven, proven.freshness
			}
		})
	}
	got, err := l.Writer.Adopt(ctx, of)
	beside.Wait()
	if errors.Is(err, apply.ErrRefused) {
		l.refused(s, member, err)
		return known, nil
	}
	err = l.Stores.Sandboxes.Settle(ctx, member, got, err)
	l.Shelves.Sync(s.offer.Member)
	return known, err
}

// refused takes a member off the shelf that the API server does not let the claim
// have. The pool says so, and the claim asks for another.
func (l *Claims) refused(s Snapshot, member *agents.Sandbox, why error) {
	hold, news := l.Refusals.Add(s.pool.UID, member, apply.Message(why), apply.Cause(why))
	if news && l.Log != nil {
		l.Log.Warn("the API server refuses to hand out a member; its pool says so, and claims get others, or sandboxes of their own",
			"pool", view.KeyOf(s.pool).String(), "sandbox", member.Name, "claim", s.key.String(), "err", why)
	}
	if !l.Stores.Sandboxes.Has(member) {
		l.Refusals.Drop(member.UID) // it ended meanwhile, and nothing else would forget it
	}
	l.Shelves.Sync(s.offer.Member)
	l.WakeSandboxAfter(s.offer.Member, hold) // then it goes back
	l.WakePool(view.PoolOf(s.claim))
}

// create makes the claim its own sandbox: a cold start.
func (l *Claims) create(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	blueprint, err := l.blueprint(s)
	if err != nil {
		known.failure = refusalIn(err)
		return known, nil
	}
	l.Shelves.GiveBack(s.key)
	got, err := l.Writer.CreateOwn(ctx, s.claim, blueprint)
	switch {
	case errors.Is(err, apply.ErrLost):
		return l.collide(ctx, s)
	case errors.Is(err, apply.ErrRefused):
		known.failure = view.Problem{Reason: states.ReasonCreateRefused, Message: apply.Message(err)}
		return known, nil
	case err != nil:
		return known, err
	}
	s.sandbox = got
	l.Metrics.created(s.claim, got, false)
	l.emit(s, d.Reason)
	l.WakeSandbox(view.KeyOf(got))
	return known, l.Stores.Sandboxes.Put(got)
}

// collide looks at the sandbox that has the claim's name already: the claim's own,
// after a lost answer, or somebody else's.
func (l *Claims) collide(ctx context.Context, s Snapshot) (learned, error) {
	known := s.learned
	if _, err := l.Stores.Sandboxes.Read(ctx, s.key); err != nil {
		return known, err
	}
	if b, ok := l.Stores.Sandboxes.Get(s.key); ok && !apply.ControlledBy(s.claim.UID, b) {
		known.failure = view.Problem{Reason: states.ReasonNameTaken, Message: fmt.Sprintf(
			"sandbox %q exists and is owned by %s; delete it, or give the claim another name", b.Name, view.OwnerName(b))}
	}
	return known, nil
}

// refuse gives an outdated sandbox up. The sandbox's own loop retires it then, for
// its claim will never have it.
func (l *Claims) refuse(ctx context.Context, s Snapshot, d states.Decision) error {
	got, err := l.Writer.RefuseSandbox(ctx, s.claim, s.sandbox)
	if err == nil {
		l.emit(s, d.Reason)
	}
	err = l.Stores.Claims.Settle(ctx, s.claim, got, err)
	l.Shelves.Done(s.key, s.sandbox.Name)
	l.handOver(s)
	return err
}

// handPod makes the pod of the sandbox the claim's. It is not sent when the claim or the pod
// has changed by then, for the step would only lose. Annotations that cannot be written
// beside it hold nothing up: their own loop writes them.
func (l *Claims) handPod(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	var beside sync.WaitGroup
	if d.About.Beside == states.Annotate {
		of := apply.ClaimAnnotations{Sandbox: s.sandbox.Name, Startup: l.startup(s, true), Urgent: true}
		beside.Go(func() {
			got, err := l.Writer.AnnotateClaim(ctx, s.claim, of)
			if err == nil && l.Stores.Claims.Put(got) == nil {
				known.startup = of.Startup
			}
		})
	}
	still := l.Stores.Pods.Still(s.pod)
	wanted := apply.While(ctx, func() bool { return still() && l.Stores.Claims.Stays(s.claim) })
	got, err := l.Writer.MovePod(wanted, apply.PodMove{Pod: s.pod, Sandbox: s.sandbox, Claim: s.claim, Decision: d})
	beside.Wait()
	if errors.Is(err, apply.ErrRefused) {
		known.failure = view.Problem{Reason: states.ReasonHandoverRefused, Message: apply.Message(err)}
		return known, nil
	}
	return known, l.Stores.Pods.Settle(ctx, s.pod, got, err)
}

// move writes an edge. The status that goes with it agrees with the sandbox, so it
// needs no report.
func (l *Claims) move(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	got, err := l.Writer.MoveClaim(ctx, s.claim, d, l.status(s, d.Reason))
	if err != nil {
		return known, l.Stores.Claims.Settle(ctx, s.claim, got, err)
	}
	l.Metrics.ready(s.claim, got, s.sandbox)
	err = l.Stores.Claims.Put(got)
	known.reported = states.ReasonHolds
	if d.Reason == s.problem.Reason {
		known.reported = d.Reason
	}
	if s.sandbox != nil {
		l.Shelves.Done(s.key, s.sandbox.Name)
		l.handOver(s)
	}
	l.emit(s, d.Reason)
	if d.About.Event == states.EventBound {
		l.Metrics.bound(got, s.sandbox, s.Facts.Holds == states.HoldsWarm, l.Now())
		if l.Annotate == nil {
			l.Metrics.Forget(got) // nothing else asks when it was first seen
		}
	}
	return known, err
}

// sync brings the sandbox that a claim holds in line: its labels, or, if it is the
// claim's own and its pod was refused, all of it.
func (l *Claims) sync(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	if d.Reason != states.ReasonPodProblem {
		known.mends++
		got, err := l.Writer.SyncClaimed(ctx, l.adding(s))
		return known, l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, err)
	}
	blueprint, err := l.blueprint(s)
	if err != nil {
		known.failure = refusalIn(err)
		return known, nil
	}
	got, err := l.Writer.RemakeOwn(ctx, s.claimed(), blueprint)
	if errors.Is(err, apply.ErrRefused) {
		known.failure = view.Problem{Reason: states.ReasonCreateRefused, Message: apply.Message(err)}
		return known, nil
	}
	return known, l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, err)
}

// delete takes a stale claim out, or what it has left.
func (l *Claims) delete(ctx context.Context, s Snapshot, d states.Decision) error {
	if d.About.Part == states.PartSandbox {
		return l.Stores.Sandboxes.SettleDelete(ctx, s.sandbox, l.Writer.DeleteOf(ctx, s.claimed()))
	}
	err := l.Writer.DeleteClaim(ctx, s.claim, lifecycle(s.claim).ShutdownPolicy)
	if err == nil {
		l.emit(s, d.Reason)
	}
	return l.Stores.Claims.SettleDelete(ctx, s.claim, err)
}
