package memory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/states"
)

// Retirements are the members that their pool gives up, by UID, until the sandbox's
// own loop has written that on them.
type Retirements struct {
	mu  sync.Mutex
	all map[types.UID]Retirement
}

// A Retirement is why and on what ground a member is given up.
type Retirement struct {
	Pool types.UID
	// PoolName is the pool's name, in the namespace of the member.
	PoolName string
	Reason   states.Reason
	// Basis is the spec and the template that it was decided on.
	Basis string
}

// NewRetirements returns a set without members.
func NewRetirements() *Retirements { return &Retirements{all: map[types.UID]Retirement{}} }

// Add gives a member up.
func (r *Retirements) Add(member types.UID, one Retirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[member] = one
}

// Superseded reports whether a pool gives members up on another basis than this.
func (r *Retirements) Superseded(pool types.UID, basis string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one.Pool == pool && one.Basis != basis {
			return true
		}
	}
	return false
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
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.all[member]
	delete(r.all, member)
	return one, ok
}
