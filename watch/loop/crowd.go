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
	// begun reports whether a step of a key goes on with what an earlier one began.
	begun func(view.Key) bool

	mu     sync.Mutex
	spaces map[string]int
	flows  map[flow]int
	aside  map[flow]*aside
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

// An aside is the keys of a flow that wait for a step of it to end, in the order in which
// they came. Those that have begun go before those that have not, of which there may be
// thousands; these have one turn in beginningTurn, so that they are never forgotten.
type aside struct {
	begun, new []view.Key
	turns      int
}

// beginningTurn is how many keys are taken for one that has not begun.
const beginningTurn = 4

func (a *aside) add(key view.Key, begun bool) {
	if begun {
		a.begun = append(a.begun, key)
	} else {
		a.new = append(a.new, key)
	}
}

// next takes out the key whose turn it is. There is one.
func (a *aside) next() view.Key {
	a.turns++
	from := &a.begun
	if len(a.begun) == 0 || len(a.new) > 0 && a.turns%beginningTurn == 0 {
		from = &a.new
	}
	key := (*from)[0]
	*from = (*from)[1:]
	return key
}

// remove takes out a key. It reports whether there was one.
func (a *aside) remove(key view.Key) bool {
	for _, from := range []*[]view.Key{&a.begun, &a.new} {
		if i := slices.Index(*from, key); i >= 0 {
			*from = slices.Delete(*from, i, i+1)
			return true
		}
	}
	return false
}

func (a *aside) len() int { return len(a.begun) + len(a.new) }

// newCrowd returns a crowd of nobody. Without a function for the pool of a key all keys of
// a namespace are one flow; without the others claims wait for no key, and none has begun.
func newCrowd(o Options) *crowd {
	c := &crowd{most: o.Workers, pool: o.Pool, hurries: o.Hurries, begun: o.Begun, spaces: map[string]int{}, flows: map[flow]int{}, aside: map[flow]*aside{}}
	if c.pool == nil {
		c.pool = func(view.Key) string { return "" }
	}
	never := func(view.Key) bool { return false }
	if c.hurries == nil {
		c.hurries = never
	}
	if c.begun == nil {
		c.begun = never
	}
	return c
}

// enter reports whether a key may be stepped now. If not it is set aside, and is
// handed out when a step of its flow ends: there is one.
func (c *crowd) enter(key view.Key) (flow, bool) {
	f, begun := flow{key.Namespace, c.pool(key), c.hurries(key)}, c.begun(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.admits(f) {
		if c.aside[f] == nil {
			c.aside[f] = &aside{}
		}
		c.aside[f].add(key, begun)
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
	for c.aside[f] != nil && !c.closed && c.admits(f) {
		c.count(f, 1)
		next = append(next, c.aside[f].next())
		c.tidy(f)
	}
	return next
}

// tidy forgets that keys of a flow wait when none does.
func (c *crowd) tidy(f flow) {
	if c.aside[f].len() == 0 {
		delete(c.aside, f)
	}
}

// takeBack takes out a key that was set aside before a claim waited for it. It reports
// whether there was one.
func (c *crowd) takeBack(key view.Key) bool {
	f := flow{ns: key.Namespace, pool: c.pool(key)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aside[f] == nil || !c.aside[f].remove(key) {
		return false
	}
	c.tidy(f)
	return true
}

// close hands out nothing any more.
func (c *crowd) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}
