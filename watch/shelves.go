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
	current func(*agents.Sandbox) (current, must bool)
	wake    func(Key) // a claim has to look again

	mu    sync.Mutex
	shelf map[types.UID]*states.Shelf[claimID]
	// on remembers the shelf each member was last put on, and at who last asked
	// where under a claim's name, so that both can be found when the objects
	// have changed.
	on map[Key]types.UID
	at map[Key]visit
}

// A visit is a claim's business with a shelf.
type visit struct {
	id   claimID
	pool types.UID
}

func newShelves(s *stores, current func(*agents.Sandbox) (current, must bool), wake func(Key)) *shelves {
	return &shelves{
		stores: s, current: current, wake: wake,
		shelf: map[types.UID]*states.Shelf[claimID]{},
		on:    map[Key]types.UID{}, at: map[Key]visit{},
	}
}

// take asks for a sandbox of a pool for a claim. It also returns since when the
// claim has waited, if it has to.
func (s *shelves) take(pool *ext.SandboxWarmPool, claim *ext.SandboxClaim, now time.Time) (member string, offer states.Offer, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := idOf(claim)
	here := visit{id, pool.UID}
	if was, ok := s.at[id.Key]; ok && was != here {
		s.leave(was) // it names another pool by now, or is another claim
	}
	s.at[id.Key] = here
	shelf := s.of(pool.UID)
	entry, offer := shelf.Take(id, now)
	since, _ = shelf.Waiting(id)
	return entry.Name, offer, since
}

// giveBack ends the business of the claim of a name without a sandbox.
func (s *shelves) giveBack(claim Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.at[claim]; ok {
		s.leave(was)
	}
}

// done ends the business of the claim of a name: it has a sandbox. If that is
// not the one it took here, as when another leader served it, the one it took is
// free again.
func (s *shelves) done(claim Key, sandbox string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.at[claim]
	if !ok {
		return
	}
	if took, ok := s.of(was.pool).Taken(was.id); ok && took.Name != sandbox {
		s.leave(was)
		return
	}
	s.of(was.pool).Done(was.id)
	s.forget(was)
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

// lent reports whether a claim is taking a member this moment.
func (s *shelves) lent(member Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := s.on[member]
	return ok && s.of(pool).Lent(member.Name)
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
	current, must := s.current(sandbox)
	if must && !current {
		return "", entry, false, false
	}
	pod, found := s.stores.pods.get(member)
	if !found || !controls(sandbox.UID, pod) || pod.DeletionTimestamp != nil ||
		states.Pod.Parse(pod.Labels[apply.LabelState]) != states.Ready {
		return owner.UID, entry, false, true
	}
	return owner.UID, states.Entry{
		Name: sandbox.Name, Node: pod.Spec.NodeName,
		Current: current, Since: readySince(sandbox),
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

func (s *shelves) leave(was visit) {
	s.wakeAll(s.of(was.pool).GiveBack(was.id))
	s.forget(was)
}

func (s *shelves) forget(was visit) {
	delete(s.at, was.id.Key)
	s.tidy(was.pool)
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
