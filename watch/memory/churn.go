// Package memory is what the process remembers and no object says. Nothing in it
// is needed to be right: a new leader starts without it.
package memory

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The back-off of what is made in vain: pods that fail at once, or that somebody
// deletes as fast as they are made. Each loss beyond the free ones doubles the
// wait, and a quiet time forgives them all.
const (
	churnFirst = time.Second
	churnMost  = 5 * time.Minute
	churnQuiet = 10 * time.Minute
)

// A Churn counts what was lost of each object, by its UID.
type Churn struct {
	mu     sync.Mutex
	losses map[types.UID]losses
}

type losses struct {
	count int
	last  time.Time
}

// NewChurn returns a Churn without losses.
func NewChurn() *Churn { return &Churn{losses: map[types.UID]losses{}} }

// Add counts a loss.
func (c *Churn) Add(uid types.UID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.losses[uid]
	if now.Sub(had.last) > churnQuiet {
		had = losses{}
	}
	c.losses[uid] = losses{had.count + 1, now}
}

// Wait returns how long to wait before making another, when so many losses are
// free; zero means not at all.
func (c *Churn) Wait(uid types.UID, free int, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.losses[uid]
	if had.count <= free {
		return 0
	}
	hold := churnMost
	if over := had.count - free - 1; over < 10 {
		hold = min(churnFirst<<over, churnMost)
	}
	return max(hold-now.Sub(had.last), 0)
}

// Forget drops what was counted of an object that is gone.
func (c *Churn) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.losses, uid)
}
