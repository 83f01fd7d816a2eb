package watch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// A change is what an event says: an object as it was and as it is. An object
// that was just made has no was, one that is gone has no is.
type change[T object] struct {
	was, is       T
	hadWas, hasIs bool
}

// either is the newest that the change shows.
func (c change[T]) either() T {
	if c.hasIs {
		return c.is
	}
	return c.was
}

// listen ties every event to the keys it wakes.
func (c *Controller) listen() error {
	for _, tie := range []func() error{
		func() error { return on(c, c.stores.pods, c.podChanged) },
		func() error { return on(c, c.stores.sandboxes, c.sandboxChanged) },
		func() error { return on(c, c.stores.claims, c.claimChanged) },
		func() error { return on(c, c.stores.pools, c.poolChanged) },
		func() error { return on(c, c.stores.templates, c.templateChanged) },
	} {
		if err := tie(); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}

func on[T object](c *Controller, s *store[T], do func(change[T])) error {
	r, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { do(change[T]{is: o.(T), hasIs: true}) },
		UpdateFunc: func(was, is any) {
			do(change[T]{was: was.(T), is: is.(T), hadWas: true, hasIs: true})
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if was, ok := o.(T); ok {
				do(change[T]{was: was, hadWas: true})
			}
		},
	})
	if err != nil {
		return err
	}
	c.synced = append(c.synced, s.informer.HasSynced, r.HasSynced)
	return nil
}

// podChanged wakes the sandbox a pod belongs to, and the pool that counts it, were
// it only as what is left of a member.
func (c *Controller) podChanged(p change[*corev1.Pod]) {
	pod := p.either()
	owner := metav1.GetControllerOfNoCopy(pod)
	if !isSandbox(owner) {
		return
	}
	key := ownerKey(pod, owner)
	c.shelves.sync(key)
	s, ok := c.stores.sandboxes.get(key)
	if ok && !p.hasIs {
		c.lostPod(s)
	}
	c.sandboxes.wake(key)
	if ok && isPool(metav1.GetControllerOfNoCopy(s)) {
		c.wakeOwner(s)
	}
	if !ok || s.UID != owner.UID {
		for _, p := range c.stores.pools.by(byUID, bornFor(pod)) {
			c.pools.wake(keyOf(p))
		}
	}
}

// lostPod notes that the pod of a sandbox that shall live has vanished.
func (c *Controller) lostPod(s *agents.Sandbox) {
	if s.DeletionTimestamp != nil || retired(s) {
		return
	}
	c.troubles.add(s.UID, c.now())
	if owner := metav1.GetControllerOfNoCopy(s); isPool(owner) {
		c.troubles.add(owner.UID, c.now())
	}
}

// sandboxChanged wakes the sandbox, and its owners of before and after.
func (c *Controller) sandboxChanged(s change[*agents.Sandbox]) {
	key := keyOf(s.either())
	c.shelves.sync(key)
	if s.hasIs {
		c.sandboxes.wake(key)
		c.wakeOwner(s.is)
	}
	if s.hadWas {
		c.wakeOwner(s.was)
	}
	if s.hasIs {
		return
	}
	c.claims.wake(key) // a claim of that name may wait for the name
	c.troubles.forget(s.was.UID)
	if owner := metav1.GetControllerOfNoCopy(s.was); isPool(owner) && !retired(s.was) {
		c.troubles.add(owner.UID, c.now()) // somebody else deleted it
	}
}

// claimChanged wakes the claim, and the sandboxes it owns: their pods' words
// follow the claim's status and its end.
func (c *Controller) claimChanged(claim change[*ext.SandboxClaim]) {
	is := claim.either()
	switch {
	case !claim.hasIs:
		c.metrics.forget(is)
	case is.Status.State == "":
		c.metrics.firstSight(is, c.now())
	}
	c.claims.wake(keyOf(is))
	for _, s := range c.stores.sandboxes.by(byOwner, uidOf(is)) {
		c.sandboxes.wake(keyOf(s))
	}
}

// poolChanged wakes the pool and, when more than its status changed, the claims
// that have no sandbox yet. Its end wakes them too.
func (c *Controller) poolChanged(p change[*ext.SandboxWarmPool]) {
	pool := p.either()
	c.pools.wake(keyOf(pool))
	if !p.hasIs {
		c.memory.forget(pool.UID)
		c.troubles.forget(pool.UID)
	}
	if p.hasIs && p.hadWas && p.was.Generation == p.is.Generation && p.was.UID == p.is.UID &&
		p.was.Annotations[apply.NoteMetadata] == p.is.Annotations[apply.NoteMetadata] {
		return
	}
	c.proofs.forget(keyOf(pool))
	c.reshelve(pool)
	c.wakeWaiting(keyOf(pool))
}

// reshelve looks at a pool's members again: which are current has changed, or
// whether that matters.
func (c *Controller) reshelve(p *ext.SandboxWarmPool) {
	for _, s := range c.stores.sandboxes.by(byOwner, uidOf(p)) {
		c.shelves.sync(keyOf(s))
	}
}

// templateChanged wakes the template, the pools that use it and their claims
// that have no sandbox yet.
func (c *Controller) templateChanged(t change[*ext.SandboxTemplate]) {
	template := t.either()
	c.templates.wake(keyOf(template))
	if t.hasIs && t.hadWas && t.was.Generation == t.is.Generation && t.was.UID == t.is.UID {
		return
	}
	for _, p := range c.stores.pools.by(byTemplate, keyOf(template).String()) {
		c.pools.wake(keyOf(p))
		c.reshelve(p)
		c.wakeWaiting(keyOf(p))
	}
}

func (c *Controller) wakeWaiting(pool Key) {
	for _, claim := range c.stores.claims.by(byPool, pool.String()) {
		if claim.Status.SandboxStatus.Name == "" {
			c.claims.wake(keyOf(claim))
		}
	}
}
