package watch

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/states"
)

// getter is the part of a typed client that a consistent read needs.
type getter[T object] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
}

// ask reads one object from the API server itself: a read without a resource
// version is answered from the quorum, not from a cache. What it learns goes
// into the store, so that the next look does not need to ask again. That there is
// none is said of the time of the question: what the store shows only since then
// was made since then.
func ask[T object](ctx context.Context, s *store[T], c getter[T], key Key) (states.Presence, error) {
	before, had := s.get(key)
	o, err := c.Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if had {
			s.bury(before)
		}
		if _, ok := s.get(key); ok {
			return states.Present, nil
		}
		return states.Missing, nil
	case err != nil:
		return states.Unseen, err
	}
	if _, err := trim(o); err != nil {
		return states.Unseen, err
	}
	s.put(o)
	if _, ok := s.get(key); ok {
		return states.Present, nil
	}
	return states.Hidden, nil // the informer has passed it: it is gone again
}
