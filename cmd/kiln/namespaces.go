package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/watch"
)

// controllers are the controllers of this process: one of all namespaces, or one of each
// namespace that it watches. Nothing in one namespace is of concern to another, so they
// share the applier, which lets the namespaces take turns, and nothing else.
type controllers []*watch.Controller

// newControllers returns the controllers of some namespaces, or of all. What several
// measure is told apart by the namespace that they watch.
func newControllers(of namespaces, cfg *rest.Config, a *apply.Applier, opts watch.Options) (all controllers, err error) {
	if len(of) == 0 {
		of = namespaces{""}
	}
	metrics := opts.Metrics
	for _, opts.Namespace = range of {
		if len(of) > 1 {
			opts.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"watched": opts.Namespace}, metrics)
		}
		c, err := watch.New(cfg, a, opts)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// AllowLabels has all of them allow the labels of these domains from now on.
func (all controllers) AllowLabels(domains []string) {
	for _, c := range all {
		c.Claims.AllowLabels(domains)
	}
}

// Watch runs all informers until ctx ends.
func (all controllers) Watch(ctx context.Context) {
	var watching sync.WaitGroup
	for _, c := range all {
		watching.Go(func() { c.Watch(ctx) })
	}
	watching.Wait()
}

// Synced reports whether all of them know the whole state of what they watch.
func (all controllers) Synced() bool {
	return !slices.ContainsFunc(all, func(c *watch.Controller) bool { return !c.Synced() })
}

// Stuck is an error if a loop of one of them is stuck.
func (all controllers) Stuck(now time.Time) error {
	var stuck []error
	for _, c := range all {
		stuck = append(stuck, c.Stuck(now))
	}
	return errors.Join(stuck...)
}

// Work has all of them work until ctx ends, or one of them cannot.
func (all controllers) Work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(all))
	var working sync.WaitGroup
	for i, c := range all {
		working.Go(func() {
			defer cancel()
			errs[i] = c.Work(ctx)
		})
	}
	working.Wait()
	return errors.Join(errs...)
}
