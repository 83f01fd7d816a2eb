package loop

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Spans say how the steps of a loop are traced.
type Spans struct {
	// Tracer makes the spans; nil makes none.
	Tracer trace.Tracer
	// Name is the name of the span of a step.
	Name string
	// Kind begins the attributes that name the object.
	Kind string
	// Object finds the object of a key, which says in which trace its client made it; nil
	// if there is none. Without a function every step is a trace of its own.
	Object func(view.Key) metav1.Object
}

// A tracing makes the spans of a loop. A nil tracing makes none and costs nothing.
type tracing struct {
	Spans
	mu sync.Mutex
	// since is when the keys that wait came into the queue.
	since map[view.Key]time.Time
}

func newTracing(s Spans) *tracing {
	if s.Tracer == nil {
		return nil
	}
	return &tracing{Spans: s, since: map[view.Key]time.Time{}}
}

// queued notes that a key begins to wait.
func (t *tracing) queued(key view.Key) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since[key] = time.Now()
}

// came returns since when a key has waited. It waits no longer.
func (t *tracing) came(key view.Key) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, ok := t.since[key]
	if !ok {
		return time.Now()
	}
	delete(t.since, key)
	return since
}

// begin begins the span of a step. It reaches back to when the key began to wait, which
// is a span within it.
func (t *tracing) begin(ctx context.Context, key view.Key) (context.Context, trace.Span) {
	if t == nil {
		return ctx, nil
	}
	since := t.came(key)
	about := []attribute.KeyValue{attribute.String(t.Kind+".name", key.Name), attribute.String(t.Kind+".namespace", key.Namespace)}
	if t.Object != nil {
		if o := t.Object(key); o != nil {
			ctx = within(ctx, o)
			if by := o.GetLabels()[apply.LabelCreatedBy]; by != "" {
				about = append(about, attribute.String("created-by", apply.Creator(by)))
			}
		}
	}
	ctx, span := t.Tracer.Start(ctx, t.Name, trace.WithTimestamp(since), trace.WithAttributes(about...))
	_, waited := t.Tracer.Start(ctx, "waitInQueue", trace.WithTimestamp(since))
	waited.End()
	return ctx, span
}

// end ends the span of a step.
func (t *tracing) end(span trace.Span, r Result) {
	if t == nil {
		return
	}
	span.SetAttributes(attribute.String("result", r.name()))
	if r.Err != nil && !apply.Expected(r.Err) {
		span.SetStatus(codes.Error, apply.Message(r.Err))
	}
	span.End()
}

// within continues the trace that the annotation of an object says, as the W3C writes it.
// What cannot be read says nothing: anybody may write it.
func within(ctx context.Context, o metav1.Object) context.Context {
	text, ok := o.GetAnnotations()[apply.AnnotationTrace]
	if !ok {
		return ctx
	}
	var headers propagation.MapCarrier
	if json.Unmarshal([]byte(text), &headers) != nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, headers)
}
