package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve answers on an address until ctx ends. An address that is taken is an
// error at once, not a log line later.
func serve(ctx context.Context, addr string, h http.Handler, log *slog.Logger) error {
	if addr == "0" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() {
		if err := s.Close(); err != nil {
			log.Debug("close", "addr", addr, "err", err)
		}
	})
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve", "addr", addr, "err", err)
		}
	}()
	return nil
}

// metricsHandler serves /metrics, and profiles if they are asked for.
func metricsHandler(s *settings, r *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	if s.pprof || s.pprofAll {
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	}
	if s.pprofAll {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// healthHandler serves /healthz, which says that the process lives, and /readyz,
// which says that it knows the whole state of the cluster.
func healthHandler(ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
