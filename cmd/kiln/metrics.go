package main

import (
	"context"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// buildInfo is a gauge that is always one and says what runs.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agent_sandbox_build_info", Help: "What was built; always 1.",
	}, []string{"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"})
	g.WithLabelValues(version, "", "", runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH).Set(1)
	return g
}

// requests counts what client-go asks the API server.
type requests struct{ total *prometheus.CounterVec }

func (r requests) Increment(_ context.Context, code, method, host string) {
	r.total.WithLabelValues(code, method, host).Inc()
}

func countRequests(registry *prometheus.Registry) {
	r := requests{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Requests to the API server by code, method and host.",
	}, []string{"code", "method", "host"})}
	registry.MustRegister(r.total)
	metrics.Register(metrics.RegisterOpts{RequestResult: r})
}
