package world

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// A Recorder keeps every change that its watches show, and how things stand.
type Recorder struct {
	listeners []func(Change)
	endures   bool
	forgets   bool

	mu       sync.Mutex
	snapshot Snapshot
	history  []Change
	changed  chan struct{}
	broken   error
}

// NewRecorder returns a recorder that watches nothing yet.
func NewRecorder() *Recorder {
	return &Recorder{snapshot: newSnapshot(), changed: make(chan struct{})}
}

// Listen has every change passed on. It is called before Watch.
func (r *Recorder) Listen(to func(Change)) { r.listeners = append(r.listeners, to) }

// Endure has the recorder outlive the server: when a watch breaks it lists anew, and
// what it then sees comes with a gap before it. It keeps no history: whoever wants one
// listens. It is called before Watch.
func (r *Recorder) Endure() { r.endures, r.forgets = true, true }

// see takes in one change and passes it on.
func (r *Recorder) see(c Change) {
	r.mu.Lock()
	r.snapshot.Take(c)
	if r.forgets {
		r.snapshot.forget(c)
	} else {
		r.history = append(r.history, c)
	}
	r.mu.Unlock()
	for _, listen := range r.listeners {
		listen(c)
	}
	r.Poke()
}

// Poke has whoever waits look again, for conditions that look at more than the
// snapshot.
func (r *Recorder) Poke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.poke()
}

func (r *Recorder) poke() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// fail ends every wait: a watch has ended, and what it would show is lost.
func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
	r.poke()
}

// missing are the objects of a kind that are known and not among these.
func (r *Recorder) missing(kind string, there map[types.UID]bool) []metav1.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(r.snapshot.All(kind), func(o metav1.Object) bool { return there[o.GetUID()] })
}

// newer reports whether a change is later than what is known of its object.
func (r *Recorder) newer(c Change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot.versions[c.Object.GetUID()] < c.Version
}

// Err is what ended a watch too early.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// Wait returns when one condition after the other has held, or with what is
// missing when ctx ends.
func (r *Recorder) Wait(ctx context.Context, conditions ...Condition) error {
	for _, condition := range conditions {
		if err := r.wait(ctx, condition); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) wait(ctx context.Context, condition Condition) error {
	for {
		changed, err, broken := r.try(condition)
		switch {
		case err == nil:
			return nil
		case broken != nil:
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w (%w); all there is:\n%s", err, context.Cause(ctx), r)
		}
	}
}

// try holds the lock for one condition, also when that panics.
func (r *Recorder) try(condition Condition) (changed <-chan struct{}, err, broken error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed, condition(&r.snapshot), r.broken
}

// Look shows how things stand. What it shows is not changed.
func (r *Recorder) Look(look func(*Snapshot)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	look(&r.snapshot)
}

// Holds returns nil if a condition holds now.
func (r *Recorder) Holds(condition Condition) (err error) {
	r.Look(func(s *Snapshot) { err = condition(s) })
	return err
}

// Seen returns every change in the order in which the watches showed it.
func (r *Recorder) Seen() []Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.history)
}

// Forget drops what has happened by now, and what is no more. It keeps how the policies
// came that are still there: they outlive their templates, and what is made from the
// next ones is judged by them.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[types.UID]bool{}
	for _, p := range r.snapshot.All("policy") {
		there[p.GetUID()] = true
	}
	r.history = slices.DeleteFunc(r.history, func(c Change) bool {
		p, ok := c.Object.(*networkingv1.NetworkPolicy)
		return !ok || !there[p.UID]
	})
	for uid := range r.snapshot.Deleted {
		r.snapshot.dropped(uid)
	}
	r.snapshot.Transitions = nil // each holds its object
}

// History returns every change in the order in which it happened.
func (r *Recorder) History() []Change {
	all := r.Seen()
	slices.SortStableFunc(all, func(a, b Change) int { return int(int64(a.Version) - int64(b.Version)) })
	return all
}

// When is the time at which the watches first showed that a condition held.
func (r *Recorder) When(condition Condition) time.Time {
	s := newSnapshot()
	for _, c := range r.Seen() {
		if s.Take(c); condition(&s) == nil {
			return c.At
		}
	}
	return time.Time{}
}

// String lists all there is.
func (r *Recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot.String()
}

// Members are the members of a pool, by name.
func (r *Recorder) Members(pool string) (names []string) {
	r.Look(func(s *Snapshot) { names = s.Members(pool) })
	return names
}

// SandboxOf is the name of the sandbox that a claim was told of.
func (r *Recorder) SandboxOf(claim string) (name string) {
	r.Look(func(s *Snapshot) { name = s.SandboxOf(claim) })
	return name
}

// States are the states an object has had, one after another, as they stood there.
func (r *Recorder) States(of metav1.Object) (all []string) {
	for _, c := range r.History() {
		if c.Object.GetUID() != of.GetUID() {
			continue
		}
		state := ""
		switch o := c.Object.(type) {
		case *corev1.Pod:
			state = o.Labels[apply.LabelState]
		case *ext.SandboxClaim:
			state = string(o.Status.State)
		}
		if len(all) == 0 || all[len(all)-1] != state {
			all = append(all, state)
		}
	}
	return all
}

// EverHeld are the sandboxes, by name, that a claim has ever been the owner of.
func (r *Recorder) EverHeld(claim types.UID) (names []string) {
	for _, c := range r.History() {
		s, ok := c.Object.(*agents.Sandbox)
		if !ok || slices.Contains(names, s.Name) {
			continue
		}
		if owner := metav1.GetControllerOf(s); owner != nil && owner.UID == claim {
			names = append(names, s.Name)
		}
	}
	return names
}

// MostMembers is the largest number of members a pool ever had at once, those
// that were retired not counted.
func (r *Recorder) MostMembers(pool types.UID) int {
	now, most := map[types.UID]bool{}, 0
	for _, c := range r.History() {
		s, ok := c.Object.(*agents.Sandbox)
		if !ok {
			continue
		}
		delete(now, s.UID)
		if !c.Deleted && member(s, pool) {
			now[s.UID] = true
		}
		most = max(most, len(now))
	}
	return most
}
