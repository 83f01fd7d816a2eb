package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A witness judges what the watches show while it happens, and keeps no more of it
// than a violation has to quote.
type witness struct {
	journal *journal

	mu      sync.Mutex
	judge   *world.Judge
	pending []world.Change
	version map[types.UID]uint64   // of what was judged
	lines   map[types.UID][]string // the end of each object's history
	dead    []types.UID            // the deleted, oldest first
	found   []string
}

// How much a witness keeps: of an object, and how many objects that are no more.
const (
	linesKept = 40
	deadKept  = 500
)

// settled is how old a change is when it is judged: what happened before it, on the
// watch of another kind, has been shown by then, even if all watches were broken.
const settled = 15 * time.Second

func newWitness(j *journal) *witness {
	w := &witness{journal: j, version: map[types.UID]uint64{}, lines: map[types.UID][]string{}}
	w.judge = world.NewJudge(func(uid types.UID) string { return "    " + strings.Join(w.lines[uid], "\n    ") })
	return w
}

// see takes in a change.
func (w *witness) see(c world.Change) {
	w.journal.write("%s/%s", c.Object.GetNamespace(), c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, c)
}

// advance judges all that was shown before a time, in the order in which it happened. A
// change waits for those that happened before it and were shown later: one watch may be
// quicker than another.
func (w *witness) advance(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := uint64(math.MaxUint64) // of what waits
	for _, c := range w.pending {
		if !c.At.Before(before) {
			first = min(first, c.Version)
		}
	}
	var ready []world.Change
	w.pending = slices.DeleteFunc(w.pending, func(c world.Change) bool {
		if c.At.Before(before) && c.Version < first {
			ready = append(ready, c)
			return true
		}
		return false
	})
	for _, one := range w.order(ready) {
		w.take(one)
	}
}

// order puts changes in the order in which they happened. What became of a sandbox in a
// gap happened as early as it may have: others were told of it in the same gap.
func (w *witness) order(shown []world.Change) []world.Change {
	type placed struct {
		world.Change
		at uint64
	}
	last := map[types.UID]uint64{}
	var all []placed
	for _, c := range shown { // the changes of one object come in their order
		uid, at := c.Object.GetUID(), c.Version
		if _, ok := c.Object.(*agents.Sandbox); ok && c.Gap && !c.Deleted {
			at = max(last[uid], w.version[uid])
		}
		last[uid] = at
		all = append(all, placed{c, at})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	for i, one := range all {
		shown[i] = one.Change
	}
	return shown
}

func (w *witness) take(c world.Change) {
	uid := c.Object.GetUID()
	line := c.String()
	if c.Gap {
		line = "(gap) " + line
	}
	w.lines[uid] = append(w.lines[uid], line)
	if n := len(w.lines[uid]); n > linesKept {
		w.lines[uid] = w.lines[uid][n-linesKept:]
	}
	w.judge.See(c)
	w.shared(c.Object)
	w.version[uid] = c.Version
	if !c.Deleted {
		return
	}
	w.dead = append(w.dead, uid)
	if len(w.dead) > deadKept {
		delete(w.lines, w.dead[0])
		delete(w.version, w.dead[0])
		w.dead = w.dead[1:]
	}
}

// shared notes a field that two of Kiln's managers own.
func (w *witness) shared(o metav1.Object) {
	mine := slices.DeleteFunc(slices.Clone(o.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool {
		return !strings.HasPrefix(e.Manager, world.Ours)
	})
	for i, a := range mine {
		for _, b := range mine[:i] {
			if a.Manager == b.Manager {
				continue
			}
			one, err := world.Fields(a)
			other, err2 := world.Fields(b)
			if err != nil || err2 != nil {
				continue
			}
			if both := one.Leaves().Intersection(other.Leaves()); !both.Empty() {
				w.wrong("%s %s: %s and %s both own %s", world.KindOf(o), o.GetName(), a.Manager, b.Manager, both)
			}
		}
	}
}

// wrong notes something that must not be, once.
func (w *witness) wrong(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.found, text) {
		w.found = append(w.found, text)
		w.journal.write("WRONG %s", text)
	}
}

// accuse is wrong, for others.
func (w *witness) accuse(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong(format, args...)
}

// violations are all that was found.
func (w *witness) violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Concat(w.found, w.judge.Found())
}
