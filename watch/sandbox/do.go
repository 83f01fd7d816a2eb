package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// The spans of what a sandbox's step does, as the users of the API know them.
const (
	spanPod     = "reconcilePod"
	spanVolumes = "reconcilePVCs"
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
	case states.Create, states.Sync, states.Delete:
		known, err = l.upkeep(ctx, s, d)
	case states.Move:
		err = l.movePod(ctx, s, d)
	case states.Report:
		known.reported = d.Reason
		err = l.report(ctx, s, d.Reason)
	case states.ReadPod:
		known.podRead = true
		return known, collide(ctx, l.Stores.Pods, s.key)
	case states.ReadPool:
		known.poolRead = true
		_, err = l.Stores.Pools.Read(ctx, view.KeyOf(s.pool))
	case states.Adopt:
		got, wrote := l.Writer.Recover(ctx, s.sandbox, s.pool)
		err = l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, wrote)
		l.WakePool(view.KeyOf(s.pool))
	case states.Retire:
		got, wrote := l.Writer.Retire(ctx, s.sandbox, d.Reason)
		if err = l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, wrote); err == nil {
			l.Retirements.Drop(s.sandbox.UID) // it is written, or the sandbox has changed and its pool decides anew
		}
	case states.ReadTemplate, states.ReadSandbox, states.ProveFresh,
		states.Annotate, states.Refuse, states.Label: // not a sandbox's
	}
	l.Shelves.Sync(s.key)
	l.wakeOwner(s.sandbox)
	return known, err
}

// end ends what a step has open: a sandbox that is no member is nobody's to retire,
// and the pool's status may have waited for that. A template of which the watch has
// shown nothing yet, for it was read, looks after the policy that a pod waits for.
func (l *Sandboxes) end(s Snapshot) {
	if s.Facts.Unprotected && s.problem.Message == "" {
		l.WakeTemplate(templateOf(s.sandbox))
	}
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

// report writes the status, and tells of what is new in it.
func (l *Sandboxes) report(ctx context.Context, s Snapshot, why states.Reason) error {
	want := l.status(s, why)
	got, err := l.Writer.ReportSandbox(ctx, s.sandbox, want)
	if err == nil {
		l.tell(s, why, want)
	}
	if err = l.Stores.Sandboxes.Settle(ctx, s.sandbox, got, err); err != nil {
		l.tellUnwritten(s)
	}
	return err
}

// upkeep makes, brings in line or deletes what a sandbox owns, or deletes the
// sandbox. What is refused is a fact of the step: it is told, and not tried twice.
func (l *Sandboxes) upkeep(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	var err error
	switch d.About.Part {
	case states.PartSelf:
		return known, l.delete(ctx, s.sandbox)
	case states.PartPod:
		known, err = l.keepPod(ctx, s, d)
	case states.PartService:
		known.syncs++
		err = l.keepService(ctx, s, d)
	case states.PartVolumes:
		err = l.keepVolume(ctx, s, d)
	case states.PartSandbox, states.PartPolicy: // not a sandbox's
	}
	if errors.Is(err, apply.ErrRefused) && d.Act != states.Delete { // a delete is tried again, with the back-off of any failure
		known.refusal = refusal{reason: states.ReasonPodProblem, part: d.About.Part, words: apply.Message(err), retry: true}
		if errors.Is(err, apply.ErrInvalid) {
			known.refusal.reason, known.refusal.retry = states.ReasonInvalid, s.Facts.Holder == states.HolderPool
		}
		return known, nil
	}
	return known, err
}

// move is a move of a sandbox's pod, or what would be one.
func (l *Sandboxes) move(s Snapshot, d states.Decision) apply.PodMove {
	return apply.PodMove{Pod: s.pods.pod, Sandbox: s.sandbox, Claim: s.claim, Seize: s.syncs > 0, Decision: d}
}

// movePod writes the state of the pod, and what goes with it.
func (l *Sandboxes) movePod(ctx context.Context, s Snapshot, d states.Decision) error {
	ctx, span := apply.Span(ctx, spanPod)
	defer span.End()
	if d.About.Event != states.EventRetired { // which no change of a pod is in the way of
		ctx = apply.While(ctx, l.stands(s))
	}
	got, err := l.Writer.MovePod(ctx, l.move(s, d))
	return l.Stores.Pods.Settle(ctx, s.pods.pod, got, err)
}

// stands returns what tells whether what a move of a pod was decided on still holds: the
// pod is as it was seen, and the claim that it is moved for has not begun to end. What
// such a claim held is deleted with it, and a move would only be in the way.
func (l *Sandboxes) stands(s Snapshot) func() bool {
	still := l.Stores.Pods.Still(s.pods.pod)
	return func() bool {
		if s.Facts.Holder == states.HolderClaim && !l.Stores.Claims.Stays(s.claim) {
			return false
		}
		return still()
	}
}

// keepPod makes the pod, adopts it, brings its metadata in line or deletes it.
func (l *Sandboxes) keepPod(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	ctx, span := apply.Span(ctx, spanPod)
	defer span.End()
	known := s.learned
	switch pod := s.pods.pod; {
	case d.Act == states.Create:
		return known, l.createPod(ctx, s)
	case d.Act == states.Delete:
		got, err := l.Writer.DeletePod(ctx, s.sandbox, pod)
		known.podRead = err == nil // it had the name until now
		if got == nil {
			return known, l.Stores.Pods.SettleDelete(ctx, pod, err)
		}
		return known, l.Stores.Pods.Settle(ctx, pod, got, err)
	case d.Reason == states.ReasonPodAdoptable:
		return known, l.adoptPod(ctx, s)
	default:
		known.syncs++
		got, err := l.Writer.SyncPod(apply.While(ctx, l.stands(s)), l.move(s, d), s.Facts.Stays())
		if err == nil {
			l.Stores.Pods.Unfollow(s.key)
		}
		return known, l.Stores.Pods.Settle(ctx, pod, got, err)
	}
}

// createPod makes the pod.
func (l *Sandboxes) createPod(ctx context.Context, s Snapshot) error {
	b := s.sandbox
	l.InFlight.Begin(b)
	defer l.wakeOwner(b) // a pool counts it, should the sandbox be no more
	defer l.InFlight.End(b)
	if !l.Stores.Sandboxes.Has(b) {
		return nil // it ended before its pool could know that a pod comes
	}
	pod, err := l.Writer.CreatePod(ctx, b)
	switch {
	case errors.Is(err, apply.ErrLost):
		return collide(ctx, l.Stores.Pods, s.key)
	case err != nil:
		return err
	}
	l.tellCreated(s)
	return l.Stores.Pods.Put(pod)
}

// adoptPod makes the sandbox the owner of the pod that has its name.
func (l *Sandboxes) adoptPod(ctx context.Context, s Snapshot) error {
	of := l.Stores.Pods
	pod, found, err := reread(ctx, of, s.key)
	switch {
	case err != nil || !found:
		return err
	case !view.Adoptable(pod, s.sandbox):
		return behold(ctx, of, pod)
	}
	got, err := l.Writer.AdoptPod(ctx, s.sandbox, pod)
	if err == nil {
		of.Unfollow(s.key)
	}
	return of.Settle(ctx, pod, got, err)
}

// keepService makes the Service, brings it in line or deletes it.
func (l *Sandboxes) keepService(ctx context.Context, s Snapshot, d states.Decision) error {
	of, is := l.Stores.Services, s.service.is
	if d.Act == states.Create {
		got, err := l.Writer.CreateService(ctx, s.sandbox)
		if errors.Is(err, apply.ErrLost) {
			return collide(ctx, of, s.key)
		}
		if err != nil {
			return err
		}
		return of.Put(got)
	}
	if d.Act == states.Delete {
		err := l.Writer.DeleteService(ctx, is)
		settled := of.SettleDelete(ctx, is, err)
		if err == nil {
			of.Unfollow(s.key)
		}
		return settled
	}
	got, err := l.Writer.SyncService(ctx, s.sandbox, is)
	if err == nil {
		of.Unfollow(s.key)
	}
	return of.Settle(ctx, is, got, err)
}

// keepVolume makes a claim for storage, or adopts one.
func (l *Sandboxes) keepVolume(ctx context.Context, s Snapshot, d states.Decision) error {
	ctx, span := apply.Span(ctx, spanVolumes)
	defer span.End()
	of, v := l.Stores.Volumes, s.volumes.next
	key := view.Key{Namespace: s.key.Namespace, Name: apply.VolumeName(s.sandbox, v)}
	if d.Act == states.Create {
		got, err := l.Writer.CreateVolume(ctx, s.sandbox, v)
		switch {
		case errors.Is(err, apply.ErrLost):
			return collide(ctx, of, key)
		case err != nil:
			return err
		}
		return of.Put(got)
	}
	is, found, err := reread(ctx, of, key)
	switch {
	case err != nil || !found:
		return err
	case !adoptableVolume(s.sandbox, is):
		return behold(ctx, of, is)
	}
	got, err := l.Writer.AdoptVolume(ctx, s.sandbox, v, is)
	if err == nil {
		of.Unfollow(key)
	}
	return of.Settle(ctx, is, got, err)
}

// reread reads an object with all its metadata: only that says who has made it. One
// that is gone is dropped.
func reread[T store.Object](ctx context.Context, of *store.Store[T], key view.Key) (o T, found bool, err error) {
	if o, found, err = of.Fetch(ctx, key); err == nil && !found {
		of.Unfollow(key)
		_, err = of.Read(ctx, key)
	}
	return o, found, err
}

// collide looks at what has the name of something that is to be made: its own, after
// a lost answer, or what is not to be touched.
func collide[T store.Object](ctx context.Context, of *store.Store[T], key view.Key) error {
	o, found, err := of.Fetch(ctx, key)
	if err != nil || !found { // it went in this moment, if it is not there
		return err
	}
	return behold(ctx, of, o)
}

// behold takes in an object that the informer may not show. One that lacks the label
// is followed, so that an event tells when it goes.
func behold[T store.Object](ctx context.Context, of *store.Store[T], o T) error {
	if o.GetLabels()[apply.LabelNameHash] != "" {
		return of.Put(o)
	}
	if !of.Follow(ctx, o) {
		return fmt.Errorf("%s is in the way, and too many others are watched", view.KeyOf(o))
	}
	return nil
}

// delete deletes a sandbox that was retired, or whose time is over. Should a
// finalizer keep it, there is still nothing left to do about it.
func (l *Sandboxes) delete(ctx context.Context, b *agents.Sandbox) error {
	return l.Stores.Sandboxes.SettleDelete(ctx, b, l.Writer.DeleteSandbox(ctx, b))
}
