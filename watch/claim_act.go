package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// act makes the one write that a decision asks for.
func (l claims) act(ctx context.Context, sight claimSight, d states.Decision, known *inquiry) error {
	switch d.Act {
	case states.Adopt:
		return l.adopt(ctx, sight, known)
	case states.Create:
		return l.create(ctx, sight, known)
	case states.Move:
		got, err := l.apply.MoveClaim(ctx, sight.claim, d.Event, l.told(sight, d.Event))
		return l.moved(ctx, sight, d.Event, got, err)
	case states.Report:
		got, err := l.apply.ReportClaim(ctx, sight.claim, sight.status)
		return l.settleClaim(ctx, sight.claim, got, err)
	case states.Refuse:
		return l.refuse(ctx, sight)
	case states.Note:
		return l.record(ctx, sight.claim, sight.sandbox.Name)
	case states.Check:
		return l.inquire(ctx, sight, known)
	case states.Rest, states.Retire, states.Delete: // not a claim's
	}
	return nil
}

// adopt takes the offered sandbox. The note on the claim is written beside it, and
// the proof that a strict claim needs is read beside it; the status follows, with
// the resource version the note left.
func (l claims) adopt(ctx context.Context, sight claimSight, known *inquiry) error {
	member, ok := l.stores.sandboxes.get(sight.offered)
	old := ok && sight.facts.Strict && !l.currentIn(member, sight.pool)
	if !ok || old || !isPool(metav1.GetControllerOfNoCopy(member)) || retired(member) {
		l.shelves.sync(sight.offered) // it left in this moment; the shelf offers another
		return nil
	}
	var beside sync.WaitGroup
	if l.opts.Annotate {
		beside.Go(func() { l.noteBeside(ctx, sight.claim, member.Name) })
	}
	if sight.facts.Strict && sight.facts.View == states.Unproven {
		beside.Go(func() { l.proveBeside(ctx, sight, known) })
	}
	got, err := l.apply.Adopt(ctx, member, sight.claim)
	beside.Wait()
	if err == nil {
		l.shelves.done(keyOf(sight.claim), got.Name)
	}
	err = l.settleSandbox(ctx, member, got, err)
	l.shelves.sync(sight.offered)
	l.pools.wake(poolOf(sight.claim))
	return err
}

// proveBeside proves beside another write. A failure holds nothing up: the claim
// asks again before it is told.
func (l claims) proveBeside(ctx context.Context, sight claimSight, known *inquiry) {
	if err := l.prove(ctx, sight, known); err != nil {
		l.log.Debug("prove", "claim", keyOf(sight.claim).String(), "err", err)
	}
}

// refuse gives an outdated sandbox up. Its own loop retires it then, for nobody
// will be told of it.
func (l claims) refuse(ctx context.Context, sight claimSight) error {
	got, err := l.apply.RefuseSandbox(ctx, sight.claim, sight.sandbox)
	if err == nil {
		l.note(ctx, sight.claim, claimKind, apply.Note{
			Type: corev1.EventTypeNormal, Reason: "SandboxOutdated", Action: "Adoption",
			Text: fmt.Sprintf("Sandbox %q is of an older template than the claim may get; taking another", sight.sandbox.Name),
		})
	}
	err = l.settleClaim(ctx, sight.claim, got, err)
	l.sandboxes.wake(keyOf(sight.sandbox))
	return err
}

// record notes the sandbox's name and the first sight on the claim, for others to
// read.
func (l claims) record(ctx context.Context, c *ext.SandboxClaim, sandbox string) error {
	got, err := l.apply.RecordClaim(ctx, c, sandbox, l.metrics.firstSight(c, l.now()))
	return l.settleClaim(ctx, c, got, err)
}

// noteBeside records beside another write. A failure holds nothing up: the note
// is made good once the claim is told.
func (l claims) noteBeside(ctx context.Context, c *ext.SandboxClaim, sandbox string) {
	if err := l.record(ctx, c, sandbox); err != nil {
		l.log.Debug("record", "claim", keyOf(c).String(), "err", err)
	}
}

// create makes the claim its own sandbox: a cold start.
func (l claims) create(ctx context.Context, sight claimSight, known *inquiry) error {
	template, ok := l.stores.templates.get(templateOf(sight.pool))
	if !ok {
		return nil // it went in this moment; the next look says so
	}
	blueprint, err := l.blueprints.of(template)
	if err != nil {
		known.clash = err.Error()
		return nil
	}
	l.shelves.giveBack(keyOf(sight.claim))
	got, err := l.apply.CreateOwn(ctx, sight.claim, blueprint)
	switch {
	case errors.Is(err, apply.ErrLost):
		return l.collide(ctx, sight.claim, known)
	case errors.Is(err, apply.ErrRefused):
		known.clash, known.again = apply.Words(err), true
		return nil
	case err != nil:
		return err
	}
	l.metrics.created(sight.claim, got, false)
	l.note(ctx, sight.claim, claimKind, apply.Note{
		Type: corev1.EventTypeNormal, Reason: "SandboxProvisioned", Action: "Provisioning",
		Text: fmt.Sprintf("Created Sandbox %q", got.Name),
	})
	if l.opts.Annotate {
		l.noteBeside(ctx, sight.claim, got.Name)
	}
	if err := take(l.stores.sandboxes, got); err != nil {
		return err
	}
	l.sandboxes.wake(keyOf(got))
	return nil
}

// collide looks at the sandbox that has the claim's name already: the claim's
// own, after a lost answer, or somebody else's.
func (l claims) collide(ctx context.Context, c *ext.SandboxClaim, known *inquiry) error {
	if _, err := ask(ctx, l.stores.sandboxes, l.reads.kiln.Sandboxes(c.Namespace), keyOf(c)); err != nil {
		return err
	}
	if s, ok := l.stores.sandboxes.get(keyOf(c)); ok && !controls(c.UID, s) {
		known.clash = fmt.Sprintf("sandbox %q exists and is owned by %s; delete it, or give the claim another name", s.Name, ownerWords(s))
	}
	return nil
}

// moved takes in the answer to an edge, and wakes the sandbox whose pod's word
// follows it.
func (l claims) moved(ctx context.Context, sight claimSight, event states.Event, got *ext.SandboxClaim, err error) error {
	if err == nil {
		l.tell(ctx, sight, event, got)
	}
	err = l.settleClaim(ctx, sight.claim, got, err)
	if sight.sandbox != nil {
		l.sandboxes.wake(keyOf(sight.sandbox))
	}
	return err
}

// tell measures an edge that was just written, and reports it. It happens once:
// the edge is only written once.
func (l claims) tell(ctx context.Context, sight claimSight, event states.Event, got *ext.SandboxClaim) {
	switch {
	case event == states.ClaimLost:
		l.note(ctx, sight.claim, claimKind, apply.Note{
			Type: corev1.EventTypeWarning, Reason: reasonLost, Action: "Losing",
			Text: lostWords(sight.claim),
		})
	case event == states.ClaimBound && sight.facts.Holds == states.HoldsWarm:
		l.metrics.created(sight.claim, sight.sandbox, isReady(sight.sandbox))
		l.note(ctx, sight.claim, claimKind, apply.Note{
			Type: corev1.EventTypeNormal, Reason: "SandboxAdopted", Action: "Adoption",
			Text: fmt.Sprintf("Adopted warm pool Sandbox %q", sight.sandbox.Name),
		})
	}
	if event == states.ClaimBound {
		l.metrics.bound(got, sight.sandbox, l.now())
	}
}

func (w *world) settleClaim(ctx context.Context, was, got *ext.SandboxClaim, err error) error {
	return settle(ctx, w.stores.claims, w.reads.kiln.Claims(was.Namespace), was, got, err)
}
