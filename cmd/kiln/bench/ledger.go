package bench

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A life is what was seen of one claim. Times are counted from the beginning of its
// scenario; zero means never.
type life struct {
	name string
	uid  string
	// asked is just before the create call, answered when that came back, seen the first
	// watch event of the claim, bound the one in which it is Ready and names its sandbox,
	// served when its pod says that it is the claim's as well, dropped just before the call
	// that deletes it.
	asked, answered, seen, bound, served, dropped time.Duration
	// unreachable: when the claim was Ready its pod did not yet say that it is the
	// claim's, by the order in which the API server wrote the two.
	unreachable bool
	// version is that of the claim when it was Ready first.
	version string
	// sandboxes are all that the claim was ever told of, the first one first.
	sandboxes []string
	// sandbox is the name of the first one.
	sandbox string
	// wants is the least revision of the template that the claim was promised, and got
	// the one that its pod is of. Zero means that nobody promised, or looked.
	wants, got int
	// refused is why the claim could not be made.
	refused string
	// done is closed when the claim is served.
	done chan struct{}
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
	// bare: no pods are looked at. A claim is served when it is Ready.
	bare bool
	// labelled: pods carry the UIDs of claims. A controller that writes none is judged by
	// the pool's label alone.
	labelled bool
	// marked are the pods without a pool's label, and waits the claims that are Ready and
	// whose pod is not known to be theirs yet, both by the pod's name.
	marked map[string]claimed
	waits  map[string]*life
	// served and refused count lives.
	served, refused int
}

// A claimed is what a pod says of the claim that it belongs to, and since when. The claim
// is empty if the pod does not carry its UID.
type claimed struct {
	claim, version string
	at             time.Duration
}

func newLedger() *ledger {
	return &ledger{begun: time.Now(), byName: map[string]*life{}, errors: map[string]int{}, marked: map[string]claimed{}, waits: map[string]*life{}}
}

// ignorePods has claims count as served when they are Ready.
func (l *ledger) ignorePods() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bare = true
}

// ask notes that a claim is about to be made.
func (l *ledger) ask(name string) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &life{name: name, wants: l.revision, done: make(chan struct{})}
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

// revise notes of which revision the pod of a claim is.
func (l *ledger) revise(one *life, revision int) {
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
	if one.bound > 0 {
		return
	}
	one.bound, one.sandbox, one.uid, one.version = now, told.Name, e.Object.Metadata.UID, e.Object.Metadata.ResourceVersion
	if m, ok := l.marked[one.sandbox]; l.bare || ok && l.fits(m, one) {
		l.serve(one, m)
		return
	}
	l.waits[one.sandbox] = one
}

// seePod notes an event of a pod.
func (l *ledger) seePod(at time.Time, e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := e.Object.Metadata
	if l.bare {
		return
	}
	if e.Type == deleted || is.Labels.Pool != nil {
		delete(l.marked, is.Name)
		return
	}
	l.labelled = l.labelled || is.Labels.ClaimUID != ""
	if had, ok := l.marked[is.Name]; ok && had.claim == is.Labels.ClaimUID {
		return
	}
	m := claimed{is.Labels.ClaimUID, is.ResourceVersion, at.Sub(l.begun)}
	l.marked[is.Name] = m
	if one := l.waits[is.Name]; one != nil && l.fits(m, one) {
		l.serve(one, m)
	}
}

// fits reports whether a pod is known to be a claim's.
func (l *ledger) fits(pod claimed, one *life) bool {
	return pod.claim == one.uid || pod.claim == "" && !l.labelled
}

// serve notes that a claim can be used. Which of the two was written first the resource
// versions say: watches of two kinds may be read in another order.
func (l *ledger) serve(one *life, pod claimed) {
	one.served = max(one.bound, pod.at)
	one.unreachable = !l.bare && later(pod.version, one.version)
	delete(l.waits, one.sandbox)
	l.served++
	close(one.done)
}

// later compares resource versions, which are numbers of one sequence for all kinds of a
// server whose objects are in one etcd.
func later(a, than string) bool {
	c, err := resourceversion.CompareResourceVersion(a, than)
	return err == nil && c > 0
}

// waiting counts the claims that were made and are not served, and those that are.
func (l *ledger) waiting() (waiting, served int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lives) - l.refused - l.served, l.served
}

// close ends the book: copies of all lives, and the errors.
func (l *ledger) close() ([]life, map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lives := make([]life, len(l.lives))
	for i, one := range l.lives {
		one.unreachable = one.unreachable || one.bound > 0 && one.served == 0
		lives[i] = *one
	}
	return lives, l.errors
}
