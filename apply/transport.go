package apply

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// transport is the transport of a class: requests that are not permitted do not
// come to it.
func (o Options) transport(next http.RoundTripper) http.RoundTripper {
	if o.Wrap != nil {
		next = o.Wrap(next)
	}
	next = unchecked{next}
	if o.Permit == nil {
		return next
	}
	return permitted{next, o.Permit}
}

// permitted is a transport that asks before each request.
type permitted struct {
	next   http.RoundTripper
	permit func() error
}

func (p permitted) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.permit(); err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, errors.Join(ErrStopped, err)
	}
	return p.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport, to close its connections.
func (p permitted) WrappedRoundTripper() http.RoundTripper { return p.next }

// unchecked is a transport that spares the server the search for fields that it does
// not know. The server parses a configuration a second time for it, and says what it found in
// a warning. Kiln's own fields are typed, and a user's were decoded strictly before:
// there is nothing to find. The typed clients have no option for it.
type unchecked struct{ next http.RoundTripper }

func (u unchecked) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Content-Type") != string(types.ApplyPatchType) {
		return u.next.RoundTrip(r)
	}
	address, query := *r.URL, r.URL.Query()
	query.Set("fieldValidation", metav1.FieldValidationIgnore)
	address.RawQuery = query.Encode()
	r = r.WithContext(r.Context()) // a copy: the request is its caller's
	r.URL = &address
	return u.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport, to close its connections.
func (u unchecked) WrappedRoundTripper() http.RoundTripper { return u.next }
