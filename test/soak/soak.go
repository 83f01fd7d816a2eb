package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// What there is: in each namespace a pool of each strategy, with a template of its own.
var (
	namespaces = []string{"soak-a", "soak-b"}
	strategies = []struct {
		pool string
		of   func(*ext.SandboxWarmPool) *ext.SandboxWarmPool
	}{
		{"replenish", func(p *ext.SandboxWarmPool) *ext.SandboxWarmPool { return p }},
		{"recreate", world.Recreating},
		{"rolling", func(p *ext.SandboxWarmPool) *ext.SandboxWarmPool {
			return world.Rolling(p, intstr.FromInt32(1), intstr.FromInt32(1))
		}},
	}
)

const (
	nodes    = 3
	replicas = 4 // of each pool, to begin with and at the end
)

// quiet is where those complain to whom faults are done.
var quiet = log.New(io.Discard, "", 0)

// A soak is one run.
type soak struct {
	*world.Recorder
	cluster  *cluster.Cluster
	clients  world.Clients
	journal  *journal
	witness  *witness
	load     *load
	proxy    *proxy
	replicas []*replica
	seed     uint64
	awaited  atomic.Pointer[world.Condition]
}

// play sets the stage, lets everything happen for a while, and judges what is left.
func play(ctx context.Context, dir string, seed uint64, length time.Duration) (err error) {
	j, err := newJournal(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	c, err := cluster.Start(ctx, cluster.Options{
		CRDs: true, Manager: true, Scheduler: true, Nodes: nodes, Restart: true, LogDir: dir, Progress: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	ctx, cancel := c.While(ctx)
	defer cancel()
	s := &soak{Recorder: world.NewRecorder(), cluster: c, journal: j, witness: newWitness(j), seed: seed}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.play(ctx, length); err != nil {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		return err
	}
	return nil
}

// connect makes the administrator's clients.
func (s *soak) connect() error {
	h, err := rest.HTTPClientFor(s.cluster.Config)
	if err != nil {
		return err
	}
	if s.clients.Kiln, err = client.New(s.cluster.Config, h); err != nil {
		return err
	}
	if s.clients.Core, err = kubernetes.NewForConfigAndClient(s.cluster.Config, h); err != nil {
		return err
	}
	s.load = &load{soak: s, rnd: s.random(1), live: map[types.UID]life{}, struck: map[types.UID]bool{}}
	s.proxy, err = newProxy(s.cluster.Config, s.seed, func(what string) { s.journal.done(what, "", nil) })
	return err
}

// random is the generator of one part of the program.
func (s *soak) random(part uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, part)) }

// play runs the storm and the calm after it.
func (s *soak) play(ctx context.Context, length time.Duration) error {
	defer s.proxy.close()
	watching, blind := context.WithCancel(ctx)
	s.Endure()
	s.Listen(s.witness.see)
	s.Listen(s.load.see)
	ended, err := s.Watch(watching, s.clients, metav1.NamespaceAll)
	if err != nil {
		blind()
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer blind()
	running.Go(ended)
	running.Go(func() { s.tell(watching) })
	if err := s.furnish(ctx); err != nil {
		return err
	}
	stop, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := s.await(ctx, "every pool is full", s.full); err != nil {
		return err
	}
	before := s.figures(ctx)
	if err := s.storm(ctx, length); err != nil {
		return s.cutShort(err)
	}
	if err := s.calm(ctx); err != nil {
		return s.cutShort(err)
	}
	after := s.figures(ctx)
	if err := s.clear(ctx); err != nil {
		return s.cutShort(err)
	}
	return s.verdict(before, after)
}

// cutShort is why there is no verdict, with the violations that were found before.
func (s *soak) cutShort(why error) error {
	for _, v := range s.witness.violations() {
		why = errors.Join(why, errors.New(v))
	}
	return why
}

// furnish makes namespaces, templates and pools.
func (s *soak) furnish(ctx context.Context) error {
	for _, ns := range namespaces {
		if _, err := s.clients.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		for _, one := range strategies {
			if _, err := s.clients.Kiln.Templates(ns).Create(ctx, world.Template(one.pool), metav1.CreateOptions{}); err != nil {
				return err
			}
			pool := one.of(world.Pool(one.pool, replicas))
			pool.Spec.TemplateRef.Name = one.pool
			if _, err := s.clients.Kiln.Pools(ns).Create(ctx, pool, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// start runs two replicas of Kiln under the rights they will really have, behind the
// proxy. What it returns ends them.
func (s *soak) start(ctx context.Context) (stop func(), err error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(root, "bin", "kiln")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	_, kubeconfig, err := stage.Admit(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	if kubeconfig, err = s.proxy.through(kubeconfig); err != nil {
		return nil, err
	}
	keeping, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, name := range []string{"kiln-1", "kiln-2"} {
		r := &replica{cluster: s.cluster, journal: s.journal, kiln: stage.Kiln{
			Name: name, Binary: binary, Kubeconfig: kubeconfig, Alive: true, Mortal: true, Args: []string{"--sandbox-warm-pool-readiness-grace-period=20s"},
		}}
		s.replicas = append(s.replicas, r)
		running.Go(func() { r.keep(keeping) })
	}
	return func() { cancel(); running.Wait() }, nil
}

// storm lets everything happen for a while.
func (s *soak) storm(ctx context.Context, length time.Duration) error {
	storming, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { s.load.run(storming) })
	running.Go(func() { newFaults(s, length).run(storming) })
	running.Wait()
	return context.Cause(ctx)
}

// every is how often the program says how it goes.
const every = 10 * time.Second

// tell shows progress, and has the witness judge what is old enough, until ctx ends.
func (s *soak) tell(ctx context.Context) {
	for tick := time.NewTicker(every); ; {
		select {
		case now := <-tick.C:
			s.witness.advance(now.Add(-settled))
			fmt.Println(s.line())
			if awaited := s.awaited.Load(); awaited != nil {
				if err := s.Holds(*awaited); err != nil {
					fmt.Printf("         not yet: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
				}
			}
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func (s *soak) line() string {
	n, _ := s.journal.faults()
	return fmt.Sprintf("%7s  %s; %d faults, %d writes, %d wrong", time.Since(s.journal.begun).Round(time.Second),
		s.load, n, s.proxy.writes.Load(), len(s.witness.violations()))
}

// longest is how long anything may take to come about. Only what never will takes that.
const longest = 5 * time.Minute

// await waits for a condition.
func (s *soak) await(ctx context.Context, what string, condition world.Condition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("after %s", longest))
	defer cancel()
	s.awaited.Store(&condition)
	defer s.awaited.Store(nil)
	begun := time.Now()
	if err := s.Wait(ctx, condition); err != nil {
		return fmt.Errorf("not so: %s: %w", what, err)
	}
	fmt.Printf("  %-60s %5.1fs\n", what, time.Since(begun).Seconds())
	return nil
}
