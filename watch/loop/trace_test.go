package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

const (
	traceOfClient = "0af7651916cd43dd8448eb211c80319c"
	spanOfClient  = "b7ad6b7169203331"
)

// steps runs one step of a traced loop over an object, and returns the spans of it in
// the order in which they ended.
func steps(t *testing.T, fails error, o metav1.Object) []sdktrace.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	c := &counter{decide: upTo(1, states.Decision{Act: states.Rest}), fails: func(int) error { return fails }}
	l := New(Options{
		Name: "test", Workers: 1, Log: slog.New(slog.DiscardHandler),
		Spans: Spans{Tracer: tracer, Name: "ReconcileSandbox", Kind: "sandbox", Object: func(view.Key) metav1.Object { return o }},
	}, c)
	l.Start()
	l.Wake(key)
	l.next(t.Context())
	l.Stop()
	l.Run(t.Context())
	return recorder.Ended()
}

func object(annotation string) metav1.Object {
	return &metav1.ObjectMeta{Annotations: map[string]string{apply.AnnotationTrace: annotation}, Labels: map[string]string{apply.LabelCreatedBy: "go-client"}}
}

func TestAStepGoesOnWithTheTraceOfItsObjectAndReachesBackToItsWait(t *testing.T) {
	for name, row := range map[string]struct {
		annotation string
		continued  bool
	}{
		"as the client wrote it":           {fmt.Sprintf(`{"traceparent":"00-%s-%s-01","tracestate":"a=b"}`, traceOfClient, spanOfClient), true},
		"what is no JSON says nothing":     {"00-" + traceOfClient, false},
		"what is no map says nothing":      {`["a"]`, false},
		"what is no trace says nothing":    {`{"traceparent":"00-0-0-01"}`, false},
		"an empty annotation says nothing": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			spans := steps(t, nil, object(row.annotation))
			g.Expect(spans).To(HaveLen(2))
			waited, step := spans[0], spans[1]
			g.Expect(waited.Name()).To(Equal("waitInQueue"))
			g.Expect(step.Name()).To(Equal("ReconcileSandbox"))
			g.Expect(waited.Parent().SpanID()).To(Equal(step.SpanContext().SpanID()))
			g.Expect(waited.StartTime()).To(Equal(step.StartTime()))
			g.Expect(step.EndTime()).NotTo(BeTemporally("<", waited.EndTime()))
			g.Expect(step.Parent().IsValid()).To(Equal(row.continued))
			if row.continued {
				g.Expect(step.Parent().SpanID().String()).To(Equal(spanOfClient))
				g.Expect(step.SpanContext().TraceID().String()).To(Equal(traceOfClient))
			}
			g.Expect(said(step)).To(Equal([]string{"created-by=go-client", "result=success", "sandbox.name=x", "sandbox.namespace=a"}))
		})
	}
}

// said are the attributes of a span.
func said(s sdktrace.ReadOnlySpan) (all []string) {
	for _, a := range s.Attributes() {
		all = append(all, string(a.Key)+"="+a.Value.AsString())
	}
	slices.Sort(all)
	return all
}

func TestAStepThatFailsSaysSoInItsSpanAndOneThatLosesARaceDoesNot(t *testing.T) {
	for fails, code := range map[error]codes.Code{errors.New("no"): codes.Error, apply.ErrLost: codes.Unset} {
		g := NewWithT(t)
		spans := steps(t, fails, nil)
		step := spans[len(spans)-1]
		g.Expect(step.Status().Code).To(Equal(code), fails.Error())
		g.Expect(said(step)).To(ContainElement("result=error"))
		g.Expect(step.Parent().IsValid()).To(BeFalse(), "nothing is known of its object")
	}
}

func TestNothingIsRememberedOfAKeyThatWaitsNoLonger(t *testing.T) {
	traces := newTracing(Spans{Tracer: sdktrace.NewTracerProvider().Tracer("test"), Name: "x"})
	for range 2 {
		traces.queued(key)
		_, span := traces.begin(t.Context(), key)
		traces.end(span, Result{})
	}
	NewWithT(t).Expect(traces.since).To(BeEmpty())
}

// A controller that traces nothing pays nothing for it, at each step and each write.
func TestTracesThatAreOffAllocateNothing(t *testing.T) {
	g, traces := NewWithT(t), newTracing(Spans{})
	g.Expect(traces).To(BeNil())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g.Expect(testing.AllocsPerRun(1000, func() {
		traces.queued(key)
		ctx, span := traces.begin(ctx, key)
		_, write := apply.Span(ctx, "write")
		write.End()
		traces.end(span, Result{})
	})).To(BeZero())
}
