package watch

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// A Key names an object of one kind.
type Key = cache.ObjectName

func keyOf(o metav1.Object) Key {
	return Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// object is what a store holds. Nothing that comes out of a store is changed.
type object interface {
	metav1.Object
	runtime.Object
}

// A store is the newest that is known of one kind: what the informer has, and
// ahead of it what our own writes returned. An entry is ahead until the informer
// has passed its resource version, never for a time.
type store[T object] struct {
	informer cache.SharedIndexInformer

	mu    sync.Mutex
	ahead map[Key]entry[T]
}

// An entry is an object the informer has not shown yet, or one that the API
// server says is gone while the informer still shows it.
type entry[T object] struct {
	object T
	gone   bool
}

func newStore[T object](informer cache.SharedIndexInformer) *store[T] {
	return &store[T]{informer: informer, ahead: map[Key]entry[T]{}}
}

// get returns the newest that is known of an object.
func (s *store[T]) get(key Key) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest(key)
}

// by returns the objects that an index finds under a value.
func (s *store[T]) by(index, value string) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		panic(err) // an index that was never declared: no input can cause it
	}
	var out []T
	for _, o := range found {
		key := keyOf(o.(T))
		if _, ok := s.ahead[key]; !ok {
			out = append(out, o.(T))
		}
	}
	for key := range s.ahead {
		if o, ok := s.newest(key); ok && s.indexed(index, value, o) {
			out = append(out, o)
		}
	}
	return out
}

// all returns every object.
func (s *store[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for _, o := range s.informer.GetIndexer().List() {
		if _, ok := s.ahead[keyOf(o.(T))]; !ok {
			out = append(out, o.(T))
		}
	}
	for key := range s.ahead {
		if o, ok := s.newest(key); ok {
			out = append(out, o)
		}
	}
	return out
}

// put takes in what a write or a read of our own returned.
func (s *store[T]) put(o T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(o)
	if had, ok := s.newest(key); ok && !newer(o, had) {
		return
	}
	s.ahead[key] = entry[T]{object: o}
	s.newest(key) // the informer may have passed it in the meantime
}

// bury takes in that the API server says an object, as it was seen, is gone.
// Another one that has its name by now is none of that.
func (s *store[T]) bury(o T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, ok := s.newest(keyOf(o)); ok && is.GetUID() != o.GetUID() {
		return
	}
	s.ahead[keyOf(o)] = entry[T]{object: o, gone: true}
	s.newest(keyOf(o))
}

// reached reports whether the informer has passed a resource version: what it
// does not show by then does not exist.
func (s *store[T]) reached(version string) bool {
	return atLeast(s.informer.GetIndexer().LastStoreSyncResourceVersion(), version)
}

// newest resolves one key, and forgets an entry that is not ahead any more.
func (s *store[T]) newest(key Key) (T, bool) {
	var none T
	var seen T
	e, ok := s.ahead[key]
	// Asked before the look: an informer that passes the entry between the two
	// shows it. The other way round, what is there would look gone.
	passed := ok && s.reached(e.object.GetResourceVersion())
	o, shown, err := s.informer.GetIndexer().GetByKey(key.String())
	if err != nil {
		panic(err) // only a broken key function fails, and keys are ours
	}
	if shown {
		seen = o.(T)
	}
	if !ok {
		return seen, shown
	}
	switch {
	case e.gone && shown && seen.GetUID() == e.object.GetUID():
		return none, false
	case e.gone:
	case shown && newer(e.object, seen), !shown && !passed:
		return e.object, true
	}
	delete(s.ahead, key)
	return seen, shown
}

func (s *store[T]) indexed(index, value string, o T) bool {
	values, err := s.informer.GetIndexer().GetIndexers()[index](o)
	if err != nil {
		panic(fmt.Errorf("index %s: %w", index, err)) // index functions are ours and never fail
	}
	for _, v := range values {
		if v == value {
			return true
		}
	}
	return false
}

// newer reports whether a is a later state than b of the same name.
func newer(a, b metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c > 0
}

// atLeast reports whether a resource version is another or a later one. One that
// cannot be read is neither.
func atLeast(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c >= 0
}
