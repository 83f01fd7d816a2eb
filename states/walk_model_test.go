package states

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// The world of the walk: what the API server has, and what each leader believes
// it has.
//
// Four sandboxes tell every story of two claims: two members of the pool, and
// the one that each claim may get for its own, which is named as the claim. Each
// has at most one pod, of the same name.
const (
	members = 2
	claims  = 2
	slots   = members + claims
)

// A place is where a sandbox and its pod may be.
type place int

func (s place) String() string { return [...]string{"A", "B", "own-0", "own-1"}[s] }

// A plane is one copy of every object, a byte each.
type plane struct {
	sandbox  [slots]byte
	pod      [slots]byte
	claim    [claims]byte
	template [1]byte
}

// A world is the truth, and the view of each leader.
type world struct {
	truth plane
	view  [2]plane
	// replicas is how many members the pool shall have, faults how much has gone
	// wrong.
	replicas, faults byte
	past             past
}

// The bits of a sandbox: who holds it, and what became of it. A member that is
// gone keeps its holder, as the history of a name that nobody gets again.
const (
	holderBits  = 0x07
	byPool      = 1
	byClaim     = 2 // the first claim; the second is one more
	byUser      = 4
	retiredBit  = 0x08
	impostorBit = 0x10 // it has the name its claim was told of, and is another one
	goneBits    = 0x30
)

// The bits of a pod and of a claim: the word, counted from one; then whether the
// pod is Ready, and which sandbox, counted from one, the claim was told of. A
// claim that is binding was told of none, and has in that place the set of the
// members it has refused; once it is told of one, all others are its twins anyway.
const (
	wordBits  = 0x07
	readyBit  = 0x08
	toldShift = 3
)

// A template's content is its revision, counted from one.

// The bits of a view's copy: whether it has the object's present resource
// version, and its present UID.
const (
	contentBits = 0x3f
	currentBit  = 0x40
	sameBit     = 0x80
)

func code(s State) byte { return byte(slices.Index(words, s)) + 1 }

func wordOf(b byte) (s State, ok bool) {
	if b&wordBits == 0 {
		return "", false
	}
	return words[b&wordBits-1], true
}

func toldOf(claim byte) (slot int, ok bool) {
	n := claim >> toldShift & 7
	return int(n) - 1, n != 0 && claim&wordBits != code(Binding)
}

// refuses reports whether a claim has refused a sandbox.
func refuses(claim byte, slot int) bool {
	return claim&wordBits == code(Binding) && claim>>toldShift&7&(1<<slot) != 0
}

// claimOf is the claim that holds a sandbox; it is negative when none does.
func claimOf(sandbox byte) int {
	if holder := int(sandbox & holderBits); holder < byUser {
		return holder - byClaim
	}
	return -1
}

func exists(b byte) bool { return b&contentBits != 0 && b&goneBits != goneBits }

// A kind is one of those that are watched.
type kind int

const (
	sandboxes kind = iota
	pods
	claimants
	templates
	kinds
)

func (k kind) String() string { return [...]string{"sandboxes", "pods", "claims", "template"}[k] }

func (p *plane) of(k kind) []byte {
	switch k {
	case sandboxes:
		return p.sandbox[:]
	case pods:
		return p.pod[:]
	case templates:
		return p.template[:]
	}
	return p.claim[:]
}

// write changes the truth. Every copy is out of date then, but that of a writer
// who learns what became of it.
func (w *world) write(k kind, i int, b byte, by int, learns bool) {
	was := w.truth.of(k)[i]
	w.truth.of(k)[i] = b
	for l := range w.view {
		v := &w.view[l].of(k)[i]
		*v &^= currentBit
		if !exists(was) || !exists(b) {
			*v &^= sameBit
		}
	}
	if learns {
		w.read(k, i, by)
	}
}

// read brings a leader's copy of one object up to date.
func (w *world) read(k kind, i, by int) {
	b := w.truth.of(k)[i]
	if !exists(b) {
		w.view[by].of(k)[i] = 0
		return
	}
	w.view[by].of(k)[i] = b&contentBits | currentBit | sameBit
}

// watch brings a leader's copies of one kind up to date: a watch delivers what
// happens to the objects of a kind in the order it happened. It may stop
// anywhere, since anything may happen before it and after it.
func (w *world) watch(k kind, by int) {
	for i := range w.truth.of(k) {
		w.read(k, i, by)
	}
}

// relist brings everything up to date: all that a controller knows that starts.
func (w *world) relist(by int) {
	for k := range kinds {
		w.watch(k, by)
	}
}

// remove takes a sandbox away, and its pod with it.
func (w *world) remove(slot, by int, learns bool) {
	left := byte(0) // the name of a claim's own sandbox may be used again
	if slot < members {
		left = w.truth.sandbox[slot]&holderBits | goneBits
	}
	w.write(sandboxes, slot, left, by, learns)
	if exists(w.truth.pod[slot]) {
		w.write(pods, slot, 0, by, false)
	}
}

// A renaming swaps the members, or the claims and what is theirs. Worlds that
// differ by a renaming only are one world, and the leaders have no names either.
type renaming struct {
	slot           [slots]int
	swapsClaims    bool
	sandbox, claim [256]byte
}

var renamings = func() (all [4]renaming) {
	for n := range all {
		r := &all[n]
		r.slot, r.swapsClaims = [slots]int{0, 1, 2, 3}, n&2 != 0
		if n&1 != 0 {
			r.slot[0], r.slot[1] = 1, 0
		}
		if n&2 != 0 {
			r.slot[2], r.slot[3] = 3, 2
		}
		for b := range 256 {
			r.sandbox[b], r.claim[b] = byte(b), byte(b)
			if c := claimOf(byte(b)); r.swapsClaims && c >= 0 && c < claims {
				r.sandbox[b] = byte(b)&^holderBits | byte(byClaim+1-c)
			}
			if slot, ok := toldOf(byte(b)); ok && slot < slots {
				r.claim[b] = byte(b)&^(7<<toldShift) | byte(r.slot[slot]+1)<<toldShift
			}
			if refuses(byte(b), 0) != refuses(byte(b), 1) && n&1 != 0 {
				r.claim[b] ^= 3 << toldShift
			}
		}
	}
	return all
}()

func (r *renaming) plane(p *plane) (q plane) {
	for i, j := range r.slot {
		q.sandbox[j] = r.sandbox[p.sandbox[i]]
		q.pod[j] = p.pod[i]
	}
	q.template = p.template
	q.claim = [claims]byte{r.claim[p.claim[0]], r.claim[p.claim[1]]}
	if r.swapsClaims {
		q.claim[0], q.claim[1] = q.claim[1], q.claim[0]
	}
	return q
}

// less orders planes, somehow.
func (p *plane) less(q *plane) bool {
	a, b := p.number(), q.number()
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

func (p *plane) number() [2]uint64 {
	read := binary.BigEndian.Uint32
	return [2]uint64{
		uint64(read(p.sandbox[:]))<<32 | uint64(read(p.pod[:])),
		uint64(p.template[0])<<32 | uint64(read([]byte{p.claim[0], p.claim[1], 0, 0})),
	}
}

// renamed is a world under other names, the leaders in order.
func (w *world) renamed(r *renaming, leaders int) world {
	q := world{replicas: w.replicas, faults: w.faults, truth: r.plane(&w.truth), past: r.past(w.past)}
	for l := range leaders {
		q.view[l] = r.plane(&w.view[l])
	}
	if leaders == 2 && q.view[1].less(&q.view[0]) {
		q.view[0], q.view[1] = q.view[1], q.view[0]
	}
	return q
}

// before orders worlds of one truth, somehow.
func (w *world) before(v *world) bool {
	switch {
	case w.past != v.past:
		return w.past.number() < v.past.number()
	case w.view[0] != v.view[0]:
		return w.view[0].less(&v.view[0])
	}
	return w.view[1].less(&v.view[1])
}

// least is the world that stands for all that are renamings of it.
func (w *world) least(leaders int) world {
	truths := [len(renamings)]plane{w.truth}
	low := truths[0]
	for n := range renamings[1:] {
		truths[n+1] = renamings[n+1].plane(&w.truth)
		if truths[n+1].less(&low) {
			low = truths[n+1]
		}
	}
	best, found := world{}, false
	for n := range truths {
		if truths[n] != low {
			continue
		}
		q := w.renamed(&renamings[n], leaders)
		if !found || q.before(&best) {
			best, found = q, true
		}
	}
	return best
}

// An offerOf is what the shelf says to a claim: the answer, and the member that
// it gives.
type offerOf struct {
	Offer
	slot int
}

// offersOf are the answers that a shelf may give, by which members are free,
// which are starting, and whether another claim asks too: to a claim that comes
// before or after the other, and whichever member is older. The shelf itself is
// asked; it just has a new memory each time, which is what a restart leaves of it.
var offersOf = func() (all [1 << members][1 << members][2][]offerOf) {
	for free := range 1 << members {
		for coming := range 1 << members {
			for older := range members {
				alone := askShelf(free, coming, older, false)
				second := askShelf(free, coming, older, true)
				for n, one := range []offerOf{alone, alone, second} {
					if at := &all[free][coming][min(n, 1)]; !slices.Contains(*at, one) {
						*at = append(*at, one)
					}
				}
			}
		}
	}
	return all
}()

func askShelf(free, coming, older int, afterAnother bool) offerOf {
	s := NewShelf[string]()
	for i := range members {
		if coming&(1<<i) != 0 {
			s.Coming(place(i).String())
		}
		if free&(1<<i) != 0 {
			s.Put(Entry{Name: place(i).String(), Current: true, Since: at((i - older + members) % members)}, time.Time{})
		}
	}
	if afterAnother {
		s.Take("another", time.Time{})
	}
	e, answer := s.Take("it", time.Time{})
	for i := range members {
		if answer == OfferTaken && e.Name == place(i).String() {
			return offerOf{answer, i}
		}
	}
	return offerOf{Offer: answer}
}

// onShelf says which members a leader's view shows to be free, and which to be
// starting.
func (s *stroll) onShelf(l int) (free, coming int) {
	v := &s.w.view[l]
	for i := range members {
		switch s.by.place(s.member(l, i), v.box(i), s.strict) {
		case PlaceFree:
			free |= 1 << i
		case PlaceComing:
			coming |= 1 << i
		case PlaceNone:
		}
	}
	return free, coming
}

// broke says which promise a change of the truth breaks, whoever made it.
func broke(was, is *plane) string {
	for i, b := range was.sandbox {
		if c := claimOf(b); c >= 0 && exists(b) && exists(is.sandbox[i]) && claimOf(is.sandbox[i]) != c {
			return fmt.Sprintf("P1: sandbox %s belonged to claim %d and belongs to claim %d now", place(i), c, claimOf(is.sandbox[i]))
		}
		if exists(b) && exists(is.sandbox[i]) && b&retiredBit != 0 && claimOf(is.sandbox[i]) != claimOf(b) {
			return fmt.Sprintf("P3: sandbox %s was retired, and is handed out", place(i))
		}
	}
	for i, c := range was.claim {
		before, wasTold := toldOf(c)
		if after, isTold := toldOf(is.claim[i]); wasTold && isTold && before != after {
			return fmt.Sprintf("P1: claim %d was told of sandbox %s and is told of %s now", i, place(before), place(after))
		}
		if why := strayed(Claim, c, is.claim[i]); why != "" {
			return fmt.Sprintf("P4: claim %d went %s", i, why)
		}
	}
	for i, p := range was.pod {
		if why := strayed(Pod, p, is.pod[i]); why != "" {
			return fmt.Sprintf("P4: pod %s went %s", place(i), why)
		}
	}
	return ""
}

func strayed(c Chart, was, is byte) string {
	from, old := wordOf(was)
	to, young := wordOf(is)
	if !old || !young || from == to {
		return ""
	}
	if _, ok := c.Between(from, to); ok {
		return ""
	}
	return fmt.Sprintf("from %s to %s", from, to)
}

// unsettled says what is not as it shall be in a world where nothing is left to
// do; it is empty when every claim has its sandbox or has lost it, and the pool
// is as its strategy wants it.
func (s *scene) unsettled(w *world) string {
	for i, c := range w.truth.claim {
		state, known := wordOf(c)
		slot, told := toldOf(c)
		bound := state == Bound && told && w.truth.sandbox[slot] == byte(byClaim+i) && w.truth.pod[slot] == code(Bound)|readyBit
		waits := state == Binding && w.truth.sandbox[members+i]&holderBits == byUser // its name is taken, and it says so
		if known && !bound && !waits && state != Stale {
			return fmt.Sprintf("claim %d stays %s for ever", i, state)
		}
	}
	have, old, names := 0, 0, 0
	for i, b := range w.truth.sandbox {
		c := claimOf(b)
		slot, told := toldOf(w.truth.claim[max(c, 0)])
		switch {
		case !exists(b) && b&goneBits == 0 && i < members:
			names++
		case !exists(b), b&holderBits == byUser:
		case b&retiredBit != 0:
			return fmt.Sprintf("sandbox %s is retired and never leaves", place(i))
		case c >= 0 && (!told || slot != i || b&impostorBit != 0):
			return fmt.Sprintf("claim %d keeps sandbox %s, of which nobody will ever tell it", c, place(i))
		case c < 0 && w.truth.pod[i] != code(Ready)|readyBit:
			return fmt.Sprintf("member %s never becomes ready", place(i))
		case c < 0:
			if have++; w.past.made[i] != w.truth.template[0] {
				old++
			}
		}
	}
	if rolls := s.policy.Strategy == Recreate || s.policy.Strategy == Rolling && names > 0; rolls && old > 0 {
		return "some members stay outdated for ever"
	}
	if n := int(w.replicas); have > n || have < n && names > 0 {
		return fmt.Sprintf("the pool has %d members and shall have %d", have, n)
	}
	return ""
}
