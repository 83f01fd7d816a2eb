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
