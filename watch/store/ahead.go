package store

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// An entry is an object that the informer has not shown yet, or one that the API
// server says is gone while the informer still shows it.
type entry[T Object] struct {
	object T
	gone   bool
}

// ahead is what a store knows more of than its informer: by key, by the informer's
// indexes, and in the order in which the informer will pass it.
type ahead[T Object] struct {
	indexers cache.Indexers
	all      map[view.Key]entry[T]
	by       map[place]map[view.Key]struct{}
	// order has each entry that is not gone once, and some that were replaced or
	// dropped since; those do not count.
	order versions
}

// A place is a value of an index.
type place struct{ index, value string }

func newAhead[T Object](indexers cache.Indexers) *ahead[T] {
	return &ahead[T]{indexers: indexers, all: map[view.Key]entry[T]{}, by: map[place]map[view.Key]struct{}{}}
}

func (a *ahead[T]) len() int                          { return len(a.all) }
func (a *ahead[T]) has(key view.Key) bool             { _, ok := a.all[key]; return ok }
func (a *ahead[T]) get(key view.Key) (entry[T], bool) { e, ok := a.all[key]; return e, ok }
func (a *ahead[T]) keys() []view.Key                  { return slices.Collect(maps.Keys(a.all)) }

// set puts an entry in the place of the one before.
func (a *ahead[T]) set(key view.Key, e entry[T]) {
	a.drop(key)
	a.all[key] = e
	if e.gone {
		return // the end of it, when the informer tells, has its own event
	}
	for _, p := range a.places(e.object) {
		if a.by[p] == nil {
			a.by[p] = map[view.Key]struct{}{}
		}
		a.by[p][key] = struct{}{}
	}
	heap.Push(&a.order, versioned{key, e.object.GetResourceVersion()})
}

// drop forgets an entry.
func (a *ahead[T]) drop(key view.Key) {
	e, ok := a.all[key]
	if !ok {
		return
	}
	delete(a.all, key)
	if len(a.all) == 0 {
		a.order = nil
	}
	if e.gone {
		return
	}
	for _, p := range a.places(e.object) {
		if delete(a.by[p], key); len(a.by[p]) == 0 {
			delete(a.by, p)
		}
	}
}

// find lists the keys of the entries that an index finds under a value.
func (a *ahead[T]) find(index, value string) []view.Key {
	return slices.Collect(maps.Keys(a.by[place{index, value}]))
}

// passed takes out the keys of the entries up to a resource version.
func (a *ahead[T]) passed(version string) (keys []view.Key) {
	for len(a.order) > 0 && AtLeast(version, a.order[0].version) {
		v := heap.Pop(&a.order).(versioned)
		if e, ok := a.all[v.key]; ok && e.object.GetResourceVersion() == v.version {
			keys = append(keys, v.key)
		}
	}
	return keys
}

func (a *ahead[T]) places(o T) (all []place) {
	for name, index := range a.indexers {
		values, err := index(o)
		if err != nil {
			panic(fmt.Errorf("index %s: %w", name, err)) // index functions are ours and never fail
		}
		for _, v := range values {
			all = append(all, place{name, v})
		}
	}
	return all
}

func (a *ahead[T]) indexed(index, value string, o T) bool {
	return slices.Contains(a.places(o), place{index, value})
}

// versions is a heap of entries by their resource versions, the earliest first.
type versions []versioned

// A versioned is the key of an entry and its resource version.
type versioned struct {
	key     view.Key
	version string
}

func (v versions) Len() int           { return len(v) }
func (v versions) Less(i, j int) bool { return !AtLeast(v[i].version, v[j].version) }
func (v versions) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }

// Push adds an entry, as package heap asks for it.
func (v *versions) Push(x any) { *v = append(*v, x.(versioned)) }

// Pop takes out the last, as package heap asks for it.
func (v *versions) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}
