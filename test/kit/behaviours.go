package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/world"
)

// A call is one write on its way.
type call struct {
	wire    *Wire
	request *http.Request
	next    http.RoundTripper
	write   *Write
	sent    bool
}

// A Behaviour is what happens to a write on its way.
type Behaviour func(*call) (*http.Response, error)

// Deliver is what happens when nothing goes wrong.
func Deliver(c *call) (*http.Response, error) {
	c.sent = true
	return c.next.RoundTrip(c.request)
}

// Drop loses the write before the server has it.
func Drop(*call) (*http.Response, error) { return nil, errReset }

// LoseAnswer loses the answer: the write is done, and nobody was told.
func LoseAnswer(c *call) (*http.Response, error) {
	if err := deliver(c); err != nil {
		return nil, err
	}
	return nil, errReset
}

// deliver sends a write and waits until the server has answered.
func deliver(c *call) error {
	answer, err := Deliver(c)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// Answer has the server refuse the write with a code.
func Answer(code int, reason metav1.StatusReason) Behaviour {
	return func(c *call) (*http.Response, error) {
		raw, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "a fault of the test",
		})
		answer := &http.Response{
			Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/2.0", ProtoMajor: 2,
			Header:  http.Header{"Content-Type": {"application/json"}},
			Body:    io.NopCloser(bytes.NewReader(raw)),
			Request: c.request,
		}
		return answer, err
	}
}

// Busy has the server say that it has too much to do, and when to come again.
func Busy(seconds int) Behaviour {
	answer := Answer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	return func(c *call) (*http.Response, error) {
		r, err := answer(c)
		if err == nil {
			r.Header.Set("Retry-After", strconv.Itoa(seconds))
		}
		return r, err
	}
}

// A Gate holds writes until it is opened.
type Gate struct {
	once       sync.Once
	came, open chan struct{}
}

// NewGate returns a gate that is shut.
func NewGate() *Gate { return &Gate{came: make(chan struct{}), open: make(chan struct{})} }

// Reached holds when a write stands before the gate.
func (g *Gate) Reached() world.Condition {
	return func(*world.Snapshot) error {
		select {
		case <-g.came:
			return nil
		default:
			return errors.New("no write stands before the gate")
		}
	}
}

// Open lets through what stands before the gate, and what comes.
func (g *Gate) Open() { close(g.open) }

// Hold keeps a write before a gate.
func Hold(g *Gate) Behaviour { return HoldThen(g, Deliver) }

// HoldThen keeps a write before a gate, and does something else with it after that.
func HoldThen(g *Gate, then Behaviour) Behaviour {
	return func(c *call) (*http.Response, error) {
		g.once.Do(func() { close(g.came) })
		c.wire.poke()
		select {
		case <-g.open:
			return then(c)
		case <-c.wire.dead:
			return nil, errDead
		case <-c.request.Context().Done():
			return nil, c.request.Context().Err()
		}
	}
}

// Until does something with a write until a gate is opened, and delivers it from then on.
func Until(g *Gate, do Behaviour) Behaviour {
	return func(c *call) (*http.Response, error) {
		g.once.Do(func() { close(g.came) })
		select {
		case <-g.open:
			return Deliver(c)
		default:
			return do(c)
		}
	}
}

// CrashBefore kills the controller when it is about to send the write.
func CrashBefore(on *Controller) Behaviour {
	return func(*call) (*http.Response, error) {
		on.Crash()
		return nil, errDead
	}
}

// CrashAfter kills the controller when the server has done the write.
func CrashAfter(on *Controller) Behaviour {
	return func(c *call) (*http.Response, error) {
		err := deliver(c)
		on.Crash()
		if err == nil {
			err = errDead
		}
		return nil, err
	}
}

// DoneBut has the write done, and another answer given.
func DoneBut(answer Behaviour) Behaviour {
	return func(c *call) (*http.Response, error) {
		if err := deliver(c); err != nil {
			return nil, err
		}
		return answer(c)
	}
}
