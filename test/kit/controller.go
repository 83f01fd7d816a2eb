package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// A Controller is the product, in this process: applier, informers and loops,
// restricted to the namespace of a world.
type Controller struct {
	Wire *Wire
	// Watches are the gates on its watches.
	Watches *WatchGates

	// Product is the controller itself, to be changed before it runs.
	Product *watch.Controller

	registry *prometheus.Registry
	lead     chan struct{} // closed when it may work
	lost     atomic.Bool   // the lease
	cancel   context.CancelFunc
	running  sync.WaitGroup
	w        *World
}

// endless is longer than any test: nobody gives up because a machine is
// slow.
const endless = time.Hour

// full has a controller do everything.
func full() watch.Options {
	o := watch.DefaultOptions()
	o.MaxWait = endless
	return o
}

// Controller starts a controller with everything switched on, changed by with.
func (w *World) Controller(with ...func(*watch.Options)) *Controller {
	return w.controller(nil, with)
}

// Prepared starts a controller that is prepared before anything of it runs.
func (w *World) Prepared(prepare func(*Controller), with ...func(*watch.Options)) *Controller {
	return w.controller(prepare, with)
}

// Held starts a controller whose first write of a kind and verb waits at a gate.
func (w *World) Held(kind, verb string) (c *Controller, gate *Gate) {
	w.t.Helper()
	c = w.Prepared(func(c *Controller) { gate = c.Hold(kind, verb) })
	return c, gate
}

// Hold has the next write of a kind and verb wait at a gate.
func (c *Controller) Hold(kind, verb string) *Gate {
	gate := NewGate()
	c.Wire.Inject(Fault{On: On(kind, verb), Do: Hold(gate)})
	return gate
}

// Standby starts a controller that watches, and works when it is told to lead.
func (w *World) Standby(with ...func(*watch.Options)) *Controller {
	w.t.Helper()
	c := w.controller(func(c *Controller) { c.lead = make(chan struct{}) }, with)
	w.Await(func(*world.Snapshot) error {
		defer time.AfterFunc(10*time.Millisecond, w.Poke) // nothing else tells when it has synced
		if !c.Product.Synced() {
			return errors.New("the standby has not synced")
		}
		return nil
	})
	return c
}

// Lead has a standby work.
func (c *Controller) Lead() { close(c.lead) }

// LoseLease takes the lease from a controller, which is not told: a machine that has
// no time for it looks like that.
func (c *Controller) LoseLease() { c.lost.Store(true) }

// holds says whether a write may begin.
func (c *Controller) holds() error {
	if c.lost.Load() {
		return errors.New("the lease is lost")
	}
	return nil
}

func (w *World) controller(prepare func(*Controller), with []func(*watch.Options)) *Controller {
	w.t.Helper()
	c := &Controller{Wire: newWire(w.Poke), registry: prometheus.NewRegistry(), w: w}
	c.Watches = c.Wire.gates
	w.mu.Lock()
	w.controllers = append(w.controllers, c)
	log := w.log.logger(len(w.controllers))
	w.mu.Unlock()
	applier, err := apply.New(server.account, apply.Options{
		Log: log, Metrics: c.registry, Component: "kiln", SafeToEvict: true, Wrap: c.Wire.wrap, Permit: c.holds,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	opts := full()
	opts.Namespace, opts.Log, opts.Metrics = w.Namespace, log, c.registry
	for _, change := range with {
		change(&opts)
	}
	reads := rest.CopyConfig(server.account)
	reads.Wrap(c.Watches.wrap)
	product, err := watch.New(reads, applier, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Product = product
	if prepare != nil {
		prepare(c)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	c.cancel = cancel
	c.running.Go(func() { product.Watch(ctx) })
	c.running.Go(func() {
		if c.lead != nil {
			select {
			case <-c.lead:
			case <-ctx.Done():
				return
			}
		}
		if err := product.Work(ctx); err != nil && ctx.Err() == nil {
			w.t.Errorf("work: %v", err)
		}
	})
	return c
}

// Crash ends the controller as a lost machine would: nothing more is sent, and
// no answer is heard. It does not wait.
func (c *Controller) Crash() {
	c.Wire.cut()
	c.Watches.retire()
	c.cancel()
	c.w.Poke()
}

// Stop ends the controller as it ends itself, and waits for it.
func (c *Controller) Stop() {
	c.Watches.Open()
	c.cancel()
	c.running.Wait()
	c.Wire.hangUp()
	c.Watches.hangUp()
}

// Dead holds when a controller has crashed.
func (c *Controller) Dead() world.Condition {
	return func(*world.Snapshot) error {
		if !c.Wire.isDead() {
			return errAlive
		}
		return nil
	}
}

// Wrote holds when a controller has had answers to a number of writes, or to more.
func (c *Controller) Wrote(kind, verb string, n int) world.Condition {
	return func(*world.Snapshot) error {
		if got := c.Wire.Answered(kind, verb); got < n {
			return fmt.Errorf("the controller has written %s %s %d times, not yet %d", kind, verb, got, n)
		}
		return nil
	}
}

// Settled holds while a controller has no write under way.
func (c *Controller) Settled() world.Condition {
	return func(*world.Snapshot) error {
		for _, one := range c.Wire.Writes() {
			if one.Ended == 0 {
				return fmt.Errorf("%s %s %s is under way", one.Kind, one.Verb, one.Name)
			}
		}
		return nil
	}
}

// Counts are the controller's own counts of its writes.
func (c *Controller) Counts() world.Counts {
	c.w.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.w.t.Fatal(err)
	}
	return world.CountsIn(families)
}

// Scrape is what the controller measures, by the names of the metrics.
func (c *Controller) Scrape() map[string]*dto.MetricFamily {
	c.w.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.w.t.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}
