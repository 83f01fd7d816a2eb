package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An event is an object as the watch showed it.
type event struct {
	at     time.Time
	object any
	gone   bool
}

// version is the place of an event in the one order that the server has for all
// kinds. Each kind has a watch of its own, and they do not wait for each other.
func (e event) version() uint64 {
	v, err := strconv.ParseUint(e.object.(metav1.Object).GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err) // the server counts
	}
	return v
}

// pace is how much happens between two claims: less than one claim brings about.
const pace = 8

// happened returns how much the watches have shown.
func (r *recorder) happened() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// quiet returns an error while little has happened. It is asked with the
// recorder at rest.
func (r *recorder) quiet(since int) error {
	if n := len(r.events) - since; n < pace {
		return fmt.Errorf("only %d things happened", n)
	}
	return nil
}

// tale puts what happened in order. The pool was of the revision old before.
func (r *recorder) tale(from int, old string) *tale {
	r.mu.Lock()
	defer r.mu.Unlock()
	order := slices.Clone(r.events)
	slices.SortStableFunc(order, func(a, b event) int { return int(int64(a.version()) - int64(b.version())) })
	t := newTale(r.events[from-1].version(), old)
	for _, e := range order {
		t.hear(e)
	}
	t.flush()
	return t
}

// revision returns the one that the pool says it follows.
func (r *recorder) revision() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.world.pools[pool].Status.CurrentRevision
}

// all returns nil if all claims are bound.
func (w *world) all(claims []string) error {
	for _, c := range claims {
		if !w.bound(c) {
			return fmt.Errorf("claim %s is not bound", c)
		}
	}
	return nil
}

// followed returns nil if a pool has gone as far with its template as it will.
func (w *world) followed(r rollout) error {
	if p := w.pools[pool]; p != nil && r.strict && (p.Status.UpdatedReadyReplicas != members || p.Status.StaleReplicas > 0) {
		return fmt.Errorf("%d members are new and ready, %d have not gone", p.Status.UpdatedReadyReplicas, p.Status.StaleReplicas)
	}
	return nil
}

var errLeft = errors.New("not everything is gone")

// empty returns nil if nothing is left.
func (w *world) empty() error {
	if len(w.pods)+len(w.sandboxes)+len(w.claims)+len(w.pools) > 0 {
		return errLeft
	}
	return nil
}
