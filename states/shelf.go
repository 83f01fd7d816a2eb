package states

import (
	"cmp"
	"container/heap"
	"container/list"
	"maps"
	"slices"
	"time"
)

// An Offer is the shelf's answer to a claim.
type Offer uint8

// The offers.
const (
	// OfferNone: the shelf was not asked.
	OfferNone Offer = iota
	// OfferTaken: an entry is the claim's, to adopt now.
	OfferTaken
	// OfferInLine: a member that nobody has spoken for is starting; the claim waits
	// for it in line and will be woken.
	OfferInLine
	// OfferEmpty: nothing is ready and nothing is coming; start an own one.
	OfferEmpty
)

// Offers lists every offer.
var Offers = []Offer{OfferNone, OfferTaken, OfferInLine, OfferEmpty}

// An Entry is one pool member on the shelf.
type Entry struct {
	// Name is the sandbox, unique in its pool.
	Name string
	// Node is where its pod runs; claims are spread over nodes.
	Node string
	// Current: it has the revision the pool's template has now.
	Current bool
	// Since is when it became ready; older ones go first.
	Since time.Time
	// Has are the labels and annotations that its pod was made with.
	Has Metadata
}

// A Metadata is labels and annotations of a pod.
type Metadata struct{ Labels, Annotations map[string]string }

// Fits reports whether what a claim adds can stand beside what a pod was made with: no
// key has two values.
func (m Metadata) Fits(has Metadata) bool {
	fits := func(adds, has map[string]string) bool {
		for k, v := range adds {
			if is, ok := has[k]; ok && is != v {
				return false
			}
		}
		return true
	}
	return fits(m.Labels, has.Labels) && fits(m.Annotations, has.Annotations)
}

// A Shelf holds the members of one pool that claims may take, and the claims
// that wait for one, first come first served. C identifies a claim.
//
// It is a value of memory alone: it takes no lock, reads no clock and can be
// rebuilt from the objects at any time. What it says is never proof; the proof
// is the guarded apply on the sandbox. It only makes losing that race rare.
//
// Invariants: an entry is free, or taken by exactly one claim, never both; a
// claim waits at most once and never while it has taken an entry; while a claim
// waits nothing that fits it is free, and no more claims wait than members are starting; as many
// of those as claims wait are spoken for, the one that began first in front.
type Shelf[C comparable] struct {
	racks   racks
	at      map[string]spot // where a free entry stands, by its name
	node    map[string]*rack
	taken   map[C]*loan
	by      map[string]C // who took an entry, by its name
	coming  starting
	line    *list.List // of claims, first come first served
	arrived map[C]arrival
	served  time.Time // when a claim in line was given a member last
	hurried []string  // the members that a claim waits for since Hurried was asked
}

// A spot is where a free entry stands.
type spot struct {
	rack  *rack
	entry Entry
}

// An arrival is a claim's place in line, since when it has that, and what it adds to the
// pod that it gets.
type arrival struct {
	place *list.Element
	at    time.Time
	adds  Metadata
}

// A loan is an entry a claim has taken. One that cools meanwhile is not free
// when it comes back.
type loan struct {
	entry  Entry
	cooled bool
}

// NewShelf returns an empty shelf.
func NewShelf[C comparable]() *Shelf[C] {
	return &Shelf[C]{
		at: map[string]spot{}, node: map[string]*rack{},
		taken: map[C]*loan{}, by: map[string]C{},
		coming: newStarting(), line: list.New(), arrived: map[C]arrival{},
	}
}

// Take answers a claim that needs a sandbox. Asked again it answers the same:
// an entry stays the claim's until Done, GiveBack or Drop.
func (s *Shelf[C]) Take(claim C, now time.Time) (Entry, Offer) {
	return s.TakeFitting(claim, Metadata{}, now)
}

// TakeFitting is Take for a claim that adds something to its pod: it passes over what does
// not fit that.
func (s *Shelf[C]) TakeFitting(claim C, adds Metadata, now time.Time) (Entry, Offer) {
	if l, ok := s.taken[claim]; ok {
		return l.entry, OfferTaken
	}
	if _, waits := s.arrived[claim]; waits {
		return Entry{}, OfferInLine
	}
	if e, ok := s.best(adds); ok {
		s.unshelve(e.Name)
		s.lend(claim, e)
		return e, OfferTaken
	}
	if s.line.Len() < s.coming.len() {
		s.arrived[claim] = arrival{s.line.PushBack(claim), now, adds}
		s.speakFor()
		return Entry{}, OfferInLine
	}
	return Entry{}, OfferEmpty
}

// Taken returns what a claim has taken, if anything.
func (s *Shelf[C]) Taken(claim C) (Entry, bool) {
	l, ok := s.taken[claim]
	if !ok {
		return Entry{}, false
	}
	return l.entry, true
}

// LentOut lists the members that claims have taken, by name.
func (s *Shelf[C]) LentOut() []string { return slices.Sorted(maps.Keys(s.by)) }

// Borrower is the claim that has taken a member, if one has.
func (s *Shelf[C]) Borrower(name string) (C, bool) {
	claim, ok := s.by[name]
	return claim, ok
}

// Waiting reports since when a claim has been in line, and since when it has seen nobody
// in line be given a member.
func (s *Shelf[C]) Waiting(claim C) (since, still time.Time) {
	since = s.arrived[claim].at
	if since.Before(s.served) && !since.IsZero() {
		return since, s.served
	}
	return since, since
}

// Coming notes a member that is starting, or one that lost its readiness.
func (s *Shelf[C]) Coming(name string) {
	if claim, ok := s.by[name]; ok {
		s.taken[claim].cooled = true
		return
	}
	s.unshelve(name)
	s.coming.add(name)
}

// Put shelves a member that is ready and returns the claims to wake: the first
// in line whom it fits, which has it now. A member that is on the shelf already is brought up
// to date.
func (s *Shelf[C]) Put(e Entry, now time.Time) (woken []C) {
	if claim, ok := s.by[e.Name]; ok {
		s.taken[claim] = &loan{entry: e}
		return nil
	}
	s.coming.remove(e.Name)
	s.unshelve(e.Name)
	for place := s.line.Front(); place != nil; place = place.Next() {
		first := place.Value.(C)
		if !s.arrived[first].adds.Fits(e.Has) {
			continue
		}
		s.leaveLine(first)
		s.lend(first, e)
		s.served = now
		return append(s.surplus(), first)
	}
	s.shelve(e)
	return s.surplus()
}

// best is the free entry that goes first, of those that fit what a claim adds. Nearly always
// that is the first of all.
func (s *Shelf[C]) best(adds Metadata) (Entry, bool) {
	var best *rack
	var entry Entry
	for i, r := range s.racks {
		at := slices.IndexFunc(r.entries, func(e Entry) bool { return adds.Fits(e.Has) })
		switch {
		case at < 0:
			continue
		case i == 0 && at == 0:
			return r.entries[0], true
		}
		if e := r.entries[at]; best == nil || before(r, e, best, entry) {
			best, entry = r, e
		}
	}
	return entry, best != nil
}

// Drop forgets a member: it is gone, retired or somebody's. It returns the
// claims that must look again: the one that had taken it, and those that wait
// for nothing now.
func (s *Shelf[C]) Drop(name string) (woken []C) {
	s.coming.remove(name)
	s.unshelve(name)
	if claim, ok := s.by[name]; ok {
		s.settle(claim)
		woken = append(woken, claim)
	}
	return append(woken, s.surplus()...)
}

// Withdraw takes a member off the shelf for its pool to retire. It refuses one
// that a claim has taken.
func (s *Shelf[C]) Withdraw(name string) (woken []C, ok bool) {
	if _, taken := s.by[name]; taken {
		return nil, false
	}
	return s.Drop(name), true
}

// Done ends a claim's business with the shelf: it has its sandbox. What it took
// is gone from the shelf for good.
func (s *Shelf[C]) Done(claim C) {
	s.settle(claim)
	s.leaveLine(claim)
}

// GiveBack ends a claim's business with the shelf: it does not want a sandbox
// any more. What it took is free again, and wakes the next in line.
func (s *Shelf[C]) GiveBack(claim C, now time.Time) (woken []C) {
	s.leaveLine(claim)
	l, ok := s.taken[claim]
	if !ok {
		return nil
	}
	s.settle(claim)
	if l.cooled {
		s.Coming(l.entry.Name)
		return nil
	}
	return s.Put(l.entry, now)
}

// Awaited reports whether a claim waits for a member that is starting.
func (s *Shelf[C]) Awaited(name string) bool { return s.coming.isSpokenFor(name) }

// Hurried are the members that claims wait for since it was last asked, and that they did
// not wait for before. Some may have ended by now, or be waited for no more.
func (s *Shelf[C]) Hurried() []string {
	hurried := s.hurried
	s.hurried = nil
	return hurried
}

// A Stock is how much of everything a shelf holds: members that are free and that
// claims have taken, and claims that wait.
type Stock struct{ Free, Lent, Waiting int }

// Stock counts what is on the shelf.
func (s *Shelf[C]) Stock() Stock {
	return Stock{Free: len(s.at), Lent: len(s.taken), Waiting: s.line.Len()}
}

// Idle reports whether nothing is on the shelf and nobody waits.
func (s *Shelf[C]) Idle() bool {
	return len(s.racks) == 0 && len(s.taken) == 0 && s.coming.len() == 0 && s.line.Len() == 0
}

func (s *Shelf[C]) lend(claim C, e Entry) {
	s.taken[claim] = &loan{entry: e}
	s.by[e.Name] = claim
}

func (s *Shelf[C]) settle(claim C) {
	if l, ok := s.taken[claim]; ok {
		delete(s.by, l.entry.Name)
		delete(s.taken, claim)
	}
}

func (s *Shelf[C]) leaveLine(claim C) {
	if a, ok := s.arrived[claim]; ok {
		delete(s.arrived, claim)
		s.line.Remove(a.place)
		s.speakFor()
	}
}

// surplus takes out of line the last claims that no starting member is left
// for, so that they look again.
func (s *Shelf[C]) surplus() (woken []C) {
	for s.line.Len() > s.coming.len() {
		last := s.line.Back().Value.(C)
		s.leaveLine(last)
		woken = append(woken, last)
	}
	s.speakFor()
	return woken
}

// speakFor has as many starting members spoken for as claims wait.
func (s *Shelf[C]) speakFor() {
	s.hurried = append(s.hurried, s.coming.speakFor(s.line.Len())...)
}

func (s *Shelf[C]) shelve(e Entry) {
	r := s.node[e.Node]
	if r == nil {
		r = &rack{node: e.Node}
		s.node[e.Node] = r
	}
	i, _ := slices.BinarySearchFunc(r.entries, e, first)
	r.entries = slices.Insert(r.entries, i, e)
	s.at[e.Name] = spot{r, e}
	if len(r.entries) == 1 {
		heap.Push(&s.racks, r)
		return
	}
	heap.Fix(&s.racks, r.index)
}

func (s *Shelf[C]) unshelve(name string) {
	stands, ok := s.at[name]
	if !ok {
		return
	}
	delete(s.at, name)
	r := stands.rack
	i, _ := slices.BinarySearchFunc(r.entries, stands.entry, first)
	r.entries = slices.Delete(r.entries, i, i+1)
	if len(r.entries) == 0 {
		heap.Remove(&s.racks, r.index)
		delete(s.node, r.node)
		return
	}
	heap.Fix(&s.racks, r.index)
}

// first orders entries: of the current revision, then the oldest. Names break
// ties, so that the answer depends on nothing but the entries.
func first(a, b Entry) int {
	if a.Current != b.Current {
		if a.Current {
			return -1
		}
		return 1
	}
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
}

// A rack is the free entries of one node, best first.
type rack struct {
	node    string
	entries []Entry
	index   int
}

// racks is a heap of nodes, so that taking costs the logarithm of their number.
type racks []*rack

func (r racks) Len() int { return len(r) }

// Less puts first a node with an entry of the current revision, then the node
// with the most entries, then the one with the oldest.
func (r racks) Less(i, j int) bool { return before(r[i], r[i].entries[0], r[j], r[j].entries[0]) }

// before reports whether an entry of one node goes before one of another.
func before(in *rack, a Entry, other *rack, b Entry) bool {
	if a.Current != b.Current {
		return a.Current
	}
	return cmp.Or(cmp.Compare(len(other.entries), len(in.entries)), first(a, b)) < 0
}

func (r racks) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

func (r *racks) Push(x any) {
	one := x.(*rack)
	one.index = len(*r)
	*r = append(*r, one)
}

func (r *racks) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
