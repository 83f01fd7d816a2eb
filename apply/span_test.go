package apply

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/states"
)

// adopts is a write to trace.
var adopts = write{urgency: urgency{class: classTake}, manager: states.OwnerManager, kind: "sandbox", edge: "adopt", key: types.NamespacedName{Namespace: "a", Name: "x"}}

// writer is an applier that has a server, of which nobody asks anything here.
func writer(t testing.TB) *Applier {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	a, err := New(&rest.Config{Host: s.URL}, Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return a
}

// answers makes a write whose request ends so.
func answers(ctx context.Context, a *Applier, err error) error {
	_, got := send(ctx, a, adopts, func(context.Context, *client.Connection) (any, error) { return nil, err })
	return got
}

func TestAWriteIsASpanBelowItsStepAndSaysWhatBecameOfIt(t *testing.T) {
	for _, row := range []struct {
		err     error
		outcome string
		code    codes.Code
	}{
		{nil, "ok", codes.Unset},
		{ErrLost, "lost", codes.Unset},
		{ErrGone, "gone", codes.Unset},
		{ErrRefused, "refused", codes.Error},
		{errors.New("reset"), "retry", codes.Error},
	} {
		t.Run(row.outcome, func(t *testing.T) {
			g, recorder := NewWithT(t), tracetest.NewSpanRecorder()
			ctx, step := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test").Start(t.Context(), "step")
			if err := answers(ctx, writer(t), row.err); row.err != nil {
				g.Expect(err).To(MatchError(row.err))
			}
			spans := recorder.Ended()
			g.Expect(spans).To(HaveLen(2))
			waits, written := spans[0], spans[1]
			g.Expect([]string{waits.Name(), written.Name()}).To(Equal([]string{"waitForPlace", "write"}))
			g.Expect(written.Parent().SpanID()).To(Equal(step.SpanContext().SpanID()))
			g.Expect(waits.Parent().SpanID()).To(Equal(written.SpanContext().SpanID()))
			g.Expect(written.Status().Code).To(Equal(row.code))
			var says []string
			for _, a := range written.Attributes() {
				says = append(says, string(a.Key)+"="+a.Value.AsString())
			}
			slices.Sort(says)
			g.Expect(says).To(Equal([]string{"class=take", "edge=adopt", "kind=sandbox", "manager=kiln-owner", "name=x", "namespace=a", "outcome=" + row.outcome}))
		})
	}
}

// A write that is not traced makes nothing, and neither does one whose trace is not
// sampled.
func TestWritesThatAreNotTracedAllocateNothing(t *testing.T) {
	g := NewWithT(t)
	unsampled, _ := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("test").Start(t.Context(), "step")
	for name, ctx := range map[string]context.Context{"off": t.Context(), "not sampled": unsampled} {
		g.Expect(testing.AllocsPerRun(1000, func() {
			ctx, span := adopts.span(ctx)
			_, waits := Span(ctx, "waitForPlace")
			waits.End()
			adopts.ended(span, "ok", nil)
		})).To(BeZero(), name)
	}
}

// BenchmarkSend is what a write costs before and after its request.
func BenchmarkSend(b *testing.B) {
	for name, ctx := range map[string]func() context.Context{
		"off": b.Context,
		"traced": func() context.Context {
			ctx, _ := sdktrace.NewTracerProvider().Tracer("test").Start(b.Context(), "step")
			return ctx
		},
	} {
		b.Run(name, func(b *testing.B) {
			a, ctx := writer(b), ctx()
			b.ReportAllocs()
			for b.Loop() {
				if err := answers(ctx, a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
