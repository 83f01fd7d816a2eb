package main

import (
	"context"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/metrics"
)

// buildInfo is a gauge that is always one and says what runs.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agent_sandbox_build_info", Help: "What was built; always 1.",
	}, []string{"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"})
	g.WithLabelValues(version, commit, date, runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH).Set(1)
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

// leading says whether this process holds the lease.
type leading struct{ status *prometheus.GaugeVec }

var _ leaderelection.MetricsProvider = leading{}

func (l leading) NewLeaderMetric() leaderelection.LeaderMetric { return l }

func (l leading) On(lease string)                { l.status.WithLabelValues(lease).Set(1) }
func (l leading) Off(lease string)               { l.status.WithLabelValues(lease).Set(0) }
func (l leading) SlowpathExercised(lease string) {} // how a lease is renewed is nobody's concern

func countLeading(registry *prometheus.Registry) {
	l := leading{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status", Help: "Whether this process holds the lease: 1 or 0.",
	}, []string{"name"})}
	registry.MustRegister(l.status)
	leaderelection.SetProvider(l)
}
