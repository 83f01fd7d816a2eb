package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// patience bounds every wait of the story.
const patience = time.Minute

// A recorder watches pods, claims, sandboxes and pools from before the first of
// them. It keeps every change of a word with the time at which the watch showed
// it, and wakes whoever waits for the world to be a certain way.
type recorder struct {
	mu      sync.Mutex
	world   world
	moves   []move
	events  []event
	ready   map[string]time.Time // when the watch first showed a claim Ready
	changed chan struct{}
}

func newRecorder() *recorder {
	return &recorder{
		world: world{
			pods:      map[string]*corev1.Pod{},
			claims:    map[string]*extensions.SandboxClaim{},
			sandboxes: map[string]*agents.Sandbox{},
			pools:     map[string]*extensions.SandboxWarmPool{},
		},
		ready:   map[string]time.Time{},
		changed: make(chan struct{}),
	}
}

// await returns when missing finds nothing amiss, or says in the end what it
// found and how things stood.
func (r *recorder) await(ctx context.Context, missing func(*world) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r.mu.Lock()
		why, changed, now := missing(&r.world), r.changed, r.world.String()
		r.mu.Unlock()
		if why == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w, after %s; all there is:\n  %s", why, patience, now)
		}
	}
}

// sandboxOf returns the name of the sandbox that a claim names.
func (r *recorder) sandboxOf(claim string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.world.claims[claim]; c != nil {
		return c.Status.SandboxStatus.Name
	}
	return ""
}

// since returns the moves from a time on.
func (r *recorder) since(t time.Time) []move {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range r.moves {
		if !m.at.Before(t) {
			return append([]move(nil), r.moves[i:]...)
		}
	}
	return nil
}

// readyAt tells when the watch showed a claim Ready for the first time.
func (r *recorder) readyAt(claim string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready[claim]
}

// see takes in one object; gone means that it was deleted.
func (r *recorder) see(o any, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.events = append(r.events, event{now, o, gone})
	switch o := o.(type) {
	case *corev1.Pod:
		r.note(now, states.Pod, o.Name, wordOfPod(r.world.pods[o.Name]), wordOfPod(o), gone)
		keepIn(r.world.pods, o.Name, o, gone)
	case *extensions.SandboxClaim:
		r.note(now, states.Claim, o.Name, wordOfClaim(r.world.claims[o.Name]), wordOfClaim(o), gone)
		keepIn(r.world.claims, o.Name, o, gone)
		if _, known := r.ready[o.Name]; !known && r.world.bound(o.Name) {
			r.ready[o.Name] = now
		}
	case *agents.Sandbox:
		keepIn(r.world.sandboxes, o.Name, o, gone)
	case *extensions.SandboxWarmPool:
		keepIn(r.world.pools, o.Name, o, gone)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func keepIn[T any](objects map[string]T, name string, o T, gone bool) {
	if gone {
		delete(objects, name)
		return
	}
	objects[name] = o
}
