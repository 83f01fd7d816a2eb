package kit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/watch"
)

// A Controller is the product, in this process: applier, informers and loops,
// restricted to the namespace of a world.
type Controller struct {
	Wire   *Wire
	Valves *Valves

	registry *prometheus.Registry
	cancel   context.CancelFunc
	running  sync.WaitGroup
	w        *World
}

// endless is longer than any test: nobody loses patience because a machine is
// slow.
const endless = time.Hour

// Full has a controller do everything.
var full = watch.Options{Events: true, Annotate: true, Patience: endless}

// Controller starts a controller with everything switched on, changed by with.
func (w *World) Controller(with ...func(*watch.Options)) *Controller {
	return w.controller(nil, with)
}

// Doomed starts a controller whose wire is prepared before anything runs.
func (w *World) Doomed(prepare func(*Controller), with ...func(*watch.Options)) *Controller {
	return w.controller(prepare, with)
}

// Held starts a controller whose first write of a kind and verb waits at a gate.
func (w *World) Held(kind, verb string) (c *Controller, gate *Gate) {
	w.t.Helper()
	c = w.Doomed(func(c *Controller) { gate = c.Hold(kind, verb) })
	return c, gate
}

// Hold has the next write of a kind and verb wait at a gate.
func (c *Controller) Hold(kind, verb string) *Gate {
	gate := NewGate()
	c.Wire.Inject(Fault{On: On(kind, verb), Do: Hold(gate)})
	return gate
}

func (w *World) controller(prepare func(*Controller), with []func(*watch.Options)) *Controller {
	w.t.Helper()
	c := &Controller{Wire: newWire(w.poke), registry: prometheus.NewRegistry(), w: w}
	c.Valves = newValves(c.Wire)
	w.controllers = append(w.controllers, c)
	log := w.log.logger(len(w.controllers))
	applier, err := apply.New(server.config, apply.Options{
		Log: log, Metrics: c.registry, Component: "kiln", SafeToEvict: true, Wrap: c.Wire.wrap,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	opts := full
	opts.Namespace, opts.Log, opts.Metrics = w.Namespace, log, c.registry
	for _, change := range with {
		change(&opts)
	}
	reads := rest.CopyConfig(server.config)
	reads.Wrap(c.Valves.wrap)
	product, err := watch.New(reads, applier, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	if prepare != nil {
		prepare(c)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	c.cancel = cancel
	c.running.Go(func() { product.Watch(ctx) })
	c.running.Go(func() {
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
	c.Valves.burst()
	c.cancel()
	c.w.poke()
}

// Stop ends the controller as it ends itself, and waits for it.
func (c *Controller) Stop() {
	c.Valves.Open()
	c.cancel()
	c.running.Wait()
	c.Wire.hangUp()
	c.Valves.hangUp()
}

// Dead wishes for a controller to have crashed.
func (c *Controller) Dead() Wish {
	return func(*Sight) error {
		if !c.Wire.isDead() {
			return errAlive
		}
		return nil
	}
}

// Wrote wishes for a controller to have had answers to a number of writes, or to
// more.
func (c *Controller) Wrote(kind, verb string, n int) Wish {
	return func(*Sight) error {
		if got := c.Wire.Count(kind, verb); got < n {
			return fmt.Errorf("the controller has written %s %s %d times, not yet %d", kind, verb, got, n)
		}
		return nil
	}
}

// Settled wishes for a controller to have no write under way.
func (c *Controller) Settled() Wish {
	return func(*Sight) error {
		for _, one := range c.Wire.Writes() {
			if one.Ended == 0 {
				return fmt.Errorf("%s %s %s is under way", one.Kind, one.Verb, one.Name)
			}
		}
		return nil
	}
}
