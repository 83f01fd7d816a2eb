package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// level reads the name of a log level.
func level(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error", "panic":
		return slog.LevelError, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		return slog.LevelDebug, nil // zap's way to ask for more than info
	}
	return 0, fmt.Errorf("%w: --zap-log-level is %q; give debug, info, warn or error", errUsage, name)
}

// newLog returns the log, and makes client-go write its errors there too.
func newLog(s *settings, out io.Writer) (*slog.Logger, error) {
	l, err := level(s.zapLevel)
	if err != nil {
		return nil, err
	}
	if s.zapDevel {
		l = min(l, slog.LevelDebug)
	}
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewJSONHandler(out, opts)
	if s.zapDevel || s.zapEncoder == "console" {
		h = slog.NewTextHandler(out, opts)
	}
	klog.SetLogger(logr.FromSlogHandler(h).V(1)) // its chatter is our debug
	return slog.New(h), nil
}
