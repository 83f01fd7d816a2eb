package apply

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope names who made a span.
const scope = "github.com/kiln-sandbox/kiln"

// noSpan is what stands for a span where nothing is traced.
var noSpan = trace.SpanFromContext(context.Background())

// Span begins a span below that of ctx. Where ctx has none, as when traces are off or
// this one is not sampled, it makes nothing and costs nothing.
func Span(ctx context.Context, name string) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, noSpan
	}
	return above.TracerProvider().Tracer(scope).Start(ctx, name)
}

// span begins the span of a write.
func (w write) span(ctx context.Context) (context.Context, trace.Span) {
	ctx, span := Span(ctx, "write")
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("kind", w.kind), attribute.String("edge", w.edge), attribute.String("manager", string(w.manager)),
			attribute.String("namespace", w.key.Namespace), attribute.String("name", w.key.Name),
		)
	}
	return ctx, span
}

// ended ends the span of a write, and says which class it had in the end, and what became
// of it in the words of the metric.
func (w write) ended(span trace.Span, outcome string, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("class", w.class.String()), attribute.String("outcome", outcome))
	if err != nil && !Expected(err) {
		span.SetStatus(codes.Error, Message(err))
	}
	span.End()
}
