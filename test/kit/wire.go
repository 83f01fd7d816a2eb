package kit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A Wire is between one controller and the server. It keeps every write, in
// order, and makes the faults that a test asks for.
type Wire struct {
	poke  func()
	dead  chan struct{}
	gates *WatchGates // on the watches of the same controller

	mu     sync.Mutex
	writes []*Write
	faults []*fault
	under  []http.RoundTripper
}

// logicalClock ticks at whatever happens on all wires, so that it is known of any
// two writes whether one was over before the other began.
var logicalClock atomic.Int64

// A Fault is something that goes wrong with one write.
type Fault struct {
	// On says which writes it may happen to.
	On func(Write) bool
	// Skip is how many of them pass before.
	Skip int
	// Always: it happens to every one of them, and not once.
	Always bool
	// Do is what happens.
	Do Behaviour
}

type fault struct {
	Fault
	left int
	done bool
}

// On matches writes by kind and verb.
func On(kind, verb string) func(Write) bool {
	return func(w Write) bool { return w.Is(kind, verb) }
}

// Any matches every write.
func Any(Write) bool { return true }

func newWire(poke func()) *Wire {
	w := &Wire{poke: poke, dead: make(chan struct{})}
	w.gates = newWatchGates(w)
	return w
}

// Inject arms a fault. It happens once, unless it says otherwise.
func (w *Wire) Inject(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, &fault{Fault: f, left: f.Skip})
}

// Writes returns every write so far, in the order in which they began.
func (w *Wire) Writes() []Write {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Write, len(w.writes))
	for i, one := range w.writes {
		all[i] = *one
	}
	return all
}

// forget drops the writes by now.
func (w *Wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = nil
}

// Count is how many writes of a kind and verb have begun. What a write has changed may be
// seen before its answer is: whoever has seen it finds it counted.
func (w *Wire) Count(kind, verb string) int {
	return len(slices.DeleteFunc(w.Writes(), func(one Write) bool { return !one.Is(kind, verb) }))
}

// Answered is how many of them were answered.
func (w *Wire) Answered(kind, verb string) int {
	return len(slices.DeleteFunc(w.Writes(), func(one Write) bool { return !one.Is(kind, verb) || one.Ended == 0 }))
}

// String lists the writes.
func (w *Wire) String() string {
	var b strings.Builder
	for _, one := range w.Writes() {
		fmt.Fprintf(&b, "  %4d-%-4d %-12s %-13s %-8s %-20s sent=%t %d\n",
			one.Begun, one.Ended, one.Manager, one.Kind, one.Verb, one.Name, one.Sent, one.Code)
	}
	return b.String()
}

// errDead is what a process that is no more would hear.
var errDead = errors.New("the process is dead")

// cut makes the wire refuse everything from now on.
func (w *Wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isDead() {
		close(w.dead)
	}
}

func (w *Wire) isDead() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

// wrap puts the wire in front of a transport.
func (w *Wire) wrap(next http.RoundTripper) http.RoundTripper {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under = append(w.under, next)
	return trip(func(r *http.Request) (*http.Response, error) {
		if w.isDead() {
			return nil, errDead
		}
		if r.Method == http.MethodGet {
			return w.heard(next.RoundTrip(r))
		}
		return w.write(next, r)
	})
}

// heard passes an answer on to a process that is still there to hear it.
func (w *Wire) heard(answer *http.Response, err error) (*http.Response, error) {
	if w.isDead() && err == nil {
		answer.Body.Close()
		return nil, errDead
	}
	return answer, err
}

func (w *Wire) write(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	one, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("read a write: %w", err)
	}
	c, do := w.begin(&call{wire: w, request: r, next: next, write: &one})
	answer, err := do(c)
	sent := logicalClock.Add(1)
	w.gates.pass(one.resource, true, r.Context().Done())
	if r.Context().Err() == nil {
		w.gates.through(one.resource, "the answer to a write", true, sent)
	}
	answer, err = w.heard(answer, err)
	w.end(c, answer)
	return answer, err
}

// begin notes a write and finds what happens to it.
func (w *Wire) begin(c *call) (*call, Behaviour) {
	defer w.poke()
	w.mu.Lock()
	defer w.mu.Unlock()
	c.write.Begun, c.write.At = logicalClock.Add(1), time.Now()
	w.writes = append(w.writes, c.write)
	for _, f := range w.faults {
		if f.done || !f.On(*c.write) {
			continue
		}
		if f.left > 0 {
			f.left--
			continue
		}
		f.done = !f.Always
		return c, f.Do
	}
	return c, Deliver
}

func (w *Wire) end(c *call, answer *http.Response) {
	defer w.poke()
	w.mu.Lock()
	defer w.mu.Unlock()
	c.write.Ended, c.write.Sent = logicalClock.Add(1), c.sent
	if answer != nil {
		c.write.Code = answer.StatusCode
	}
}

// hangUp closes the connections that are left idle.
func (w *Wire) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.under {
		utilnet.CloseIdleConnectionsFor(t)
	}
}

// errReset is a connection that broke.
var errReset = fmt.Errorf("read: %w", syscall.ECONNRESET)

type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
