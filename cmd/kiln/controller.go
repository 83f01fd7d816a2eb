package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/watch"
)

// component is how Kiln names itself in events, leases and user agents.
const component = "agent-sandbox-controller"

// controller runs the controller until ctx ends.
func controller(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(stdout)
		return nil
	case err != nil:
		return err
	case s.version:
		fmt.Fprintln(stdout, "kiln "+version)
		return nil
	}
	log, err := newLog(s, stderr)
	if err != nil {
		return err
	}
	cfg, err := connect(ctx, s)
	if err != nil {
		return err
	}
	return start(ctx, s, cfg, log)
}

// connect finds the API server and makes sure that it answers.
func connect(ctx context.Context, s *settings) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = float32(s.qps), s.burst
	cfg.UserAgent = component + "/kiln-" + version
	probe := rest.CopyConfig(cfg)
	probe.Timeout = 5 * time.Second
	d, err := discovery.NewDiscoveryClientForConfig(probe)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if err := d.RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil {
		return nil, fmt.Errorf("the API server at %s does not answer: %w", cfg.Host, err)
	}
	return cfg, nil
}

// start builds everything and runs it.
func start(ctx context.Context, s *settings, cfg *rest.Config, log *slog.Logger) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	countRequests(registry)
	domains, err := readDomains(s.labelDomains)
	if err != nil {
		return err
	}
	applier, err := apply.New(cfg, apply.Options{Log: log, Metrics: registry, Component: component, SafeToEvict: s.evict})
	if err != nil {
		return err
	}
	opts := s.options
	opts.SandboxesOnly, opts.ClaimEvents, opts.Annotate = !s.extensions, !s.noEvents, !s.noAnnotations
	opts.Log, opts.Metrics = log, registry
	if len(domains) > 0 {
		opts.LabelDomains = domains
	}
	c, err := watch.New(cfg, applier, opts)
	if err != nil {
		return err
	}
	// What serves and watches outlives the work, so that the last steps are seen.
	outer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := serve(outer, s.metricsAddr, metricsHandler(s, registry), log); err != nil {
		return err
	}
	if err := serve(outer, s.healthAddr, healthHandler(readiness(c)), log); err != nil {
		return err
	}
	if err := awaitCRDs(ctx, cfg, log); err != nil {
		return unlessDone(ctx, err)
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { c.Watch(outer) })
	if !s.leaderElect {
		return unlessDone(ctx, c.Work(ctx))
	}
	return lead(ctx, s, cfg, log, c.Work)
}

// unlessDone drops the error of something that was told to stop.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func readiness(c *watch.Controller) func() error {
	return func() error {
		if !c.Synced() {
			return errors.New("the informers have not synced yet")
		}
		return nil
	}
}

// readDomains reads the allowed label domains. A file that is not there is fine:
// the ConfigMap it comes from is optional.
func readDomains(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the allowed label domains: %w", err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), nil
}
