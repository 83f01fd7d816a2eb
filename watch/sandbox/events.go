package sandbox

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// PodChanged wakes the sandbox that a pod belongs to, and the pool that counts it,
// were it only as what is left of a member.
func (l *Sandboxes) PodChanged(p store.Change[*corev1.Pod]) {
	pod := p.Newest()
	owner := apply.OwnerOf(pod)
	if b, ok := l.Stores.Sandboxes.Get(view.KeyOf(pod)); ok && string(b.UID) != owner.UID {
		l.Wake(view.KeyOf(pod)) // it is, or was, in the way of that one
	}
	if owner.Kind != states.OwnerSandbox {
		return
	}
	key := view.OwnerKey(pod)
	l.Shelves.Sync(key)
	b, ok := l.Stores.Sandboxes.Get(key)
	switch {
	case p.Missed: // nobody saw how it ended
	case ok && !p.HasIs:
		l.lostPod(b)
	case ok && view.Pod(pod, b) == states.PodReady:
		l.live(b)
	}
	l.Wake(key)
	if ok && apply.OwnerOf(b).Kind == states.OwnerPool {
		l.wakeOwner(b)
	}
	if !ok || string(b.UID) != owner.UID {
		for _, pool := range l.Stores.Pools.By(store.ByID, store.BornFor(pod)) {
			l.WakePool(view.KeyOf(pool))
		}
	}
}

// lostPod counts that the pod of a sandbox that shall live has vanished.
func (l *Sandboxes) lostPod(b *agents.Sandbox) {
	if v := view.Sandbox(b); v.Terminating || v.Retired || v.Idle {
		return
	}
	l.Churn.Add(b.UID, podsFree, l.Now())
	l.lostMember(b)
	l.Churn.Restart(b.UID)
	l.settle(b)
}

// live takes in that a pool's member has been ready.
func (l *Sandboxes) live(b *agents.Sandbox) {
	if apply.OwnerOf(b).Kind == states.OwnerPool {
		l.Churn.Live(b.UID)
		l.settle(b)
	}
}

// settle forgets what was remembered of a sandbox that has ended meanwhile. What is
// remembered is remembered first: either this look sees the end, or the end comes
// after it and forgets.
func (l *Sandboxes) settle(b *agents.Sandbox) {
	if !l.Stores.Sandboxes.Has(b) {
		l.Churn.Forget(b.UID)
		l.News.Forget(b.UID)
	}
}

// lostMember counts what a pool has lost before it was ever ready. What was ready and
// ends says nothing of those that are made next. A pool is the one of the owner's name
// and of its UID: either alone is free text, and may name a pool of another namespace.
func (l *Sandboxes) lostMember(b *agents.Sandbox) {
	pool, ok := l.Stores.Pools.Get(view.OwnerKey(b))
	if !ok || !apply.ControlledBy(pool.UID, b) || l.Churn.Lived(b.UID) {
		return
	}
	l.Churn.Add(pool.UID, view.LossesFree(pool), l.Now())
	if !l.Stores.Pools.Has(pool) {
		l.Churn.Forget(pool.UID)
	}
}

// ServiceChanged wakes the sandbox of a Service's name: it is its own, or in its way.
func (l *Sandboxes) ServiceChanged(c store.Change[*corev1.Service]) {
	l.Wake(view.KeyOf(c.Newest()))
}

// VolumeChanged wakes the sandboxes that need a claim for storage: it is their own,
// or in their way.
func (l *Sandboxes) VolumeChanged(c store.Change[*corev1.PersistentVolumeClaim]) {
	for _, b := range l.Stores.Sandboxes.By(store.ByVolume, view.KeyOf(c.Newest()).String()) {
		l.Wake(view.KeyOf(b))
	}
}

// SandboxChanged wakes the sandbox, and its owners of before and after.
func (l *Sandboxes) SandboxChanged(c store.Change[*agents.Sandbox]) {
	key := view.KeyOf(c.Newest())
	l.Shelves.Sync(key)
	if c.HasIs {
		if apply.OwnerOf(c.Is).Kind != states.OwnerPool {
			l.Refusals.Drop(c.Is.UID)
		}
		l.Wake(key)
		l.wakeOwner(c.Is)
	}
	if c.HadWas {
		l.wakeOwner(c.Was)
	}
	if !c.HasIs || c.Replaced() {
		if !c.Missed && !view.Sandbox(c.Was).Retired {
			l.lostMember(c.Was) // somebody else deleted it
		}
		l.ended(c.Was)
	}
}

// ended forgets a sandbox that is gone. A claim of its name may wait for the name.
func (l *Sandboxes) ended(b *agents.Sandbox) {
	l.WakeClaim(view.KeyOf(b))
	l.Stores.Pods.Unfollow(view.KeyOf(b))
	l.Stores.Services.Unfollow(view.KeyOf(b))
	for _, v := range b.Spec.VolumeClaimTemplates {
		l.Stores.Volumes.Unfollow(view.Key{Namespace: b.Namespace, Name: apply.VolumeName(b, v)})
	}
	l.Churn.Forget(b.UID)
	l.News.Forget(b.UID)
	l.Retirements.Drop(b.UID)
	l.Refusals.Drop(b.UID)
}
