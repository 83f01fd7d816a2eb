// Package store holds the newest that is known of every object: what informers
// show, and ahead of it what our own writes and consistent reads returned.
//
// Nothing that comes out of a store is changed. Index values carry the namespace:
// owner references are free text, and nobody in one namespace may find, or be
// found by, anything in another.
package store

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Object is what a store holds.
type Object interface {
	metav1.Object
	runtime.Object
}

// A Store is the newest that is known of one kind. An entry is ahead until the
// informer has passed its resource version, never for a time.
type Store[T Object] struct {
	informer cache.SharedIndexInformer
	get      func(context.Context, view.Key) (T, error)
	// list reads all objects from the quorum, and the resource version that it is of.
	list func(context.Context) (all []T, version string, err error)
	// watch watches objects of a namespace that the informer may not show, and
	// handlers are told what it shows.
	watch    func(context.Context, string, metav1.ListOptions) (apiwatch.Interface, error)
	handlers []func(Change[T])

	// touched is told every key of which something new is known, or nil.
	touched func(view.Key)

	mu     sync.Mutex
	ahead  *ahead[T]
	beyond map[view.Key]followed[T]
	missed []T
}

func newStore[T Object](informer cache.SharedIndexInformer, get func(context.Context, view.Key) (T, error)) *Store[T] {
	return &Store[T]{
		informer: informer, get: get, ahead: newAhead[T](informer.GetIndexer().GetIndexers()), beyond: map[view.Key]followed[T]{},
	}
}

// Touched has a function told every key of which something new is known: an event,
// or an answer of the API server's. It is told before whoever the event wakes. It is
// set before anything runs.
func (s *Store[T]) Touched(tell func(view.Key)) { s.touched = tell }

func (s *Store[T]) touch(keys ...view.Key) {
	if s.touched == nil {
		return
	}
	for _, k := range keys {
		s.touched(k)
	}
}

// Get returns the newest that is known of an object.
func (s *Store[T]) Get(key view.Key) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest(key)
}

// By returns the objects that an index finds under a value.
func (s *Store[T]) By(index Index, value string) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.informer.GetIndexer().ByIndex(string(index), value)
	if err != nil {
		panic(err) // an index that was never declared: no input can cause it
	}
	var out []T
	for _, o := range found {
		if !s.ahead.has(view.KeyOf(o.(T))) {
			out = append(out, o.(T))
		}
	}
	for _, key := range s.ahead.find(string(index), value) {
		// The informer may have passed it in the meantime, and show something else.
		if o, ok := s.newest(key); ok && s.ahead.indexed(string(index), value, o) {
			out = append(out, o)
		}
	}
	return out
}

// All returns every object.
func (s *Store[T]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for _, o := range s.informer.GetIndexer().List() {
		if !s.ahead.has(view.KeyOf(o.(T))) {
			out = append(out, o.(T))
		}
	}
	for _, key := range s.ahead.keys() {
		if o, ok := s.newest(key); ok {
			out = append(out, o)
		}
	}
	return out
}

// Put takes in what a write or a read of our own returned. What is no news is left as
// it is: a write that was skipped returns the very object that everybody reads.
func (s *Store[T]) Put(o T) error {
	key := view.KeyOf(o)
	if err := s.put(key, o); err != nil {
		return err
	}
	s.touch(key) // also if the informer has it: its event may not have come yet
	return nil
}

func (s *Store[T]) put(key view.Key, o T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.newest(key); ok && !newer(o, had) {
		return nil
	}
	if _, err := trim(o); err != nil {
		return err
	}
	s.ahead.set(key, entry[T]{object: o})
	s.newest(key) // the informer may have passed it in the meantime
	return nil
}

// MarkDeleted takes in that the API server says an object, as it was seen, is
// gone. Another one that has its name by now is none of that.
func (s *Store[T]) MarkDeleted(o T) {
	s.markDeleted(view.KeyOf(o), o)
	s.touch(view.KeyOf(o))
}

func (s *Store[T]) markDeleted(key view.Key, o T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, ok := s.newest(key); ok && is.GetUID() != o.GetUID() {
		return
	}
	had, ahead := s.ahead.get(key)
	s.ahead.set(key, entry[T]{object: o, gone: true})
	s.newest(key)
	if ahead && !had.gone && !s.ahead.has(key) {
		s.miss(o)
	}
}

// Sweep forgets what the informer has passed without a word: made and gone again
// while its watch was broken. Nobody may ever ask for it by name again.
func (s *Store[T]) Sweep() { s.touch(s.sweep()...) }

func (s *Store[T]) sweep() (gone []view.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ahead.len() == 0 {
		return nil
	}
	for _, key := range s.ahead.passed(s.Version()) {
		if s.newest(key); !s.ahead.has(key) {
			gone = append(gone, key)
		}
	}
	return gone
}

// miss has everybody told of the end of an object that the informer does not show. It
// is told beside whoever found out, who may hold a lock.
func (s *Store[T]) miss(o T) {
	if s.missed = append(s.missed, o); len(s.missed) == 1 {
		go s.tellMissed()
	}
}

func (s *Store[T]) tellMissed() {
	s.mu.Lock()
	all := s.missed
	s.missed = nil
	s.mu.Unlock()
	for _, o := range all {
		s.tell(Change[T]{Was: o, HadWas: true, Missed: true})
	}
}

// Ahead is how many objects the store knows more of than the informer.
func (s *Store[T]) Ahead() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ahead.len()
}

// Version is the resource version that the informer has come to.
func (s *Store[T]) Version() string { return s.informer.GetIndexer().LastStoreSyncResourceVersion() }

// Passed reports whether the informer has passed a resource version: what it does
// not show by then does not exist. The version may be of another kind of ours, for a
// server counts the writes to all custom resources with one counter.
func (s *Store[T]) Passed(version string) bool { return AtLeast(s.Version(), version) }

// Read reads one object from the API server itself: a read without a resource
// version is answered from the quorum, not from a cache. What it learns goes into
// the store, so that the next look does not need to ask again. An answer that there
// is none is of the time of the question: what the store shows only since then was
// made since then.
func (s *Store[T]) Read(ctx context.Context, key view.Key) (states.Presence, error) {
	before, had := s.Get(key)
	o, err := s.get(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		if had {
			s.MarkDeleted(before)
		}
		if _, ok := s.Get(key); ok {
			return states.PresenceShown, nil
		}
		return states.PresenceMissing, nil
	case err != nil:
		return states.PresenceUnseen, err
	}
	if err := s.Put(o); err != nil {
		return states.PresenceUnseen, err
	}
	if _, ok := s.Get(key); ok {
		return states.PresenceShown, nil
	}
	return states.PresenceHidden, nil // the informer has passed it: it is gone again
}

// CatchUp reads all objects from the API server itself: whatever was written before
// the question is known when it returns, however far the informer is behind.
func (s *Store[T]) CatchUp(ctx context.Context) error {
	all, version, err := s.list(ctx)
	if err != nil {
		return err
	}
	listed := map[view.Key]bool{}
	for _, o := range all {
		listed[view.KeyOf(o)] = true
		if err := s.Put(o); err != nil {
			return err
		}
	}
	for _, o := range s.All() {
		if !listed[view.KeyOf(o)] && AtLeast(version, o.GetResourceVersion()) {
			s.MarkDeleted(o)
		}
	}
	return nil
}

// Fetch reads one object from the API server itself and keeps nothing of it: it may
// be none that the informer watches.
func (s *Store[T]) Fetch(ctx context.Context, key view.Key) (o T, found bool, err error) {
	o, err = s.get(ctx, key)
	if apierrors.IsNotFound(err) {
		return o, false, nil
	}
	return o, err == nil, err
}

// Has reports whether an object is still there, as far as is known, and not another one of
// its name.
func (s *Store[T]) Has(was T) bool {
	is, ok := s.Get(view.KeyOf(was))
	return ok && is.GetUID() == was.GetUID()
}

// Stays reports whether an object is still there, as far as is known, and is not being
// deleted.
func (s *Store[T]) Stays(was T) bool {
	is, ok := s.Get(view.KeyOf(was))
	return ok && is.GetUID() == was.GetUID() && is.GetDeletionTimestamp() == nil
}

// Still returns what tells whether an object is as it was seen, as far as is known when
// it is asked: nothing newer is known of it, and not that it is gone.
func (s *Store[T]) Still(was T) func() bool {
	key := view.KeyOf(was)
	return func() bool {
		is, ok := s.Get(key)
		if !ok {
			is, ok = s.Beyond(key)
		}
		return ok && is.GetUID() == was.GetUID() && !newer(is, was)
	}
}

// Settle takes in the answer to a write on an object as it was seen. Someone else
// having moved first, or the object being gone, is no failure: what the API server
// has now is read, and the step goes on from there.
func (s *Store[T]) Settle(ctx context.Context, was, got T, err error) error {
	switch {
	case err == nil:
		return s.Put(got)
	case errors.Is(err, apply.ErrOutdated): // this store has said so
		return nil
	case errors.Is(err, apply.ErrLost), errors.Is(err, apply.ErrGone):
		_, err := s.Read(ctx, view.KeyOf(was))
		return err
	}
	return err
}

// SettleDelete takes in the answer to a deletion of an object as it was seen: it is gone,
// or Settle says what a failure means.
func (s *Store[T]) SettleDelete(ctx context.Context, was T, err error) error {
	if err != nil {
		return s.Settle(ctx, was, was, err)
	}
	s.MarkDeleted(was)
	return nil
}

// newest resolves one key, and forgets an entry that is not ahead any more.
func (s *Store[T]) newest(key view.Key) (T, bool) {
	var none T
	var seen T
	e, ok := s.ahead.get(key)
	// Asked before the look: an informer that passes the entry between the two
	// shows it. The other way round, what is there would look gone.
	passed := ok && s.Passed(e.object.GetResourceVersion())
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
	s.ahead.drop(key)
	if !e.gone && !shown {
		s.miss(e.object)
	}
	return seen, shown
}

// newer reports whether a is a later state than b of the same name.
func newer(a, b metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c > 0
}

// AtLeast reports whether a resource version is another or a later one. One that
// cannot be read is neither.
func AtLeast(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c >= 0
}
