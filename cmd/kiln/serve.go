package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
)

// An endpoint is an address and what is served there, over TLS if it has any.
type endpoint struct {
	addr    string
	handler http.Handler
	tls     *tls.Config
	log     *slog.Logger
}

// headersMost bounds what one request may have in its headers: a token, and little else.
const headersMost = 64 << 10

// serve answers until ctx ends. An address that is taken is an error at once, not a log
// line later. What is wrong with one connection is the client's concern.
func (e endpoint) serve(ctx context.Context) error {
	if e.addr == "0" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", e.addr, err)
	}
	if e.tls != nil {
		l = tls.NewListener(l, e.tls)
	}
	s := &http.Server{
		Handler: e.handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: headersMost,
		ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() {
		if err := s.Close(); err != nil {
			e.log.Debug("close", "addr", e.addr, "err", err)
		}
	})
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.log.Error("serve", "addr", e.addr, "err", err)
		}
	}()
	return nil
}

// metricsEndpoint is where the metrics are served: to everybody, or guarded.
func metricsEndpoint(s *settings, cfg *rest.Config, r *prometheus.Registry, log *slog.Logger) (endpoint, error) {
	e := endpoint{addr: s.metricsAddr, handler: metricsHandler(s, r), log: log}
	if !s.metricsSecure || e.addr == "0" {
		return e, nil
	}
	var err error
	if e.tls, err = serving(s.metricsCertDir, log); err != nil {
		return e, err
	}
	e.handler, err = newGuard(cfg, e.handler, log)
	return e, err
}

// metricsHandler serves /metrics, and profiles if they are asked for.
func metricsHandler(s *settings, r *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	if s.pprof || s.pprofAll {
		mux.Handle("/debug/pprof/", profilesHandler(s))
	}
	return mux
}

// profilesHandler serves profiles. They tell more than metrics do, and to make one takes
// CPU: where no guard asks who wants them, they are for the pod itself.
func profilesHandler(s *settings) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	if s.pprofAll {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	if s.metricsSecure {
		return mux
	}
	return loopback(mux)
}

// loopback lets a request through if it comes from a loopback address. Only the
// connection counts: a header that names another address is the client's own word.
func loopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "without --metrics-secure profiles are for loopback addresses alone, such as kubectl port-forward comes from", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sample has the runtime note where goroutines block and wait for locks, without which
// those two profiles are empty. It costs some CPU, so it is for who serves them.
func sample(s *settings) {
	if s.pprofAll {
		runtime.SetBlockProfileRate(s.blockRate)
		runtime.SetMutexProfileFraction(s.mutexFraction)
	}
}

// healthHandler serves /healthz, which says that the process answers, /livez, which
// says that its loops move, and /readyz, which says that it knows the whole state of the
// cluster and can write.
func healthHandler(alive, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", check(func() error { return nil }))
	mux.HandleFunc("/livez", check(alive))
	mux.HandleFunc("/readyz", check(ready))
	return mux
}

// check answers ok, or 503 with what is wrong.
func check(well func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := well(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
