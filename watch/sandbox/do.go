package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Do carries out the one effect of a decision. Whoever counts or holds the sandbox
// looks again after a write.
func (l *Sandboxes) Do(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	var err error
	switch d.Act {
	case states.Rest, states.Wait, states.Retry:
		l.end(s)
		return known, nil
	case states.AskShelf:
		known.loan = l.Shelves.Loan(s.key)
		return known, nil
	case states.ReadClaim:
		known.claimIs, err = l.Stores.Claims.Read(ctx, view.OwnerKey(s.sandbox))
		return known, err
	case states.Create:
		known.refusal, err = l.createPod(ctx, s.sandbox)
	case states.Move:
		move := apply.PodMove{Pod: s.pods.pod, Sandbox: s.sandbox, Claim: s.claim, Decision: d}
		got, wrote := l.Writer.MovePod(ctx, move)
		err = l.Stores.Pods.Settle(ctx, s.pods.pod, got, wrote)
	case states.Report:
		known.reported = d.Reason
		got, wrote := l.Writer.ReportSandbox(ctx, s.sandbox, l.status(s, d.Reason))
		err = l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, wrote)
	case states.Retire:
		got, wrote := l.Writer.Retire(ctx, s.sandbox, d.Reason)
		if err = l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, wrote); err == nil {
			l.Retirements.Drop(s.sandbox.UID) // it is written, or the sandbox has changed and its pool decides anew
		}
	case states.Delete:
		err = l.delete(ctx, s.sandbox)
	case states.ReadPool, states.ReadTemplate, states.ReadSandbox, states.ProveFresh,
		states.Annotate, states.Adopt, states.Refuse, states.Label: // not a sandbox's
	}
	l.Shelves.Sync(s.key)
	l.wakeOwner(s.sandbox)
	return known, err
}

// end ends what a step has open: a sandbox that is no member is nobody's to retire,
// and the pool's status may have waited for that.
func (l *Sandboxes) end(s Snapshot) {
	if s.sandbox != nil && s.Facts.Holder != states.HolderPool {
		if one, ok := l.Retirements.Drop(s.sandbox.UID); ok {
			l.WakePool(view.Key{Namespace: s.key.Namespace, Name: one.PoolName})
		}
	}
	l.Shelves.Sync(s.key)
}

// wakeOwner wakes whoever counts or holds a sandbox.
func (l *Sandboxes) wakeOwner(b *agents.Sandbox) {
	switch apply.OwnerOf(b).Kind {
	case states.OwnerPool:
		l.WakePool(view.OwnerKey(b))
	case states.OwnerClaim:
		l.WakeClaim(view.OwnerKey(b))
	case states.OwnerNone, states.OwnerSandbox, states.OwnerOther:
	}
}

// createPod makes the pod, and returns why the server refuses it, if it does.
func (l *Sandboxes) createPod(ctx context.Context, b *agents.Sandbox) (refusal string, err error) {
	if !apply.MadeByKiln(b) && b.Annotations[apply.AnnotationPodName] != b.Name {
		got, err := l.Writer.AnnotatePodName(ctx, b)
		if err := l.Stores.Sandboxes.Settle(ctx, b, got, err); err != nil {
			return "", err
		}
	}
	l.InFlight.Begin(b)
	defer l.wakeOwner(b) // a pool counts it, should the sandbox be no more
	defer l.InFlight.End(b)
	if is, ok := l.Stores.Sandboxes.Get(view.KeyOf(b)); !ok || is.UID != b.UID {
		return "", nil // it ended before its pool could know that a pod comes
	}
	pod, err := l.Writer.CreatePod(ctx, b)
	switch {
	case errors.Is(err, apply.ErrRefused):
		return apply.Message(err), nil
	case errors.Is(err, apply.ErrLost):
		return l.collide(ctx, b)
	case err != nil:
		return "", err
	}
	return "", l.Stores.Pods.Put(pod)
}

// collide looks at the pod that has the sandbox's name already: its own, after a
// lost answer, or one that is not to be touched. That one may be outside what the
// informer watches, so no event tells when it goes; the back-off looks again.
func (l *Sandboxes) collide(ctx context.Context, b *agents.Sandbox) (refusal string, err error) {
	pod, found, err := l.Stores.Pods.Fetch(ctx, view.KeyOf(b))
	switch {
	case err != nil || !found: // it went in this moment, if it is not there
		return "", err
	case !apply.ControlledBy(b.UID, pod):
		return fmt.Sprintf("pod %q is owned by %s; delete it, or give the sandbox another name", pod.Name, view.OwnerName(pod)), nil
	case pod.Labels[apply.LabelNameHash] == "":
		return fmt.Sprintf("pod %q has lost its label %s; put it back, or delete the pod", pod.Name, apply.LabelNameHash), nil
	}
	return "", l.Stores.Pods.Put(pod)
}

// delete deletes a retired sandbox. Should a finalizer keep it, there is still
// nothing left to do about it.
func (l *Sandboxes) delete(ctx context.Context, b *agents.Sandbox) error {
	err := l.Writer.DeleteSandbox(ctx, b)
	if err == nil {
		l.Stores.Sandboxes.MarkDeleted(b)
		return nil
	}
	return l.Stores.Sandboxes.Settle(ctx, b, nil, err)
}
