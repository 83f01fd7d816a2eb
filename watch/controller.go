package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// Options are what a controller may be told. The zero value works.
type Options struct {
	// Workers are how many steps of each loop run at once.
	Workers Workers
	// Batch bounds how many members a pool creates or retires in one pass; zero
	// means 300.
	Batch int
	// Patience is the longest a claim waits for a pool member that is starting
	// before it gets a sandbox of its own; zero means 10 seconds.
	Patience time.Duration
	// Namespace restricts the controller to one namespace; empty means all.
	Namespace string
	// Credulous takes what the watches show for the newest there is, and never
	// asks the server to prove it. It exists so that a test can show what the
	// proof is for.
	Credulous bool
	// SandboxesOnly serves sandboxes and neither claims, pools nor templates.
	SandboxesOnly bool
	// Grace is how long a pool member may be unready before it is replaced; zero
	// means 5 minutes.
	Grace time.Duration
	// Events reports Events about claims and pools.
	Events bool
	// Annotate notes the sandbox's name and the first sight on each claim.
	Annotate bool
	// LabelDomains are the domains whose labels a claim may put on its pod; none
	// means sandbox.users.io.
	LabelDomains []string
	// Drain is the longest the steps under way may take to finish at the end;
	// zero means 15 seconds.
	Drain time.Duration
	// Log receives what goes wrong; nil discards it.
	Log *slog.Logger
	// Metrics receives the measures; nil keeps them unregistered.
	Metrics prometheus.Registerer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Workers are how many steps of each loop run at once.
type Workers struct{ Claims, Sandboxes, Pools, Templates int }

func (o Options) filled() Options {
	fill := func(n *int, with int) {
		if *n == 0 {
			*n = with
		}
	}
	fill(&o.Workers.Claims, 50)
	fill(&o.Workers.Sandboxes, 100)
	fill(&o.Workers.Pools, 4)
	fill(&o.Workers.Templates, 1)
	fill(&o.Batch, 300)
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Minute
	}
	if o.Drain == 0 {
		o.Drain = 15 * time.Second
	}
	if len(o.LabelDomains) == 0 {
		o.LabelDomains = []string{"sandbox.users.io"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Controller is the four loops over one API server.
type Controller struct {
	*world
	memory *poolMemory
	loops  []*loop
	synced []cache.InformerSynced
}

// New returns a controller that reads from the server cfg names and writes
// through an applier. Nothing runs yet.
func New(cfg *rest.Config, a *apply.Applier, opts Options) (*Controller, error) {
	opts = opts.filled()
	r, err := newReads(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect the informers: %w", err)
	}
	s, err := newStores(r, opts.Namespace)
	if err != nil {
		return nil, err
	}
	w := &world{
		opts: opts, log: opts.Log, stores: s, reads: r, apply: a, now: opts.Now,
		metrics: newMetrics(opts.Metrics), blueprints: &blueprints{made: map[Key]made{}},
		troubles: newTroubles(), births: newBirths(), proofs: newProofs(r.meta, s.claims),
	}
	q := newQueueMetrics(opts.Metrics)
	w.claims = newLoop("sandboxclaim", opts.Workers.Claims, q, opts.Log)
	w.sandboxes = newLoop("sandbox", opts.Workers.Sandboxes, q, opts.Log)
	w.pools = newLoop("sandboxwarmpool", opts.Workers.Pools, q, opts.Log)
	w.templates = newLoop("sandboxtemplate", opts.Workers.Templates, q, opts.Log)
	w.shelves = newShelves(s, w.current, w.claims.wake)
	c := &Controller{world: w, memory: newPoolMemory(), loops: []*loop{w.claims, w.sandboxes, w.pools, w.templates}}
	w.claims.step = claims{w}.step
	w.sandboxes.step = sandboxes{w}.step
	w.pools.step = pools{w, c.memory}.step
	w.templates.step = templates{w}.step
	if opts.SandboxesOnly {
		c.loops = []*loop{w.sandboxes}
	}
	return c, c.listen()
}

// Watch runs the informers until ctx ends. It may run long before Work, and
// without it: a standby that watches takes over at once.
func (c *Controller) Watch(ctx context.Context) {
	var wg sync.WaitGroup
	for _, i := range c.stores.informers() {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	wg.Wait()
}

// Synced reports whether every informer has the whole of what there is.
func (c *Controller) Synced() bool {
	return !slices.ContainsFunc(c.synced, func(done cache.InformerSynced) bool { return !done() })
}

// Work waits for the informers and then steps until ctx ends. It returns when
// what was under way is finished, or when the drain time is over.
func (c *Controller) Work(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return context.Cause(ctx)
	}
	c.start()
	// A step that has begun is let finish: half a hand-over is worse than none.
	steps, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range c.loops {
		wg.Go(func() { l.run(steps) })
	}
	<-ctx.Done()
	for _, l := range c.loops {
		l.queue.ShutDown()
	}
	late := time.AfterFunc(c.opts.Drain, cancel)
	defer late.Stop()
	wg.Wait()
	c.notes.Wait()
	return nil
}

// start fills the shelves and wakes everything that exists, claims in the order
// they were made.
func (c *Controller) start() {
	for _, s := range c.stores.sandboxes.all() {
		c.shelves.sync(keyOf(s))
		c.sandboxes.wake(keyOf(s))
	}
	waiting := c.stores.claims.all()
	slices.SortFunc(waiting, func(a, b *ext.SandboxClaim) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, claim := range waiting {
		c.claims.wake(keyOf(claim))
	}
	for _, p := range c.stores.pools.all() {
		c.pools.wake(keyOf(p))
	}
	for _, t := range c.stores.templates.all() {
		c.templates.wake(keyOf(t))
	}
}

// The kinds that events are about.
const (
	claimKind = "SandboxClaim"
	poolKind  = "SandboxWarmPool"
)

func kindOf(kind string) schema.GroupVersionKind {
	if kind == "Sandbox" {
		return agents.SchemeGroupVersion.WithKind(kind)
	}
	return ext.SchemeGroupVersion.WithKind(kind)
}
