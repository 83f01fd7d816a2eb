package apply

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

var errNoLease = errors.New("the lease is lost")

// A leader loses the lease while a step is under way: the step's next request does
// not begin, nor does one that client-go would repeat.
func TestNoRequestBeginsThatIsNotPermitted(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Int32
	var lost atomic.Bool
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		lost.Store(true)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer h.Close()
	a, err := New(&rest.Config{Host: h.URL}, Options{Component: "kiln", Permit: func() error {
		if lost.Load() {
			return errNoLease
		}
		return nil
	}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = a.CreateOwn(t.Context(), aClaim(), aBlueprint(t))
	g.Expect(err).To(And(MatchError(ErrStopped), MatchError(errNoLease)))
	g.Expect(asked.Load()).To(Equal(int32(1)), "the server was busy, and the request was not repeated")
	_, err = a.CreateOwn(t.Context(), aClaim(), aBlueprint(t))
	g.Expect(err).To(MatchError(ErrStopped))
	g.Expect(asked.Load()).To(Equal(int32(1)))
}

func TestAnApplierThatIsDrainedRefillsNothing(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	s.applier.Drain()
	_, err := s.applier.CreateMember(t.Context(), aPool(), "x", aBlueprint(t))
	g.Expect(err).To(And(MatchError(ErrStopped), MatchError(ContainSubstring("sandbox ns/x: create"))))
	g.Expect(s.sent()).To(BeZero())
	_, err = s.applier.CreateOwn(t.Context(), aClaim(), aBlueprint(t))
	g.Expect(err).NotTo(HaveOccurred(), "a claim waits for it")
}
