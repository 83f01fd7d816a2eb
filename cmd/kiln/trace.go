package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushLimit is the longest that the last spans may take on their way at the end. They
// are worth less than the end of the process in time.
const flushLimit = 5 * time.Second

// A tracing is where spans go.
type tracing struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// newTracing sends spans by OTLP over gRPC as the environment says: OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_INSECURE, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and their like. It
// waits for no collector.
func newTracing(ctx context.Context, log *slog.Logger) (*tracing, error) {
	if err := judgeEndpoints(); err != nil {
		return nil, err
	}
	// First, so that what the exporter finds in the environment is said here.
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(&complaints{log: log})
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = component
	}
	who, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", component), attribute.String("service.version", version), attribute.String("service.instance.id", host),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("name the source of traces: %w", err)
	}
	return &tracing{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(who)), log: log}, nil
}

// judgeEndpoints holds where traces go against what the exporter reads. It takes the
// default for what it cannot parse, and an empty one for a URL without a host; the traces
// would be missed later. A target of gRPC, such as collector:4317, is as good as a URL.
func judgeEndpoints() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		value := strings.TrimSpace(os.Getenv(name))
		u, err := url.Parse(value)
		if err != nil || (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() == "" {
			return fmt.Errorf("%s is %q; give a URL such as http://collector.observability:4317", name, value)
		}
	}
	return nil
}

func (t *tracing) tracer() trace.Tracer {
	return t.provider.Tracer("github.com/kiln-sandbox/kiln", trace.WithInstrumentationVersion(version))
}

// flush sends what was not sent yet, for as long as flushLimit.
func (t *tracing) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last traces are lost", "err", err)
	}
}

// complaints log what is wrong with sending, once for each thing there is to say: a
// collector that is away is away for each batch.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	said string
}

// Handle logs an error of the SDK's.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err.Error() != c.said {
		c.said = err.Error()
		c.log.Warn("traces are not sent", "err", err)
	}
}
