// Package shelf keeps the shelf of each pool: the members that claims may take and
// the claims that wait for one. It is the lock around the pure shelf of package
// states, and fills it from what the stores know.
package shelf

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Shelves hold a shelf for each pool, by the pool's UID. A claim sees three verbs:
// Take, GiveBack and Done.
type Shelves struct {
	// Stores are what the shelves are filled from.
	Stores *store.Stores
	// Retirements are the members that are on no shelf any more.
	Retirements *memory.Retirements
	// Refusals are the members that the API server does not let claims have; nil if
	// nobody notes them.
	Refusals *memory.Refusals
	// Now is the clock.
	Now func() time.Time
	// WakeClaim has a claim look again, WakePool a pool. Hurry tells that a claim waits
	// for a member that is starting, from now on.
	WakeClaim, WakePool, Hurry func(view.Key)

	mu    sync.Mutex
	shelf map[types.UID]*states.Shelf[borrower]
	// on is the shelf that each member was last put on, and visits are the claims
	// that have business with one, by their name: both can be found when the objects
	// have changed.
	on     map[view.Key]types.UID
	visits map[view.Key]visit
}

// A borrower is a claim as the shelf knows it: a claim that is deleted and made
// again under its name is another one.
type borrower struct {
	view.Key
	uid types.UID
}

// A visit is a claim's business with a shelf.
type visit struct {
	borrower
	pool types.UID
}

// New returns shelves with nothing on them.
func New(s *store.Stores, r *memory.Retirements, wakeClaim, wakePool func(view.Key)) *Shelves {
	return &Shelves{
		Stores: s, Retirements: r, WakeClaim: wakeClaim, WakePool: wakePool, Hurry: func(view.Key) {}, Now: time.Now,
		shelf: map[types.UID]*states.Shelf[borrower]{},
		on:    map[view.Key]types.UID{}, visits: map[view.Key]visit{},
	}
}

// An Offer is the shelf's answer to a claim.
type Offer struct {
	states.Offer
	// Member is the sandbox that the claim has taken.
	Member view.Key
	// Since is when the claim came into line, and Still since when nobody there was given
	// a member.
	Since, Still time.Time
}

// Take asks for a sandbox of a pool for a claim, whose pod can have what the claim adds.
// Asked again it answers the same.
func (s *Shelves) Take(pool *ext.SandboxWarmPool, claim *ext.SandboxClaim, now time.Time) Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := visit{borrower{view.KeyOf(claim), claim.UID}, pool.UID}
	if was, ok := s.visits[here.Key]; ok && was != here {
		s.leave(was) // it names another pool by now, or is another claim
	}
	s.visits[here.Key] = here
	shelf := s.of(pool.UID)
	entry, offer := shelf.TakeFitting(here.borrower, view.AddedMetadata(claim), now)
	s.tell(shelf, claim.Namespace, nil)
	since, still := shelf.Waiting(here.borrower)
	return Offer{offer, view.Key{Namespace: claim.Namespace, Name: entry.Name}, since, still}
}

// GiveBack ends the business of the claim of a name without a sandbox.
func (s *Shelves) GiveBack(claim view.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.visits[claim]; ok {
		s.leave(was)
	}
}

// Done ends the business of the claim of a name: it has a sandbox. If that is not
// the one it took here, as when another leader served it, the one it took is free
// again. It reports whether there was anything to end.
func (s *Shelves) Done(claim view.Key, sandbox string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.visits[claim]
	if !ok {
		return false
	}
	if took, ok := s.of(was.pool).Taken(was.borrower); !ok || took.Name != sandbox {
		s.leave(was)
		return true
	}
	s.of(was.pool).Done(was.borrower)
	delete(s.on, view.Key{Namespace: claim.Namespace, Name: sandbox})
	s.forget(was)
	return true
}

// Withdraw takes a member off its shelf for its pool to retire; it refuses one that
// a claim has taken.
func (s *Shelves) Withdraw(member view.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := s.on[member]
	if !ok {
		return true
	}
	shelf := s.of(pool)
	woken, ok := shelf.Withdraw(member.Name)
	s.tell(shelf, member.Namespace, woken)
	return ok
}

// Loan says whether a claim's step is taking a member at this moment.
func (s *Shelves) Loan(member view.Key) states.Loan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pool, ok := s.on[member]; ok {
		if _, lent := s.of(pool).Borrower(member.Name); lent {
			return states.LoanOpen
		}
	}
	return states.LoanClosed
}

// Loans are the members of a pool that claims are taking at this moment, those
// included that are the claims' already and of which they have not been told.
func (s *Shelves) Loans(pool types.UID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shelf, ok := s.shelf[pool]; ok {
		return shelf.LentOut()
	}
	return nil
}

// Stock is what is on each shelf, by the pool's UID.
func (s *Shelves) Stock() map[types.UID]states.Stock {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[types.UID]states.Stock{}
	for pool, shelf := range s.shelf {
		all[pool] = shelf.Stock()
	}
	return all
}

// Awaited reports whether a claim waits for a member that is starting.
func (s *Shelves) Awaited(member view.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := s.on[member]
	return ok && s.of(pool).Awaited(member.Name)
}

// Serves reports whether a member is a claim's to take.
func (s *Shelves) Serves(claim view.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.visits[claim]
	if !ok {
		return false
	}
	_, took := s.of(was.pool).Taken(was.borrower)
	return took
}

// Len is how many shelves, members and claims they know.
func (s *Shelves) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shelf) + len(s.on) + len(s.visits)
}

// Sync brings a member's place on the shelf in line with what the stores know. The
// look and the move are under one lock, so the newest look is the last move. What a
// claim has taken stays the claim's until its step is over: that the sandbox is not
// the pool's any more is the claim's own doing.
func (s *Shelves) Sync(member view.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync(member)
}

func (s *Shelves) sync(member view.Key) {
	pool, entry, place := s.look(member)
	was, had := s.on[member]
	if had && place == states.PlaceNone && s.lentOut(was, member) {
		return
	}
	if had && (place == states.PlaceNone || was != pool) {
		_, lent := s.of(was).Borrower(member.Name)
		s.tell(s.of(was), member.Namespace, s.of(was).Drop(member.Name))
		delete(s.on, member)
		s.tidy(was)
		if lent {
			s.wakePool(member.Namespace, was)
		}
	}
	switch place {
	case states.PlaceNone:
	case states.PlaceComing:
		s.on[member] = pool
		s.of(pool).Coming(member.Name)
	case states.PlaceFree:
		s.on[member] = pool
		s.tell(s.of(pool), member.Namespace, s.of(pool).Put(entry, s.Now()))
	}
}

// lentOut reports whether the claim that has taken a member owns it by now, or its
// pool is about to learn that it may not retire it.
func (s *Shelves) lentOut(pool types.UID, member view.Key) bool {
	claim, lent := s.of(pool).Borrower(member.Name)
	b, ok := s.Stores.Sandboxes.Get(member)
	if !lent || !ok {
		return false
	}
	v := view.Sandbox(b)
	adopted := v.Owner.Kind == states.OwnerClaim && v.Owner.UID == string(claim.uid)
	return (adopted || s.Retirements.Reason(b.UID) != "") && !v.Retired && !v.Terminating
}

// look says where a member belongs. A pool is the one of the owner's name and of its
// UID: either alone is free text, and may name a pool of another namespace.
func (s *Shelves) look(member view.Key) (types.UID, states.Entry, states.Place) {
	b, ok := s.Stores.Sandboxes.Get(member)
	if !ok {
		return "", states.Entry{}, states.PlaceNone
	}
	v := view.Sandbox(b)
	if s.Retirements.Reason(b.UID) != "" {
		v.Retired = true
	}
	if s.Refusals.Holds(b) {
		return "", states.Entry{}, states.PlaceNone
	}
	pool, ok := s.Stores.Pools.Get(view.OwnerKey(b))
	if !ok || string(pool.UID) != v.Owner.UID {
		return "", states.Entry{}, states.PlaceNone // should the pool be new, its first event looks again
	}
	current := s.Stores.Current(b, view.TemplateOf(pool), pool)
	pod, _ := s.Stores.Pods.Get(member)
	m := view.Member(b, pod, current)
	return pool.UID, states.Entry{
		Name: b.Name, Node: m.Node, Current: current, Since: view.ReadySince(b), Has: view.PodMetadata(b),
	}, states.PlaceOf(m, v, view.UpdatePolicy(pool).Strict())
}

func (s *Shelves) of(pool types.UID) *states.Shelf[borrower] {
	shelf, ok := s.shelf[pool]
	if !ok {
		shelf = states.NewShelf[borrower]()
		s.shelf[pool] = shelf
	}
	return shelf
}

// leave ends a claim's business without a sandbox. What it took is free again, if
// the stores still say so.
func (s *Shelves) leave(was visit) {
	took, lent := s.of(was.pool).Taken(was.borrower)
	s.tell(s.of(was.pool), was.Namespace, s.of(was.pool).GiveBack(was.borrower, s.Now()))
	s.forget(was)
	if lent {
		s.sync(view.Key{Namespace: was.Namespace, Name: took.Name})
		s.wakePool(was.Namespace, was.pool)
	}
}

// wakePool has a pool look again when a loan ends without its claim. What was lent may be
// gone, and the pool has counted it until now: nothing else tells it to make another.
func (s *Shelves) wakePool(ns string, pool types.UID) {
	for _, p := range s.Stores.Pools.By(store.ByID, store.ID(&metav1.ObjectMeta{Namespace: ns, UID: pool})) {
		s.WakePool(view.KeyOf(p))
	}
}

func (s *Shelves) forget(was visit) {
	delete(s.visits, was.Key)
	s.tidy(was.pool)
}

// tidy drops a shelf that nothing is on; a pool that still exists gets it again
// with its next member.
func (s *Shelves) tidy(pool types.UID) {
	if s.of(pool).Idle() {
		delete(s.shelf, pool)
	}
}

// tell passes on what came of a change of a shelf: the claims that look again, and the
// members that are waited for from now on.
func (s *Shelves) tell(shelf *states.Shelf[borrower], ns string, woken []borrower) {
	for _, b := range slices.Compact(woken) {
		s.WakeClaim(b.Key)
	}
	for _, name := range shelf.Hurried() {
		s.Hurry(view.Key{Namespace: ns, Name: name})
	}
}
