package watch

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// claimID is a claim as the shelf knows it: a claim that is deleted and made
// again under its name is another one.
type claimID struct {
	Key
	uid types.UID
}

func idOf(c *ext.SandboxClaim) claimID { return claimID{keyOf(c), c.UID} }

// shelves hold a shelf for each pool, by the pool's UID. They are the lock
// around the pure shelf, and they fill it from what the stores know. The binder
// sees three verbs: take, giveBack and done.
type shelves struct {
	stores  *stores
	current func(*agents.Sandbox) bool
	wake    func(Key) // a claim has to look again

	mu    sync.Mutex
	shelf map[types.UID]*states.Shelf[claimID]
	// on remembers the shelf each member was last put on, and at the shelf each
	// claim last asked, so that both can be found when the objects have changed.
	on map[Key]types.UID
	at map[claimID]types.UID
}

func newShelves(s *stores, current func(*agents.Sandbox) bool, wake func(Key)) *shelves {
	return &shelves{
		stores: s, current: current, wake: wake,
		shelf: map[types.UID]*states.Shelf[claimID]{},
		on:    map[Key]types.UID{}, at: map[claimID]types.UID{},
	}
}

// take asks for a sandbox of a pool for a claim. It also returns since when the
// claim has waited, if it has to.
func (s *shelves) take(pool *ext.SandboxWarmPool, claim *ext.SandboxClaim, now time.Time) (member string, offer states.Offer, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := idOf(claim)
	if was, ok := s.at[id]; ok && was != pool.UID {
		s.leave(id) // the claim names another pool by now
	}
	s.at[id] = pool.UID
	shelf := s.of(pool.UID)
	entry, offer := shelf.Take(id, now)
	since, _ = shelf.Waiting(id)
	return entry.Name, offer, since
}

// giveBack ends a claim's business with the shelf without a sandbox.
func (s *shelves) giveBack(id claimID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(id)
}

// done ends a claim's business with the shelf: it has a sandbox.
func (s *shelves) done(id claimID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pool, ok := s.at[id]; ok {
		s.of(pool).Done(id)
		s.forget(id, pool)
	}
}

// withdraw takes a member off its shelf for its pool to retire; it refuses one
// that a claim has taken.
func (s *shelves) withdraw(member Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := s.on[member]
	if !ok {
		return true
	}
	woken, ok := s.of(pool).Withdraw(member.Name)
	s.wakeAll(woken)
	return ok
}

// sync brings a member's place on the shelf in line with what the stores know.
// The look and the move are under one lock, so the newest look is the last move.
func (s *shelves) sync(member Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, entry, ready, ok := s.look(member)
	if was, had := s.on[member]; had && (!ok || was != pool) {
		s.wakeAll(s.of(was).Drop(member.Name))
		delete(s.on, member)
		s.tidy(was)
	}
	if !ok {
		return
	}
	s.on[member] = pool
	if !ready {
		s.of(pool).Coming(member.Name)
		return
	}
	s.wakeAll(s.of(pool).Put(entry))
}

// look says where a member belongs: on no shelf, among those that are coming, or
// free to take. Free is what the pod's word says, and nothing less.
func (s *shelves) look(member Key) (pool types.UID, entry states.Entry, ready, ok bool) {
	sandbox, found := s.stores.sandboxes.get(member)
	if !found || retired(sandbox) || sandbox.DeletionTimestamp != nil || refused(sandbox) {
		return "", entry, false, false
	}
	owner := metav1.GetControllerOfNoCopy(sandbox)
	if !isPool(owner) {
		return "", entry, false, false
	}
	pod, found := s.stores.pods.get(member)
	if !found || !controls(sandbox.UID, pod) || pod.DeletionTimestamp != nil ||
		states.Pod.Parse(pod.Labels[apply.LabelState]) != states.Ready {
		return owner.UID, entry, false, true
	}
	return owner.UID, states.Entry{
		Name: sandbox.Name, Node: pod.Spec.NodeName,
		Current: s.current(sandbox), Since: readySince(sandbox),
	}, true, true
}

func (s *shelves) of(pool types.UID) *states.Shelf[claimID] {
	shelf, ok := s.shelf[pool]
	if !ok {
		shelf = states.NewShelf[claimID]()
		s.shelf[pool] = shelf
	}
	return shelf
}

func (s *shelves) leave(id claimID) {
	if pool, ok := s.at[id]; ok {
		s.wakeAll(s.of(pool).GiveBack(id))
		s.forget(id, pool)
	}
}

func (s *shelves) forget(id claimID, pool types.UID) {
	delete(s.at, id)
	s.tidy(pool)
}

// tidy drops a shelf that nothing is on; a pool that still exists gets it again
// with its next member.
func (s *shelves) tidy(pool types.UID) {
	if s.of(pool).Idle() {
		delete(s.shelf, pool)
	}
}

func (s *shelves) wakeAll(woken []claimID) {
	for _, id := range woken {
		s.wake(id.Key)
	}
}
