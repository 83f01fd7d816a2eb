package store

import (
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Change is what an event says: an object as it was and as it is. An object
// that was just made has no Was, one that is gone has no Is.
type Change[T Object] struct {
	Was, Is       T
	HadWas, HasIs bool
	// Missed: the object was known from an answer alone and is gone, and the informer has
	// passed all of that without a word, as over a gap of its watch. An event of the end
	// may come all the same, when it was only under way.
	Missed bool
}

// Newest is the newest that the change shows.
func (c Change[T]) Newest() T {
	if c.HasIs {
		return c.Is
	}
	return c.Was
}

// Replaced reports whether the change is of two objects of one name: the deletion
// of the first was not seen.
func (c Change[T]) Replaced() bool {
	return c.HadWas && c.HasIs && c.Was.GetUID() != c.Is.GetUID()
}

// On calls do with every change of a kind, and returns what tells whether the
// first list of it was delivered. An update that changes nothing, as a relist makes
// them, is no change.
func (s *Store[T]) On(do func(Change[T])) (synced cache.InformerSynced, err error) {
	tell := func(c Change[T]) {
		s.resolve(view.KeyOf(c.Newest()))
		do(c)
	}
	s.handlers = append(s.handlers, tell)
	r, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { tell(Change[T]{Is: o.(T), HasIs: true}) },
		UpdateFunc: func(was, is any) {
			if was.(T).GetResourceVersion() != is.(T).GetResourceVersion() {
				tell(Change[T]{Was: was.(T), Is: is.(T), HadWas: true, HasIs: true})
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if was, ok := o.(T); ok {
				tell(Change[T]{Was: was, HadWas: true})
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return r.HasSynced, nil
}

// resolve forgets what was ahead of an event, and tells that something is new.
func (s *Store[T]) resolve(key view.Key) {
	s.Get(key)
	s.touch(key)
	s.Sweep()
}
