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
	if owner.Kind != states.OwnerSandbox {
		return
	}
	key := view.OwnerKey(pod)
	l.Shelves.Sync(key)
	b, ok := l.Stores.Sandboxes.Get(key)
	if ok && !p.HasIs {
		l.lostPod(b)
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
	if v := view.Sandbox(b); v.Terminating || v.Retired {
		return
	}
	l.Churn.Add(b.UID, l.Now())
	l.lostMember(b)
}

// lostMember counts what a pool has lost. A pool is the one of the owner's name and of
// its UID: either alone is free text, and may name a pool of another namespace.
func (l *Sandboxes) lostMember(b *agents.Sandbox) {
	if pool, ok := l.Stores.Pools.Get(view.OwnerKey(b)); ok && apply.ControlledBy(pool.UID, b) {
		l.Churn.Add(pool.UID, l.Now())
	}
}

// SandboxChanged wakes the sandbox, and its owners of before and after.
func (l *Sandboxes) SandboxChanged(c store.Change[*agents.Sandbox]) {
	key := view.KeyOf(c.Newest())
	l.Shelves.Sync(key)
	if c.HasIs {
		l.Wake(key)
		l.wakeOwner(c.Is)
	}
	if c.HadWas {
		l.wakeOwner(c.Was)
	}
	if !c.HasIs || c.Replaced() {
		l.ended(c.Was)
	}
}

// ended forgets a sandbox that is gone. A claim of its name may wait for the name.
func (l *Sandboxes) ended(b *agents.Sandbox) {
	l.WakeClaim(view.KeyOf(b))
	l.Churn.Forget(b.UID)
	l.Retirements.Drop(b.UID)
	if !view.Sandbox(b).Retired {
		l.lostMember(b) // somebody else deleted it
	}
}
