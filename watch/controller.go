package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/claim"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/pool"
	"github.com/kiln-sandbox/kiln/watch/sandbox"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/template"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Options are what a controller may be told. DefaultOptions are the ones of the
// command line.
type Options struct {
	// Workers are how many steps of each loop run at once.
	Workers Workers
	// Batch bounds how many members a pool creates or retires in one pass.
	Batch int
	// MaxWait is the longest a claim waits for a pool member that is starting before
	// it gets a sandbox of its own.
	MaxWait time.Duration
	// Grace is how long a pool member may be unready before it is replaced.
	Grace time.Duration
	// Drain is the longest the steps under way may take to finish at the end.
	Drain time.Duration
	// Namespace restricts the controller to one namespace; empty means all.
	Namespace string
	// SandboxesOnly serves sandboxes and neither claims, pools nor templates.
	SandboxesOnly bool
	// ClaimEvents reports Events about claims.
	ClaimEvents bool
	// Annotate puts the sandbox's name and the time of the first sight on claims.
	Annotate bool
	// LabelDomains are the domains whose labels a claim may put on its pod.
	LabelDomains []string
	// Log receives what goes wrong; nil discards it.
	Log *slog.Logger
	// Metrics receives the measures; nil keeps them unregistered.
	Metrics prometheus.Registerer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Workers are how many steps of each loop run at once.
type Workers struct{ Claims, Sandboxes, Pools, Templates int }

// DefaultOptions are the options of a controller that is told nothing.
func DefaultOptions() Options {
	return Options{
		Workers: Workers{Claims: 50, Sandboxes: 100, Pools: 4, Templates: 1},
		Batch:   300, MaxWait: 10 * time.Second, Grace: 5 * time.Minute, Drain: 15 * time.Second,
		ClaimEvents: true, Annotate: true, LabelDomains: []string{"sandbox.users.io"},
	}
}

// trailers are how many annotations of claims, and statuses of pools, are written
// at once. Nobody waits for them.
const trailers = 4

// A Controller is all loops over one API server.
type Controller struct {
	// Claims is the loop of claims. Its Prove may be replaced before anything runs.
	Claims *claim.Claims

	opts    Options
	stores  *store.Stores
	shelves *shelf.Shelves
	events  *loop.Emitter
	loops   loops
	synced  []cache.InformerSynced
}

// loops are the loops by what their keys name.
type loops struct {
	claims, annotations, sandboxes, pools, poolStatus, templates *loop.Loop
}

// New returns a controller that reads from the server cfg names and writes
// through an applier. Nothing runs yet.
func New(cfg *rest.Config, a *apply.Applier, opts Options) (*Controller, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	conn, err := client.Connect(cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("connect the informers: %w", err)
	}
	s, err := store.New(conn, opts.Namespace)
	if err != nil {
		return nil, err
	}
	c := &Controller{opts: opts, stores: s, events: loop.NewEmitter(a.Event, opts.Log)}
	return c, c.wire(a, claim.NewFreshness(conn.Metadata, s))
}

// wire builds the loops and ties every kind to those that it wakes. A wake-up goes
// through c.loops, which is filled by the time that anything runs.
func (c *Controller) wire(a *apply.Applier, fresh *claim.Freshness) error {
	o, s := c.opts, c.stores
	wakeClaim := func(k view.Key) { c.loops.claims.Wake(k) }
	wakeSandbox := func(k view.Key) { c.loops.sandboxes.Wake(k) }
	wakeStatus := func(k view.Key, t time.Duration) { c.loops.poolStatus.WakeAfter(k, t) }
	wakePool := func(k view.Key) {
		c.loops.pools.Wake(k)
		wakeStatus(k, pool.StatusDelay)
	}
	churn, inFlight, retirements := memory.NewChurn(), memory.NewPodsInFlight(), memory.NewRetirements()
	c.shelves = shelf.New(s, retirements, wakeClaim)
	metrics := claim.NewMetrics(o.Metrics)
	c.Claims = &claim.Claims{
		Stores: s, Shelves: c.shelves, Writer: a, Metrics: metrics, Prove: fresh.Prove,
		Wake: wakeClaim, WakeSandbox: wakeSandbox, WakePool: wakePool,
		MaxWait: o.MaxWait, LabelDomains: o.LabelDomains, Now: o.Now,
	}
	if o.ClaimEvents {
		c.Claims.Events = c.events
	}
	if o.Annotate {
		c.Claims.Annotate = func(k view.Key) { c.loops.annotations.Wake(k) }
	}
	sandboxes := &sandbox.Sandboxes{
		Stores: s, Shelves: c.shelves, Writer: a, Churn: churn, InFlight: inFlight, Retirements: retirements,
		Wake: wakeSandbox, WakeClaim: wakeClaim, WakePool: wakePool, Now: o.Now,
	}
	pools := &pool.Pools{
		Stores: s, Shelves: c.shelves, Writer: a, Events: c.events, Churn: churn, InFlight: inFlight, Retirements: retirements,
		Memory: pool.NewMemory(), Wake: wakePool, WakeSandbox: wakeSandbox, WakeStatus: wakeStatus,
		ForgetFreshness: fresh.Forget, WakeWaiting: c.Claims.WakeWaiting, Batch: o.Batch, Grace: o.Grace, Now: o.Now,
	}
	templates := &template.Templates{
		Stores: s, Writer: a, Wake: func(k view.Key) { c.loops.templates.Wake(k) }, PoolChanged: pools.SpecChanged,
	}
	queues := loop.NewQueueMetrics(o.Metrics)
	named := func(name string, workers int) loop.Options {
		return loop.Options{Name: name, Workers: workers, Metrics: queues, Log: o.Log}
	}
	c.loops = loops{
		claims:      loop.New(named("sandboxclaim", o.Workers.Claims), c.Claims),
		annotations: loop.New(named("sandboxclaim-annotations", trailers), &claim.Annotations{Stores: s, Writer: a, Metrics: metrics, Now: o.Now}),
		sandboxes:   loop.New(named("sandbox", o.Workers.Sandboxes), sandboxes),
		pools:       loop.New(named("sandboxwarmpool", o.Workers.Pools), pool.Members{Pools: pools}),
		poolStatus:  loop.New(named("sandboxwarmpool-status", trailers), pool.Status{Pools: pools}),
		templates:   loop.New(named("sandboxtemplate", o.Workers.Templates), templates),
	}
	return c.listen(sandboxes, pools, templates)
}

// listen ties every event to the keys that it wakes.
func (c *Controller) listen(sandboxes *sandbox.Sandboxes, pools *pool.Pools, templates *template.Templates) error {
	for _, on := range []func() (cache.InformerSynced, error){
		func() (cache.InformerSynced, error) { return c.stores.Pods.On(sandboxes.PodChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Sandboxes.On(sandboxes.SandboxChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Claims.On(c.Claims.ClaimChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Pools.On(pools.PoolChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Templates.On(templates.TemplateChanged) },
	} {
		synced, err := on()
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		c.synced = append(c.synced, synced)
	}
	return nil
}

// running are the loops that this controller runs.
func (c *Controller) running() []*loop.Loop {
	l := c.loops
	if c.opts.SandboxesOnly {
		return []*loop.Loop{l.sandboxes}
	}
	return []*loop.Loop{l.claims, l.annotations, l.sandboxes, l.pools, l.poolStatus, l.templates}
}

// Watch runs the informers until ctx ends. It may run long before Work, and
// without it: a standby that watches takes over at once.
func (c *Controller) Watch(ctx context.Context) {
	var wg sync.WaitGroup
	for _, i := range c.stores.Informers() {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	wg.Wait()
}

// Synced reports whether every informer has the whole of what there is, and its
// handlers have seen it.
func (c *Controller) Synced() bool {
	return !slices.ContainsFunc(c.synced, func(done cache.InformerSynced) bool { return !done() })
}

// Work waits for the informers and then steps until ctx ends. It returns when
// what was under way is finished, or when the drain time is over.
func (c *Controller) Work(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return context.Cause(ctx)
	}
	// A step that has begun is let finish: half a hand-over is worse than none.
	steps, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var work, events sync.WaitGroup
	for _, l := range c.running() {
		l.Start()
	}
	c.wakeAll()
	for _, l := range c.running() {
		work.Go(func() { l.Run(steps) })
	}
	events.Go(func() { c.events.Run(steps) })
	<-ctx.Done()
	for _, l := range c.running() {
		l.Stop()
	}
	late := time.AfterFunc(c.opts.Drain, cancel)
	defer late.Stop()
	work.Wait()
	c.events.Stop()
	events.Wait()
	return nil
}

// wakeAll fills the shelves and wakes everything that exists, claims in the order
// they were made.
func (c *Controller) wakeAll() {
	for _, b := range c.stores.Sandboxes.All() {
		c.shelves.Sync(view.KeyOf(b))
		c.loops.sandboxes.Wake(view.KeyOf(b))
	}
	claims := c.stores.Claims.All()
	slices.SortFunc(claims, func(a, b *ext.SandboxClaim) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, one := range claims {
		c.loops.claims.Wake(view.KeyOf(one))
	}
	for _, p := range c.stores.Pools.All() {
		c.loops.pools.Wake(view.KeyOf(p))
		c.loops.poolStatus.Wake(view.KeyOf(p))
	}
	for _, t := range c.stores.Templates.All() {
		c.loops.templates.Wake(view.KeyOf(t))
	}
}
