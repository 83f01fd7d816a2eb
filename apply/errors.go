package apply

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of failure a loop tells apart, for errors.Is. Anything else is worth
// another try with back-off.
var (
	// ErrLost: the object moved first (409). Nothing was changed; look again.
	ErrLost = errors.New("someone else moved first")
	// ErrGone: the object is gone, or another one has its name (404, or 422 on
	// the uid).
	ErrGone = errors.New("the object is gone")
	// ErrNamespaceEnds: the namespace is being deleted, and nothing is made there any
	// more (403). No other try helps: what it was for is deleted, too. It is a kind of
	// ErrGone.
	ErrNamespaceEnds = errors.New("the namespace ends")
	// ErrRefused: the server will not have it as it stands (403, 422, 400, and 500
	// if it does not know a field): quota, admission, validation. Only a change elsewhere helps.
	ErrRefused = errors.New("refused")
	// ErrStopped: this process begins no such write any more. It is stopping, or it
	// does not hold the lease.
	ErrStopped = errors.New("this process has stopped to write")
	// ErrInvalid: it is refused for what it says (422), so that no other try helps
	// until it says something else. It is a kind of ErrRefused.
	ErrInvalid = errors.New("invalid")
)

// Expected reports whether an error is part of the game: someone moved first, the object
// is gone, or this process has stopped to write.
func Expected(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrGone) || errors.Is(err, ErrStopped)
}

// Message returns what the API server said, without our own words around it.
func Message(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// Cause is why the API server refused a write, in the same words for every object: the
// reason and the fields if the server names fields, or else its message.
func Cause(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return Message(err)
	}
	cause := string(status.Status().Reason)
	for _, c := range status.Status().Details.Causes {
		cause += " " + c.Field
	}
	return cause
}

// wrap names the write that an error is about.
func (w write) wrap(err error) error {
	return fmt.Errorf("%s %s: %s: %w", w.kind, w.key, w.edge, err)
}

// classify wraps an error with its kind and names the write.
func classify(w write, err error) error {
	if err == nil {
		return nil
	}
	return w.wrap(kindOf(err))
}

func kindOf(err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return errors.Join(ErrLost, err)
	case apierrors.IsNotFound(err), apierrors.IsGone(err), aboutUID(err):
		return errors.Join(ErrGone, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errors.Join(ErrGone, ErrNamespaceEnds, err)
	case apierrors.IsInvalid(err):
		return errors.Join(ErrRefused, ErrInvalid, err)
	case apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), unreadable(err):
		return errors.Join(ErrRefused, err)
	}
	return err
}

// aboutUID reports whether the server refused a uid: the name is another
// object's by now.
func aboutUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// unreadable reports whether the server cannot read what is applied, such as a pod with
// a field that only newer servers know. It answers 500 then, and only the text tells
// this from a failure of the server itself.
func unreadable(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError &&
		strings.HasPrefix(status.Status().Message, "failed to create typed patch object (")
}

// result names the outcome of a write for the metric.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrLost):
		return "lost"
	case errors.Is(err, ErrGone):
		return "gone"
	case errors.Is(err, ErrRefused):
		return "refused"
	}
	return "retry"
}
