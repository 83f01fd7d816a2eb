package store

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// An object may stand in the way of one of ours and be none that the informer
// watches: it lacks the label. Such an object is followed by a watch of its own, of
// one name, until it is gone, and its events are passed on as the informer's are.

// A followed is an object that the informer does not show, and what ends its watch.
type followed[T Object] struct {
	object T
	end    context.CancelFunc
}

// mostFollowed bounds the watches of single objects.
const mostFollowed = 256

// followAgain is how long it takes until whoever waits for an object looks again,
// when it could not be watched.
const followAgain = 10 * time.Second

// Beyond returns an object that the informer does not show, and that is followed.
func (s *Store[T]) Beyond(key view.Key) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.beyond[key]
	return f.object, ok
}

// Followed is how many objects are followed.
func (s *Store[T]) Followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.beyond)
}

// Follow watches an object, as it was read, until it is gone or ctx ends. It reports
// false when too many are followed: nobody will be woken then.
func (s *Store[T]) Follow(ctx context.Context, o T) bool {
	if _, err := trim(o); err != nil {
		return false
	}
	key := view.KeyOf(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.beyond[key]; ok {
		if newer(o, f.object) {
			s.beyond[key] = followed[T]{o, f.end}
		}
		return true
	}
	if len(s.beyond) >= mostFollowed {
		return false
	}
	ctx, end := context.WithCancel(ctx)
	s.beyond[key] = followed[T]{o, end}
	go func() {
		defer end()
		s.follow(ctx, key, o.GetResourceVersion())
	}()
	return true
}

// Unfollow ends the watch of an object that is in nobody's way any more.
func (s *Store[T]) Unfollow(key view.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.beyond[key]; ok {
		f.end()
		delete(s.beyond, key)
	}
}

// follow watches one name from a version on. When the watch ends, for whatever
// reason, the object counts as gone: whoever is woken by that finds out.
func (s *Store[T]) follow(ctx context.Context, key view.Key, version string) {
	w, err := s.watch(ctx, key.Namespace, metav1.ListOptions{
		FieldSelector: "metadata.name=" + key.Name, ResourceVersion: version,
	})
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
		s.lose(ctx, key)
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(T)
		if !ok || e.Type == apiwatch.Deleted || !s.keep(ctx, key, o) {
			break
		}
		s.tell(Change[T]{Was: o, Is: o, HadWas: true, HasIs: true})
	}
	s.lose(ctx, key)
}

// keep takes in what a watch of one name shows.
func (s *Store[T]) keep(ctx context.Context, key view.Key, o T) bool {
	_, err := trim(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || ctx.Err() != nil {
		return false
	}
	s.beyond[key] = followed[T]{o, s.beyond[key].end}
	return true
}

// lose drops an object that is followed no more, and tells of its end.
func (s *Store[T]) lose(ctx context.Context, key view.Key) {
	s.mu.Lock()
	last, ok := s.beyond[key]
	ended := ctx.Err() != nil
	if ok && !ended {
		delete(s.beyond, key)
	}
	s.mu.Unlock()
	if ok && !ended {
		s.tell(Change[T]{Was: last.object, HadWas: true})
	}
}

// tell passes a change on.
func (s *Store[T]) tell(c Change[T]) {
	for _, do := range s.handlers {
		do(c)
	}
}
