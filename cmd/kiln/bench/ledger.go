package bench

import (
	"slices"
	"sync"
	"time"
)

// A life is what was seen of one claim. Times are counted from the beginning of its
// scenario; zero means never.
type life struct {
	name string
	// asked is just before the create call, answered when that came back, seen the first
	// watch event of the claim, bound the one in which it is Ready and names its sandbox,
	// dropped just before the call that deletes it.
	asked, answered, seen, bound, dropped time.Duration
	// sandboxes are all that the claim was ever told of, the first one first.
	sandboxes []string
	// sandbox is the name of the first one.
	sandbox string
	// wants is the least revision of the template that the claim was promised, and got
	// the one that its pod is of. Zero means that nobody promised, or looked.
	wants, got int
	// refused is why the claim could not be made.
	refused string
	// ready is closed when the claim is bound.
	ready chan struct{}
}

// A ledger keeps the lives of the claims of one scenario.
type ledger struct {
	begun time.Time

	mu sync.Mutex
	// revision is what claims are promised that are made from now on.
	revision int
	lives    []*life
	byName   map[string]*life
	errors   map[string]int
	// bound and refused count lives.
	bound, refused int
}

func newLedger() *ledger {
	return &ledger{begun: time.Now(), byName: map[string]*life{}, errors: map[string]int{}}
}

// ask notes that a claim is about to be made.
func (l *ledger) ask(name string) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &life{name: name, wants: l.revision, ready: make(chan struct{})}
	l.byName[name] = one
	l.lives = append(l.lives, one)
	one.asked = time.Since(l.begun)
	return one
}

// answer notes the answer to the create call.
func (l *ledger) answer(one *life, err error) {
	now := time.Since(l.begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		one.refused = kindOf(err)
		l.errors["create: "+one.refused]++
		l.refused++
		return
	}
	one.answered = now
}

// drop notes that a claim is about to be deleted.
func (l *ledger) drop(one *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.dropped = time.Since(l.begun)
}

// fail counts an error that is none of a create call.
func (l *ledger) fail(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors[what+": "+kindOf(err)]++
}

// promise has claims that are made from now on be promised a revision.
func (l *ledger) promise(revision int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision = revision
}

// serve notes of which revision the pod of a claim is.
func (l *ledger) serve(one *life, revision int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.got = revision
}

// see notes an event of a claim.
func (l *ledger) see(at time.Time, e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ours := l.byName[e.Object.Metadata.Name]
	if !ours || e.Type == deleted {
		return
	}
	now := at.Sub(l.begun)
	if one.seen == 0 {
		one.seen = now
	}
	told := e.Object.Status.Sandbox
	if told.Name == "" || !e.Object.Status.ready() {
		return
	}
	if id := told.Name + "/" + told.UID; !slices.Contains(one.sandboxes, id) {
		one.sandboxes = append(one.sandboxes, id)
	}
	if one.bound == 0 {
		one.bound, one.sandbox = now, told.Name
		l.bound++
		close(one.ready)
	}
}

// waiting counts the claims that were made and are not bound, and those that are.
func (l *ledger) waiting() (waiting, bound int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lives) - l.refused - l.bound, l.bound
}

// close ends the book: copies of all lives, and the errors.
func (l *ledger) close() ([]life, map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lives := make([]life, len(l.lives))
	for i, one := range l.lives {
		lives[i] = *one
	}
	return lives, l.errors
}
