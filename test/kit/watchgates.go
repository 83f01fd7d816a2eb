package kit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// WatchGates are on the watches of a controller, one gate for each kind. What a
// gate holds back comes when it is opened.
//
// A controller learns of a kind in two ways: its watch shows it, and the answer
// to a write of its own does, which is the object as the server has it by then. A
// gate that is shut lets neither through, nor a list; a watch that is delayed
// leaves the answers alone. Reads by name pass either way, and so do lists from the
// quorum: they are what a controller asks for when it does not trust its watch.
type WatchGates struct {
	wire *Wire

	mu        sync.Mutex
	gates     map[string]*watchGate
	broken    bool // there is nobody behind the gates any more
	leaked    []string
	freshness reads
	failed    map[string]bool
	under     []http.RoundTripper
}

// A watchGate is what is held of a kind.
type watchGate struct {
	opened  chan struct{}
	at      int64 // when it was shut, on the logical clock
	answers bool  // the answers to writes are held too
}

// reads counts the reads of metadata alone: what a controller asks for to learn
// whether its view is fresh.
type reads struct{ answered, under, atOnce int }

// Freshness is the gate on the answers to the reads that prove freshness.
const Freshness = "freshness reads"

func newWatchGates(w *Wire) *WatchGates {
	return &WatchGates{wire: w, gates: map[string]*watchGate{}, failed: map[string]bool{}}
}

// Shut lets nothing of kinds through: pods, sandboxes, sandboxclaims,
// sandboxwarmpools, sandboxtemplates, or Freshness. If anything gets through all
// the same, the test fails when its world ends.
func (g *WatchGates) Shut(kinds ...string) { g.hold(true, kinds) }

// Delay holds the watches of kinds back, and not what the controller is answered
// when it writes: it knows what it has done itself, and nothing else.
func (g *WatchGates) Delay(kinds ...string) { g.hold(false, kinds) }

func (g *WatchGates) hold(answers bool, kinds []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, kind := range kinds {
		if g.gates[kind] == nil && !g.broken {
			g.gates[kind] = &watchGate{opened: make(chan struct{}), at: logicalClock.Add(1), answers: answers}
		}
	}
}

// Open lets through what was held back; with no kind, all of it.
func (g *WatchGates) Open(kinds ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for kind, gate := range g.gates {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			close(gate.opened)
			delete(g.gates, kind)
		}
	}
}

// retire opens every gate for good.
func (g *WatchGates) retire() {
	g.mu.Lock()
	g.broken = true
	g.mu.Unlock()
	g.Open()
}

// gate is the gate on a kind, if one holds what is asked for.
func (g *WatchGates) gate(kind string, answer bool) (*watchGate, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.gates[kind]
	return gate, gate != nil && (gate.answers || !answer)
}

// pass waits before the gate on a kind, until it opens or done is closed.
func (g *WatchGates) pass(kind string, answer bool, done <-chan struct{}) {
	gate, held := g.gate(kind, answer)
	if !held {
		return
	}
	select {
	case <-gate.opened:
	case <-done:
	case <-g.wire.dead:
	}
}

// through notes that the controller gets what the server has sent by a time. It
// does not ask what held it, but only whether anything should have.
func (g *WatchGates) through(kind, what string, answer bool, sent int64) {
	if gate, held := g.gate(kind, answer); held && sent > gate.at && !g.wire.isDead() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.leaked = append(g.leaked, fmt.Sprintf("the gate on %s was shut and let %s through", kind, what))
	}
}

// leaks are what got through a gate that was shut.
func (g *WatchGates) leaks() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.leaked)
}

// Fail has the server answer reads by name of a kind with an error, or answer
// them again.
func (g *WatchGates) Fail(kind string, fails bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed[kind] = fails
}

func (g *WatchGates) fails(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	return g.failed[parts[len(parts)-2]]
}

// wrap puts the gates on a transport.
func (g *WatchGates) wrap(next http.RoundTripper) http.RoundTripper {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under = append(g.under, next)
	return trip(func(r *http.Request) (*http.Response, error) {
		last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case g.wire.isDead():
			return nil, errDead
		case g.fails(r):
			return Answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)(&call{request: r})
		case strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
			return g.read(r, next)
		case kinds[last] == "" || quorum(r): // a read by name, or of all
			return g.wire.heard(next.RoundTrip(r))
		case r.URL.Query().Get("watch") == "":
			return g.list(last, r, next)
		}
		answer, err := next.RoundTrip(r)
		if err == nil {
			answer.Body = &heldWatch{ReadCloser: answer.Body, gates: g, kind: last, closed: make(chan struct{})}
		}
		return g.wire.heard(answer, err)
	})
}

// quorum reports whether a request is a list that no cache may answer. No informer
// begins with one.
func quorum(r *http.Request) bool {
	q := r.URL.Query()
	return q.Get("watch") == "" && q.Get("resourceVersion") == ""
}

// list has a list of a kind wait before its gate, and then has it read anew.
func (g *WatchGates) list(kind string, r *http.Request, next http.RoundTripper) (*http.Response, error) {
	g.pass(kind, false, r.Context().Done())
	answer, err := next.RoundTrip(r)
	sent := logicalClock.Add(1)
	g.pass(kind, false, r.Context().Done())
	g.through(kind, "a list", false, sent)
	return g.wire.heard(answer, err)
}

// read lets metadata be read, and counts it.
func (g *WatchGates) read(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	g.count(func(n *reads) {
		n.under++
		n.atOnce = max(n.atOnce, n.under)
	})
	answer, err := next.RoundTrip(r)
	g.pass(Freshness, false, r.Context().Done())
	g.count(func(n *reads) {
		n.answered++
		n.under--
	})
	return g.wire.heard(answer, err)
}

func (g *WatchGates) count(do func(*reads)) {
	g.mu.Lock()
	do(&g.freshness)
	g.mu.Unlock()
	g.wire.poke()
}

// FreshnessReads returns how many reads of metadata the controller was answered,
// and how many it asked for at once at the most.
func (g *WatchGates) FreshnessReads() (answered, atOnce int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.freshness.answered, g.freshness.atOnce
}

func (g *WatchGates) hangUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.under {
		utilnet.CloseIdleConnectionsFor(t)
	}
}

// A heldWatch is one watch behind its gate. It holds what has been read, so that
// nothing slips through that came while the gate was being shut.
type heldWatch struct {
	io.ReadCloser
	gates  *WatchGates
	kind   string
	once   sync.Once
	closed chan struct{}
}

func (h *heldWatch) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	sent := logicalClock.Add(1)
	h.gates.pass(h.kind, false, h.closed)
	select {
	case <-h.closed:
		return 0, errClosed // whoever has closed it reads no more
	default:
	}
	if n > 0 {
		h.gates.through(h.kind, "an event", false, sent)
	}
	return n, err
}

func (h *heldWatch) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.ReadCloser.Close()
}

var (
	errAlive  = errors.New("the controller has not crashed")
	errClosed = errors.New("the watch is closed")
)
