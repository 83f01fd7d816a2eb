package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kiln-sandbox/kiln/apply"
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
	for _, rest := range s.rests {
		log.Info("a flag without effect", "flag", rest)
	}
	if n := s.workers(); n > workersMany {
		log.Warn("so many workers cost memory, and few of them write at once", "workers", n, "many", workersMany)
	}
	sample(s)
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

// build builds the controller and the registry of everything it measures. Nothing
// runs yet. It writes while permit has no objection; nil never has.
func build(s *settings, cfg *rest.Config, permit func() error, log *slog.Logger) (controllers, *prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	countRequests(registry)
	countLeading(registry)
	applier, err := apply.New(cfg, apply.Options{Log: log, Metrics: registry, Component: component, SafeToEvict: s.evict, Permit: permit})
	if err != nil {
		return nil, nil, err
	}
	opts := s.options
	opts.SandboxesOnly, opts.ClaimEvents, opts.Annotate = !s.extensions, !s.noEvents, !s.noAnnotations
	opts.SandboxEvents = !s.noSandboxEvents
	opts.Log, opts.Metrics = log, registry
	c, err := newControllers(s.namespaces, cfg, applier, opts)
	return c, registry, err
}

// start builds everything and runs it.
func start(ctx context.Context, s *settings, cfg *rest.Config, log *slog.Logger) error {
	others, err := newRivals(s, cfg, log)
	if err != nil {
		return err
	}
	var elect election
	var permit func() error
	if s.leaderElect {
		if elect, err = newElection(s, cfg, others, log); err != nil {
			return err
		}
		permit = elect.tenure.Holds
	}
	domains := &domainsFile{path: s.labelDomains, log: log, otherwise: s.options.LabelDomains}
	if s.options.LabelDomains, err = domains.read(); err != nil {
		return err
	}
	if s.tracing {
		traces, err := newTracing(ctx, log)
		if err != nil {
			return err
		}
		defer traces.flush() // when all has ended
		s.options.Tracer = traces.tracer()
	}
	c, registry, err := build(s, cfg, permit, log)
	if err != nil {
		return err
	}
	// What serves and watches outlives the work, so that the last steps are seen.
	outer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	figures, err := metricsEndpoint(s, cfg, registry, log)
	if err != nil {
		return err
	}
	if err := figures.serve(outer); err != nil {
		return err
	}
	w, err := newWrites(s, cfg, elect.tenure)
	if err != nil {
		return err
	}
	health := healthHandler(liveness(c, log), newReadiness(c.Synced, w, log).check)
	if err := (endpoint{addr: s.healthAddr, handler: health, log: log}).serve(outer); err != nil {
		return err
	}
	// Definitions are cluster-wide, and who watches few namespaces has no right to them.
	if len(s.namespaces) == 0 {
		if err := awaitCRDs(ctx, cfg, needed(s), log); err != nil {
			return unlessDone(ctx, err)
		}
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { c.Watch(outer) })
	watching.Go(func() { others.watch(outer) })
	watching.Go(func() { domains.follow(outer, c.AllowLabels) })
	if err := others.none(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	if !s.leaderElect {
		return unlessDone(ctx, c.Work(ctx))
	}
	return elect.lead(ctx, c.Work)
}

// unlessDone drops the error of something that was told to stop.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// liveness logs what is wrong, too: the kubelet ends the process for it.
func liveness(c controllers, log *slog.Logger) func() error {
	return func() error {
		err := c.Stuck(time.Now())
		if err != nil {
			log.Error("not alive", "err", err)
		}
		return err
	}
}
