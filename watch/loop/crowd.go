package loop

import (
	"sync"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// A crowd bounds how many steps are under way that may wait for the same: as many of
// one flow as there are workers. A step that takes long gives its worker to others, so
// without this bound a pool whose writes hang would have ever more of them.
type crowd struct {
	most int
	// flowOf is the flow of a key.
	flowOf func(view.Key) flow

	mu     sync.Mutex
	spaces map[string]int
	flows  map[flow]int
	aside  map[flow][]view.Key
	closed bool
}

// A flow is the keys of one namespace that have to do with one pool.
type flow struct{ ns, pool string }

// breadth is how many times as many steps as there are workers may be under way of one
// namespace. Beyond that each of its flows still has one.
const breadth = 4

// newCrowd returns a crowd of nobody. Nil for the pool of a key means that all keys of
// a namespace are one flow.
func newCrowd(most int, pool func(view.Key) string) *crowd {
	c := &crowd{most: most, spaces: map[string]int{}, flows: map[flow]int{}, aside: map[flow][]view.Key{}}
	c.flowOf = func(key view.Key) flow {
		if pool == nil {
			return flow{ns: key.Namespace}
		}
		return flow{key.Namespace, pool(key)}
	}
	return c
}

// enter reports whether a key may be stepped now. If not it is set aside, and is
// handed out when a step of its flow ends: there is one.
func (c *crowd) enter(key view.Key) (flow, bool) {
	f := c.flowOf(key)
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

// close hands out nothing any more.
func (c *crowd) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}
