package loop

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// An Emitter reports Events without anybody waiting for them. An Event that fails,
// or for which there is no room, is logged and lost: it is news, not state.
type Emitter struct {
	log    *slog.Logger
	tracer trace.Tracer
	write  func(context.Context, apply.Regarding, apply.EventBody) error

	mu     sync.Mutex
	closed bool
	queue  chan event
}

type event struct {
	about apply.Regarding
	body  apply.EventBody
}

// The most Events that wait at once, and that are written at once.
const (
	eventsWaiting = 4096
	eventsWriting = 4
)

// NewEmitter returns an emitter that writes through a function. Without a tracer it
// makes no spans.
func NewEmitter(write func(context.Context, apply.Regarding, apply.EventBody) error, tracer trace.Tracer, log *slog.Logger) *Emitter {
	return &Emitter{log: log, tracer: tracer, write: write, queue: make(chan event, eventsWaiting)}
}

// Emit reports an Event about an object. A nil Emitter reports nothing.
func (e *Emitter) Emit(about apply.Regarding, body apply.EventBody) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	select {
	case e.queue <- event{about, body}:
	default:
		e.log.Debug("event dropped: too many wait", "about", view.KeyOf(about).String(), "reason", body.Reason)
	}
}

// Run writes Events until the emitter is stopped and all that wait are written.
func (e *Emitter) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range eventsWriting {
		wg.Go(func() {
			for one := range e.queue {
				if err := e.emit(ctx, one); err != nil {
					e.log.Debug("event", "about", view.KeyOf(one.about).String(), "reason", one.body.Reason, "err", err)
				}
			}
		})
	}
	wg.Wait()
}

// emit writes an Event, in the trace of what it is about.
func (e *Emitter) emit(ctx context.Context, one event) error {
	if e.tracer == nil {
		return e.write(ctx, one.about, one.body)
	}
	ctx, span := e.tracer.Start(within(ctx, one.about), "EmitEvent", trace.WithAttributes(attribute.String("reason", one.body.Reason)))
	defer span.End()
	return e.write(ctx, one.about, one.body)
}

// Stop takes no Event any more.
func (e *Emitter) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.queue)
	}
}
