package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Several loops write the same object: the status of a sandbox is written by its own
// and its labels by its claim's, and both name the version that they saw. Of two such
// writes at once one would lose. So the writes of this process to one object take turns,
// and one whose version a write before it has made old is not sent: who wanted it is
// told that it lost, and looks again.

// errSuperseded says that a write was not sent, for one of our own came before it.
var errSuperseded = errors.New("a write of ours has changed it since")

// An object is what takes one write at a time.
type object struct {
	kind string
	key  types.NamespacedName
}

// object is what a write is about. A subresource has the version of the whole.
func (w write) object() object { return object{strings.TrimSuffix(w.kind, "status"), w.key} }

// turns are the objects that are being written, and those that were written last: whoever
// has decided on a view from before such a write comes a moment later. It keeps no more
// of these than remembers says.
type turns struct {
	remembers int

	mu     sync.Mutex
	of     map[object]*contended
	recent []object
}

// A contended is one object: who writes it now, who is about to, and the version that the
// last answer showed.
type contended struct {
	turn    chan struct{}
	users   int // writes that are under way or wait, and entries in recent
	version string
}

func newTurns(remembers int) *turns {
	return &turns{remembers: remembers, of: map[object]*contended{}}
}

// turnPatience is the longest a write waits for its turn. It is far more than a write
// takes on a server that is busy, and less than one takes that hangs. Who waits so long
// holds no place in its class meanwhile (classes.go).
const turnPatience = 10 * time.Second

// take waits for the turn of a write, and no longer than turnPatience: one that hangs
// holds up no other for good. The function that it returns ends the turn; it is
// called with what the server returned.
func (t *turns) take(ctx context.Context, w write) (end func(answer any), err error) {
	if w.kind == "event" { // it is about an object, and another one
		return func(any) {}, nil
	}
	q := t.join(w.object())
	late := time.NewTimer(turnPatience)
	defer late.Stop()
	mine := false
	select {
	case q.turn <- struct{}{}:
		mine = true
	case <-late.C:
	case <-ctx.Done(): // the request says so
	}
	end = func(answer any) {
		t.leave(w.object(), q, answer)
		if mine {
			<-q.turn
		}
	}
	switch {
	case t.outdated(q, w.seen):
		err = errors.Join(ErrLost, errSuperseded)
	case !wanted(ctx):
		err = errors.Join(ErrLost, ErrOutdated)
	}
	return end, err
}

func (t *turns) join(o object) *contended {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.of[o]
	if q == nil {
		q = &contended{turn: make(chan struct{}, 1)}
		t.of[o] = q
	}
	q.users++
	return q
}

// leave ends a write, and takes in the version that its answer shows.
func (t *turns) leave(o object, q *contended, answer any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	got, ok := answer.(metav1.Object)
	if !ok || !newerVersion(got.GetResourceVersion(), q.version) {
		t.release(o, q)
		return
	}
	q.version = got.GetResourceVersion()
	t.recent = append(t.recent, o) // and counts as a user
	if len(t.recent) > t.remembers {
		first := t.recent[0]
		t.recent = slices.Delete(t.recent, 0, 1)
		t.release(first, t.of[first])
	}
}

// release drops what nobody has a use for.
func (t *turns) release(o object, q *contended) {
	if q.users--; q.users == 0 {
		delete(t.of, o)
	}
}

// outdated reports whether a write of ours is newer than what another one has seen.
func (t *turns) outdated(q *contended, seen string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return seen != "" && newerVersion(q.version, seen)
}

// newerVersion compares versions of one object. What is no version is not newer.
func newerVersion(a, than string) bool {
	if a == "" || than == "" {
		return a != ""
	}
	c, err := resourceversion.CompareResourceVersion(a, than)
	return err == nil && c > 0
}
