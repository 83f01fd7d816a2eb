package memory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Retirements are the members that their pool gives up, by UID, until the sandbox's
// own loop has written that on them.
type Retirements struct {
	// changed is told of every member that is given up, or is not any more; or nil.
	changed func(view.Key)

	mu  sync.Mutex
	all map[types.UID]Retirement
	// on counts them by pool and ground.
	on map[types.UID]map[string]int
}

// A Retirement is why and on what ground a member is given up.
type Retirement struct {
	Member view.Key
	Pool   types.UID
	// PoolName is the pool's name, in the namespace of the member.
	PoolName string
	Reason   states.Reason
	// Basis is the spec and the template that it was decided on.
	Basis string
}

// NewRetirements returns a set without members.
func NewRetirements() *Retirements {
	return &Retirements{all: map[types.UID]Retirement{}, on: map[types.UID]map[string]int{}}
}

// Changed has a function told of every member that is given up, or is not any more.
// It is set before anything runs.
func (r *Retirements) Changed(tell func(view.Key)) { r.changed = tell }

func (r *Retirements) tell(one Retirement) {
	if r.changed != nil {
		r.changed(one.Member)
	}
}

// Add gives a member up.
func (r *Retirements) Add(member types.UID, one Retirement) {
	r.add(member, one)
	r.tell(one)
}

func (r *Retirements) add(member types.UID, one Retirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(member)
	r.all[member] = one
	if r.on[one.Pool] == nil {
		r.on[one.Pool] = map[string]int{}
	}
	r.on[one.Pool][one.Basis]++
}

// drop forgets a member; the lock is held.
func (r *Retirements) drop(member types.UID) (Retirement, bool) {
	one, ok := r.all[member]
	if !ok {
		return one, false
	}
	delete(r.all, member)
	if r.on[one.Pool][one.Basis]--; r.on[one.Pool][one.Basis] == 0 {
		delete(r.on[one.Pool], one.Basis)
	}
	if len(r.on[one.Pool]) == 0 {
		delete(r.on, one.Pool)
	}
	return one, true
}

// Superseded reports whether a pool gives members up on another basis than this.
func (r *Retirements) Superseded(pool types.UID, basis string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, same := r.on[pool][basis]
	return len(r.on[pool]) > 1 || len(r.on[pool]) == 1 && !same
}

// Reason is why a member is given up; empty if it is not.
func (r *Retirements) Reason(member types.UID) states.Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[member].Reason
}

// Drop forgets a member: it is written, or is not the pool's any more. It returns what
// was remembered, if anything was.
func (r *Retirements) Drop(member types.UID) (Retirement, bool) {
	one, ok := r.take(member)
	if ok {
		r.tell(one)
	}
	return one, ok
}

func (r *Retirements) take(member types.UID) (Retirement, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drop(member)
}

// Len is how many members are given up.
func (r *Retirements) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
