package loop

import (
	"slices"
	"sync"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// A crowd bounds how many steps are under way that may wait for the same: as many of
// one flow as there are workers. A step that takes long gives its worker to others, so
// without this bound a pool whose writes hang would have ever more of them.
//
// The keys of a pool for which a claim waits are a flow apart: their writes are more urgent
// than those of the others, and would otherwise wait until those are done.
type crowd struct {
	most int
	// pool is the pool of a key, and hurries reports whether a claim waits for its step.
	pool    func(view.Key) string
	hurries func(view.Key) bool

	mu     sync.Mutex
	spaces map[string]int
	flows  map[flow]int
	aside  map[flow][]view.Key
	closed bool
}

// A flow is the keys of one namespace that have to do with one pool, and for which a
// claim waits or none does.
type flow struct {
	ns, pool string
	hurried  bool
}

// breadth is how many times as many steps as there are workers may be under way of one
// namespace. Beyond that each of its flows still has one.
const breadth = 4

// newCrowd returns a crowd of nobody. Nil for the pool of a key means that all keys of
// a namespace are one flow, nil for hurries that claims wait for none.
func newCrowd(most int, pool func(view.Key) string, hurries func(view.Key) bool) *crowd {
	c := &crowd{most: most, pool: pool, hurries: hurries, spaces: map[string]int{}, flows: map[flow]int{}, aside: map[flow][]view.Key{}}
	if pool == nil {
		c.pool = func(view.Key) string { return "" }
	}
	if hurries == nil {
		c.hurries = func(view.Key) bool { return false }
	}
	return c
}

// enter reports whether a key may be stepped now. If not it is set aside, and is
// handed out when a step of its flow ends: there is one.
func (c *crowd) enter(key view.Key) (flow, bool) {
	f := flow{key.Namespace, c.pool(key), c.hurries(key)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.admits(f) {
		c.aside[f] = append(c.aside[f], key)
		return f, false
	}
	c.count(f, 1)
	return f, true
}

// admits reports whether a flow may have another step. The first it may always have.
func (c *crowd) admits(f flow) bool {
	n := c.flows[f]
	return n == 0 || n < c.most && c.spaces[f.ns] < breadth*c.most
}

func (c *crowd) count(f flow, n int) {
	if c.flows[f] += n; c.flows[f] == 0 {
		delete(c.flows, f)
	}
	if c.spaces[f.ns] += n; c.spaces[f.ns] == 0 {
		delete(c.spaces, f.ns)
	}
}

// leave ends a step, and returns the keys of its flow that were set aside and are to be
// stepped now.
func (c *crowd) leave(f flow) (next []view.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(f, -1)
	for len(c.aside[f]) > 0 && !c.closed && c.admits(f) {
		c.count(f, 1)
		next = append(next, c.aside[f][0])
		if c.aside[f] = c.aside[f][1:]; len(c.aside[f]) == 0 {
			delete(c.aside, f)
		}
	}
	return next
}

// takeBack takes out a key that was set aside before a claim waited for it. It reports
// whether there was one.
func (c *crowd) takeBack(key view.Key) bool {
	f := flow{ns: key.Namespace, pool: c.pool(key)}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.aside[f], key)
	if i < 0 {
		return false
	}
	if c.aside[f] = slices.Delete(c.aside[f], i, i+1); len(c.aside[f]) == 0 {
		delete(c.aside, f)
	}
	return true
}

// close hands out nothing any more.
func (c *crowd) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}
