package loop

import "github.com/kiln-sandbox/kiln/watch/view"

// A fairQueue is the order in which the keys of a loop are stepped. The namespaces
// take turns, so that thousands of keys of one go before no other's by more than one
// key each; those of a namespace go in the order in which they came. Keys that rest
// go after all others, and have one turn in restingTurn, so that they are never
// forgotten.
//
// The work queue around it takes care of duplicates and of concurrency.
type fairQueue struct {
	// rests reports whether nobody waits for a step of a key.
	rests func(view.Key) bool
	// came is told of each key that begins to wait.
	came func(view.Key)

	live, resting band
	// at is the band in which each key has its turn. A key that was promoted stands
	// in the other, too, and is passed over there.
	at   map[view.Key]*band
	pops int
}

// restingTurn is how many keys are taken for one that rests.
const restingTurn = 8

// A band is keys by namespace, and the namespaces in the order of their turns.
type band struct {
	turns []string
	keys  map[string][]view.Key
}

func newFairQueue(rests func(view.Key) bool) *fairQueue {
	if rests == nil {
		rests = func(view.Key) bool { return false }
	}
	return &fairQueue{
		rests: rests, came: func(view.Key) {}, at: map[view.Key]*band{},
		live: band{keys: map[string][]view.Key{}}, resting: band{keys: map[string][]view.Key{}},
	}
}

// Len is how many keys wait.
func (q *fairQueue) Len() int { return len(q.at) }

// Push takes in a key that does not wait yet.
func (q *fairQueue) Push(key view.Key) {
	b := &q.live
	if q.rests(key) {
		b = &q.resting
	}
	q.at[key] = b
	b.push(key)
	q.came(key)
}

// Touch is told that a key which waits was woken again. It may rest no longer.
func (q *fairQueue) Touch(key view.Key) {
	if q.at[key] == &q.resting && !q.rests(key) {
		q.at[key] = &q.live
		q.live.push(key)
	}
}

// Pop returns the key whose turn it is. There is one.
func (q *fairQueue) Pop() view.Key {
	q.pops++
	first, second := &q.live, &q.resting
	if q.pops%restingTurn == 0 {
		first, second = second, first
	}
	for {
		b := first
		if len(b.turns) == 0 {
			b = second
		}
		key := b.pop()
		if q.at[key] == b {
			delete(q.at, key)
			return key
		}
	}
}

func (b *band) push(key view.Key) {
	if len(b.keys[key.Namespace]) == 0 {
		b.turns = append(b.turns, key.Namespace)
	}
	b.keys[key.Namespace] = append(b.keys[key.Namespace], key)
}

func (b *band) pop() view.Key {
	ns := b.turns[0]
	b.turns = b.turns[1:]
	key := b.keys[ns][0]
	if left := b.keys[ns][1:]; len(left) > 0 {
		b.keys[ns] = left
		b.turns = append(b.turns, ns)
		return key
	}
	delete(b.keys, ns)
	return key
}
