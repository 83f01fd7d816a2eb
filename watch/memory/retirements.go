package memory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/states"
)

// Retirements are the members that their pool gives up, by UID, each with its
// reason, until the sandbox's own loop has written that on it.
type Retirements struct {
	mu  sync.Mutex
	all map[types.UID]states.Reason
}

// NewRetirements returns a set without members.
func NewRetirements() *Retirements { return &Retirements{all: map[types.UID]states.Reason{}} }

// Add gives a member up.
func (r *Retirements) Add(member types.UID, why states.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[member] = why
}

// Reason is why a member is given up; empty if it is not.
func (r *Retirements) Reason(member types.UID) states.Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[member]
}

// Drop forgets a member: it is written, or is not the pool's any more.
func (r *Retirements) Drop(member types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, member)
}
