package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// patience is how long a world may take to become as wished. It is no measure of
// anything: only a world that will never get there takes that long.
const patience = 2 * time.Minute

// A Change is one object as one event showed it.
type Change struct {
	Object metav1.Object
	// Gone: this is how it was when it was deleted.
	Gone bool
	// Version is the revision at which it happened: one order over all kinds.
	Version uint64
}

// A Recorder keeps every change of a namespace, and how things stand.
type Recorder struct {
	t         *testing.T
	listeners []func(Change)

	mu      sync.Mutex
	sight   Sight
	history []Change
	changed chan struct{}
	excused map[types.UID]bool
}

func newRecorder(t *testing.T) *Recorder {
	return &Recorder{t: t, sight: newSight(), changed: make(chan struct{}), excused: map[types.UID]bool{}}
}

// see takes in one change and passes it on.
func (r *Recorder) see(c Change) {
	r.mu.Lock()
	r.history = append(r.history, c)
	r.sight.take(c)
	r.mu.Unlock()
	for _, listen := range r.listeners {
		listen(c)
	}
	r.poke()
}

// poke has whoever waits look again.
func (r *Recorder) poke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// A Wish is what a test waits for: nil when it is fulfilled, and what is missing
// otherwise.
type Wish func(*Sight) error

// Await returns when a wish after the other has been fulfilled.
func (r *Recorder) Await(wishes ...Wish) {
	r.t.Helper()
	for _, wish := range wishes {
		if err := r.await(wish); err != nil {
			r.t.Fatalf("%v\nall there is:\n%s", err, r.describe())
		}
	}
}

func (r *Recorder) await(wish Wish) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		r.mu.Lock()
		changed, err := r.changed, wish(&r.sight)
		r.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", patience, err)
		}
	}
}

// Look shows how things stand. What it shows is not changed.
func (r *Recorder) Look(look func(*Sight)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	look(&r.sight)
}

// History returns every change, in the order in which they happened.
func (r *Recorder) History() []Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.history)
	slices.SortStableFunc(all, func(a, b Change) int { return int(int64(a.Version) - int64(b.Version)) })
	return all
}

func (r *Recorder) describe() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sight.String()
}

func newChange(o metav1.Object, gone bool) (Change, error) {
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return Change{Object: o, Gone: gone, Version: version}, err
}

// KindOf names an object's kind as the metrics do.
func KindOf(o metav1.Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "pod"
	case *agents.Sandbox:
		return "sandbox"
	case *ext.SandboxClaim:
		return "claim"
	case *ext.SandboxWarmPool:
		return "pool"
	case *ext.SandboxTemplate:
		return "template"
	}
	panic(errors.New("a kind that is not watched"))
}
