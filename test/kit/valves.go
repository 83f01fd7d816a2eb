package kit

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

var errAlive = errors.New("the controller has not crashed")

// Valves are on the watches of a controller, one for each kind. While one is
// shut, the controller does not see what happens to that kind; all of it comes
// when the valve is opened. Consistent reads are not held back.
type Valves struct {
	wire *Wire

	mu     sync.Mutex
	shut   map[string]chan struct{} // closed when the valve opens
	broken bool
	proofs proofs
	failed map[string]bool
	under  []http.RoundTripper
}

func newValves(w *Wire) *Valves {
	return &Valves{wire: w, shut: map[string]chan struct{}{}, failed: map[string]bool{}}
}

// Fail has the server answer consistent reads of a kind with an error, or answer
// them again.
func (v *Valves) Fail(kind string, fails bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed[kind] = fails
}

// fails reports whether a request is such a read.
func (v *Valves) fails(r *http.Request) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	return v.failed[parts[len(parts)-2]]
}

// proofs counts the reads of metadata alone: what a controller asks for to prove
// that its view is new.
type proofs struct{ answered, under, atOnce int }

// The answers to proofs can be held back too, as a kind of their own.
const proofsKind = "proofs"

// Shut holds back the watches of kinds: pods, sandboxes, sandboxclaims,
// sandboxwarmpools, sandboxtemplates; and the answers to proofs.
func (v *Valves) Shut(kinds ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, kind := range kinds {
		if v.shut[kind] == nil && !v.broken {
			v.shut[kind] = make(chan struct{})
		}
	}
}

// Open lets through what was held back; with no kind, all of it.
func (v *Valves) Open(kinds ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for kind, held := range v.shut {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			close(held)
			delete(v.shut, kind)
		}
	}
}

// burst opens every valve for good: there is nobody behind them any more.
func (v *Valves) burst() {
	v.mu.Lock()
	v.broken = true
	v.mu.Unlock()
	v.Open()
}

func (v *Valves) held(kind string) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shut[kind]
}

// wrap puts the valves on a transport.
func (v *Valves) wrap(next http.RoundTripper) http.RoundTripper {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.under = append(v.under, next)
	return trip(func(r *http.Request) (*http.Response, error) {
		if v.wire.isDead() {
			return nil, errDead
		}
		if v.fails(r) {
			return Answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)(&call{request: r})
		}
		if isProof(r) {
			return v.prove(r, next)
		}
		answer, err := next.RoundTrip(r)
		if err != nil || r.URL.Query().Get("watch") == "" {
			return v.wire.heard(answer, err)
		}
		kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		answer.Body = &valve{ReadCloser: answer.Body, held: func() <-chan struct{} { return v.held(kind) }, closed: make(chan struct{})}
		return answer, nil
	})
}

func isProof(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
}

// prove lets a proof be read, and counts it.
func (v *Valves) prove(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	v.count(func(p *proofs) {
		p.under++
		p.atOnce = max(p.atOnce, p.under)
	})
	answer, err := next.RoundTrip(r)
	if held := v.held(proofsKind); held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
	v.count(func(p *proofs) {
		p.answered++
		p.under--
	})
	return v.wire.heard(answer, err)
}

func (v *Valves) count(do func(*proofs)) {
	v.mu.Lock()
	do(&v.proofs)
	v.mu.Unlock()
	v.wire.poke()
}

// Proofs returns how many reads of metadata the controller was answered, and how
// many it asked for at once at the most.
func (v *Valves) Proofs() (answered, atOnce int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.proofs.answered, v.proofs.atOnce
}

func (v *Valves) hangUp() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.under {
		utilnet.CloseIdleConnectionsFor(t)
	}
}

// A valve is on one watch. It holds what has been read, so that nothing slips
// through that came while it was being shut.
type valve struct {
	io.ReadCloser
	held   func() <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (v *valve) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	if held := v.held(); held != nil {
		select {
		case <-held:
		case <-v.closed:
		}
	}
	return n, err
}

func (v *valve) Close() error {
	v.once.Do(func() { close(v.closed) })
	return v.ReadCloser.Close()
}
