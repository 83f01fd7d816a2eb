package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// A record keeps the Events that are written.
type record struct {
	mu  sync.Mutex
	all []string
	err error
}

func (r *record) write(_ context.Context, about apply.Regarding, body apply.EventBody) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, about.GetName()+" "+body.Reason)
	return r.err
}

var about = &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}

func TestAnEmitterWritesAllThatWaitWhenItIsStopped(t *testing.T) {
	g := NewWithT(t)
	r := &record{err: errors.New("no")} // an Event that fails is lost, and holds no other up
	e := NewEmitter(r.write, nil, slog.New(slog.DiscardHandler))
	for range 10 {
		e.Emit(about, apply.EventBody{Reason: "Said"})
	}
	e.Stop()
	e.Stop()
	e.Emit(about, apply.EventBody{Reason: "Late"})
	e.Run(t.Context())
	g.Expect(r.all).To(HaveLen(10))
	g.Expect(r.all).To(HaveEach("c Said"))
}

func TestAnEmitterDropsWhatThereIsNoRoomFor(t *testing.T) {
	g := NewWithT(t)
	r := &record{}
	e := NewEmitter(r.write, nil, slog.New(slog.DiscardHandler))
	for range eventsWaiting + 10 {
		e.Emit(about, apply.EventBody{Reason: "Said"})
	}
	e.Stop()
	e.Run(t.Context())
	g.Expect(r.all).To(HaveLen(eventsWaiting))
}

func TestANilEmitterReportsNothing(t *testing.T) {
	var e *Emitter
	e.Emit(about, apply.EventBody{Reason: "Said"})
}
