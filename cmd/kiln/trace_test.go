package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A well takes spans and never answers.
type well struct{}

func (well) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

func (well) Shutdown(ctx context.Context) error { return ctx.Err() }

func TestTheEndIsNotHeldUpByACollectorThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var log bytes.Buffer
		traces := &tracing{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(well{})), log: slog.New(slog.NewTextHandler(&log, nil))}
		_, span := traces.tracer().Start(t.Context(), "step")
		span.End()
		begun := time.Now()
		traces.flush()
		g.Expect(time.Since(begun)).To(Equal(flushLimit))
		g.Expect(log.String()).To(ContainSubstring("the last traces are lost"))
		time.Sleep(time.Hour) // the export has a limit of its own, and nobody waits for it
	})
}

func TestWhatIsWrongWithSendingIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	c := &complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, text := range []string{"away", "away", "refused", "refused"} {
		c.Handle(errors.New(text))
	}
	NewWithT(t).Expect(bytes.Count(log.Bytes(), []byte("traces are not sent"))).To(Equal(2), log.String())
}

func TestAnEndpointOfTracesThatIsNoneIsAnError(t *testing.T) {
	const general, own = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, row := range []struct {
		name, variable, value string
		taken                 bool
	}{
		{"a URL", general, "http://collector.observability:4317", true},
		{"a URL over TLS, for traces alone", own, "https://10.0.0.1:4317", true},
		{"a URL in blanks", general, " http://[fd00::1]:4317 ", true},
		{"nothing, which is the default", general, " ", true},
		{"a target of gRPC", general, "collector:4317", true},
		{"a socket", general, "unix:///run/collector.sock", true},
		{"no scheme before an address", own, "10.0.0.1:4317", false},
		{"no host", general, "http://:4317", false},
		{"a port that is no number", own, "http://collector:otlp", false},
		{"one slash", own, "http:/collector:4317", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv(general, "")
			t.Setenv(own, "")
			t.Setenv(row.variable, row.value)
			traces, err := newTracing(t.Context(), slog.New(slog.DiscardHandler))
			if row.taken {
				g.Expect(err).NotTo(HaveOccurred())
				traces.flush()
				return
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(row.variable+" is "), ContainSubstring(row.value), ContainSubstring("give a URL such as http://"))))
		})
	}
}

func TestWhatTheExporterSaysOfTheEnvironmentIsInTheLog(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
	var log bytes.Buffer
	traces, err := newTracing(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	traces.flush()
	g.Expect(log.String()).To(ContainSubstring("soon"))
}
