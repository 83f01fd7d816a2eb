// Package memory is what the process remembers and no object says. Nothing in it
// is needed to be right: a new leader starts without it.
package memory

import (
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The back-off of what is made in vain: pods that fail at once, or that somebody
// deletes as fast as they are made. Each loss beyond the free ones doubles the
// wait. In churnSpan as many losses are forgiven as are free, and a quiet time
// forgives them all.
const (
	churnFirst = time.Second
	churnMost  = 5 * time.Minute
	churnQuiet = 10 * time.Minute
	churnSpan  = time.Hour
	// churnOver is how many losses beyond the free ones count at most. More would not
	// make the wait longer, only its end later.
	churnOver = 10
)

// A Churn counts what was lost of each object, by its UID.
type Churn struct {
	mu     sync.Mutex
	losses map[types.UID]losses
	// lived are the members that have been ready.
	lived map[types.UID]struct{}
}

// losses are counted in shares of what is free at the time of each: a pool that is
// made smaller afterwards has lost no more than before.
type losses struct {
	share float64
	last  time.Time
}

// left is what is not forgiven at a time.
func (l losses) left(now time.Time) float64 {
	since := now.Sub(l.last)
	if since > churnQuiet {
		return 0
	}
	return max(l.share-since.Seconds()/churnSpan.Seconds(), 0)
}

// NewChurn returns a Churn without losses.
func NewChurn() *Churn {
	return &Churn{losses: map[types.UID]losses{}, lived: map[types.UID]struct{}{}}
}

// Add counts a loss of an object of which so many are free.
func (c *Churn) Add(uid types.UID, free int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := 1 / float64(max(free, 1))
	share := min(c.losses[uid].left(now)+one, 1+churnOver*one)
	c.losses[uid] = losses{share, now}
}

// Wait returns how long to wait before making another, when so many losses are
// free; zero means not at all.
func (c *Churn) Wait(uid types.UID, free int, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.losses[uid]
	excess := (had.left(now) - float64(min(free, 1))) * float64(max(free, 1))
	over := int(math.Ceil(excess - .001)) // shares do not add up to the last digit
	if over <= 0 {
		return 0
	}
	hold := min(churnFirst<<min(over-1, churnOver), churnMost)
	return max(hold-now.Sub(had.last), 0)
}

// Live takes in that a member has been ready. Should it end, that is no loss of what
// is made in vain.
func (c *Churn) Live(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lived[uid] = struct{}{}
}

// Lived reports whether a member has been ready.
func (c *Churn) Lived(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.lived[uid]
	return ok
}

// Restart takes in that a member has lost its pod: the next has not been ready yet.
func (c *Churn) Restart(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lived, uid)
}

// Forget drops what was counted of an object that is gone.
func (c *Churn) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.losses, uid)
	delete(c.lived, uid)
}

// Len is of how many objects it remembers anything.
func (c *Churn) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.losses) + len(c.lived)
}
