package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/claim"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/measure"
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
	// MaxWait is the longest that a claim waits for a pool member that is starting while
	// no other claim of its pool is given one. Then it gets a sandbox of its own.
	MaxWait time.Duration
	// Grace is how long a pool member may be unready before it is replaced.
	Grace time.Duration
	// Drain is the longest the steps under way may take to finish at the end.
	Drain time.Duration
	// Namespace restricts the controller to one namespace; empty means all.
	Namespace string
	// SandboxesOnly serves sandboxes and neither claims, pools nor templates.
	SandboxesOnly bool
	// ClaimEvents and SandboxEvents report Events about claims and sandboxes.
	ClaimEvents, SandboxEvents bool
	// ClusterDomain ends the names that Services have in DNS.
	ClusterDomain string
	// Annotate puts the sandbox's name and the time of the first sight on claims.
	Annotate bool
	// LabelDomains are the domains whose labels a claim may put on its pod, until
	// Claims.AllowLabels is told of others.
	LabelDomains []string
	// Log receives what goes wrong; nil discards it.
	Log *slog.Logger
	// Metrics receives the measures; nil keeps them unregistered.
	Metrics prometheus.Registerer
	// Tracer makes the spans of steps and writes; nil makes none.
	Tracer trace.Tracer
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
		ClaimEvents: true, SandboxEvents: true, ClusterDomain: "cluster.local", Annotate: true, LabelDomains: []string{"sandbox.users.io"},
	}
}

// trailers are how many annotations of claims, and statuses of pools, are written
// at once. Nobody waits for them.
const trailers = 4

// A Controller is all loops over one API server.
type Controller struct {
	// Claims is the loop of claims. Its Prove may be replaced before anything runs.
	Claims *claim.Claims

	opts      Options
	sizes     map[string]func() int
	applier   *apply.Applier
	stores    *store.Stores
	shelves   *shelf.Shelves
	sandboxes *sandbox.Sandboxes
	pools     *pool.Pools
	templates *template.Templates
	events    *loop.Emitter
	// working: this process steps keys. A standby only watches.
	working atomic.Bool
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
	c := &Controller{opts: opts, applier: a, stores: s, events: loop.NewEmitter(a.Event, opts.Tracer, opts.Log)}
	return c, c.wire(a, claim.NewFreshness(measure.NewReads(opts.Metrics, conn.Metadata), s))
}

// wire builds the loops and ties every kind to those that it wakes. A wake-up goes
// through c.loops, which is filled by the time that anything runs.
func (c *Controller) wire(applier *apply.Applier, fresh *claim.Freshness) error {
	o, s := c.opts, c.stores
	a := apply.Heir{Applier: applier, BlueprintOf: s.BlueprintOf}
	wakeClaim := func(k view.Key) { c.loops.claims.Wake(k) }
	wakeSandbox := func(k view.Key) { c.loops.sandboxes.Wake(k) }
	wakeTemplate := func(k view.Key) { c.loops.templates.Wake(k) }
	wakeStatus := func(k view.Key, t time.Duration) { c.loops.poolStatus.WakeAfter(k, t) }
	wakePool := func(k view.Key) {
		c.loops.pools.Wake(k)
		wakeStatus(k, pool.StatusDelay)
	}
	hurryClaim := func(k view.Key) { // a member is its to take now
		c.loops.claims.Hurry(k)
		wakeClaim(k)
	}
	hurryMember := func(k view.Key) {
		c.loops.sandboxes.Hurry(k)
		a.Hurry(k)
	}
	churn, inFlight, retirements := memory.NewChurn(), memory.NewPodsInFlight(), memory.NewRetirements()
	refusals := memory.NewRefusals(o.Now)
	problems, deletions := memory.NewPolicyProblems(), memory.NewPolicyDeletions()
	c.shelves = shelf.New(s, retirements, hurryClaim, wakePool)
	a.Await(c.shelves.Awaited)
	c.shelves.Refusals, c.shelves.Now, c.shelves.Hurry = refusals, o.Now, hurryMember
	metrics := claim.NewMetrics(o.Metrics)
	c.Claims = &claim.Claims{
		Stores: s, Shelves: c.shelves, Writer: a, Metrics: metrics, Prove: fresh.Prove,
		Refusals: refusals, WakeSandboxAfter: func(k view.Key, t time.Duration) { c.loops.sandboxes.WakeAfter(k, t) },
		Wake: wakeClaim, WakeSandbox: wakeSandbox, WakePool: wakePool, Leads: func() bool { return c.loops.claims.Started() }, Quiet: a.Quiet,
		MaxWait: o.MaxWait, Now: o.Now, Log: o.Log,
	}
	c.Claims.AllowLabels(o.LabelDomains)
	if o.ClaimEvents {
		c.Claims.Events = c.events
	}
	if o.Annotate {
		c.Claims.Annotate = func(k view.Key) { c.loops.annotations.Wake(k) }
	}
	c.sandboxes = &sandbox.Sandboxes{
		Stores: s, Shelves: c.shelves, Writer: a, Churn: churn, InFlight: inFlight, Retirements: retirements,
		News: memory.NewNews(), Problems: problems, Deletions: deletions,
		Wake: wakeSandbox, WakeClaim: wakeClaim, WakePool: wakePool, WakeTemplate: wakeTemplate, Now: o.Now,
		Drifted: a.Drifted, Refusals: refusals, ClusterDomain: o.ClusterDomain,
	}
	if o.SandboxEvents {
		c.sandboxes.Events = c.events
	}
	c.pools = &pool.Pools{
		Stores: s, Shelves: c.shelves, Writer: a, Events: c.events, Churn: churn, InFlight: inFlight, Retirements: retirements,
		Refusals: refusals, Memory: pool.NewMemory(), Roster: pool.NewRoster(s, retirements), Problems: problems, Wake: wakePool, WakeSandbox: wakeSandbox, WakeStatus: wakeStatus,
		ForgetFreshness: fresh.Forget, ForgetSeries: metrics.ForgetPool, WakeWaiting: c.Claims.WakeWaiting, Batch: o.Batch, Grace: o.Grace, Now: o.Now,
	}
	c.templates = &template.Templates{
		Stores: s, Writer: a, Events: c.events, Problems: problems, Deletions: deletions, Wake: wakeTemplate, WakeSandbox: wakeSandbox,
		WakePoolStatus: func(k view.Key) { wakeStatus(k, 0) }, PoolChanged: c.pools.SpecChanged,
	}
	c.measure(c.pools, metrics, fresh)
	c.loops = c.newLoops(&claim.Annotations{Stores: s, Writer: a, Metrics: metrics, Now: o.Now})
	c.measured()
	return c.listen()
}

// newLoops makes a loop for every kind.
func (c *Controller) newLoops(annotations *claim.Annotations) loops {
	w, queues, steps := c.opts.Workers, loop.NewQueueMetrics(c.opts.Metrics), loop.NewStepMetrics(c.opts.Metrics)
	named := func(name string, workers int, pool func(view.Key) string, spans loop.Spans) loop.Options {
		spans.Tracer = c.opts.Tracer
		return loop.Options{Name: name, Workers: workers, Pool: pool, Spans: spans, Metrics: queues, Steps: steps, Log: c.opts.Log}
	}
	alone := func(key view.Key) string { return key.Name }
	ofClaim, ofSandbox := objectIn(c.stores.Claims), objectIn(c.stores.Sandboxes)
	claims := named("sandboxclaim", w.Claims, c.poolOfClaim, loop.Spans{Name: "ReconcileSandboxClaim", Kind: "sandboxclaim", Object: ofClaim})
	sandboxes := named("sandbox", w.Sandboxes, c.poolOfSandbox, loop.Spans{Name: "ReconcileSandbox", Kind: "sandbox", Object: ofSandbox})
	claims.Rests, sandboxes.Rests = c.claimRests, c.sandboxRests
	claims.Hurries, sandboxes.Hurries = c.claimHurries, c.sandboxHurries
	sandboxes.Begun = c.sandboxBegun
	claims.Around = c.applier.ClaimStep
	return loops{
		claims: loop.New(claims, c.Claims),
		annotations: loop.New(named("sandboxclaim-annotations", trailers, c.poolOfClaim,
			loop.Spans{Name: "AnnotateSandboxClaim", Kind: "sandboxclaim", Object: ofClaim}), annotations),
		sandboxes: loop.New(sandboxes, c.sandboxes),
		pools: loop.New(named("sandboxwarmpool", w.Pools, alone,
			loop.Spans{Name: "ReconcileSandboxWarmPool", Kind: "sandboxwarmpool"}), pool.Members{Pools: c.pools}),
		poolStatus: loop.New(named("sandboxwarmpool-status", trailers, alone,
			loop.Spans{Name: "ReportSandboxWarmPool", Kind: "sandboxwarmpool"}), pool.Status{Pools: c.pools}),
		templates: loop.New(named("sandboxtemplate", w.Templates, alone,
			loop.Spans{Name: "ReconcileSandboxTemplate", Kind: "sandboxtemplate"}), c.templates),
	}
}

// objectIn finds the object of a key in a store; nil if there is none.
func objectIn[T store.Object](s *store.Store[T]) func(view.Key) metav1.Object {
	return func(key view.Key) metav1.Object {
		if o, ok := s.Get(key); ok {
			return o
		}
		return nil
	}
}

// listen ties every event to the keys that it wakes.
func (c *Controller) listen() error {
	all := []func() (cache.InformerSynced, error){
		func() (cache.InformerSynced, error) { return c.stores.Pods.On(c.sandboxes.PodChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Services.On(c.sandboxes.ServiceChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Volumes.On(c.sandboxes.VolumeChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Sandboxes.On(c.sandboxes.SandboxChanged) },
		func() (cache.InformerSynced, error) { return c.stores.Policies.On(c.templates.PolicyChanged) },
	}
	if !c.opts.SandboxesOnly {
		all = append(all,
			func() (cache.InformerSynced, error) { return c.stores.Claims.On(c.Claims.ClaimChanged) },
			func() (cache.InformerSynced, error) { return c.stores.Pools.On(c.pools.PoolChanged) },
			func() (cache.InformerSynced, error) { return c.stores.Templates.On(c.templates.TemplateChanged) },
			func() (cache.InformerSynced, error) { return c.stores.Sandboxes.On(c.templates.SandboxChanged) },
			func() (cache.InformerSynced, error) { return c.stores.Pods.On(c.templates.PodChanged) },
		)
	}
	for _, on := range all {
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

// measure notes what Sizes tells.
func (c *Controller) measure(p *pool.Pools, m *claim.Metrics, f *claim.Freshness) {
	c.sizes = map[string]func() int{
		"ahead": c.stores.Ahead, "blueprints": c.stores.Blueprints, "churn": p.Churn.Len, "first-sights": m.Len, "followed": c.stores.Followed, "freshness": f.Len,
		"news": c.sandboxes.News.Len, "pods-in-flight": p.InFlight.Len, "policy-deletions": c.templates.Deletions.Len, "policy-problems": p.Problems.Len, "pools": p.Memory.Len, "retirements": p.Retirements.Len, "roster": p.Roster.Len,
		"shelves": c.shelves.Len,
	}
}

// Sizes tells how much the process remembers beside its informers, by what it is. All
// of it ends with the objects that it is about.
func (c *Controller) Sizes() map[string]int {
	sizes := map[string]int{}
	for what, size := range c.sizes {
		sizes[what] = size()
	}
	return sizes
}

// Watch runs the informers until ctx ends. It may run long before Work, and
// without it: a standby that watches takes over at once.
func (c *Controller) Watch(ctx context.Context) {
	informers := c.stores.Informers()
	if c.opts.SandboxesOnly {
		informers = c.stores.SandboxInformers() // the others may have no CRD
	}
	var wg sync.WaitGroup
	for _, i := range informers {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	wg.Wait()
}

// Synced reports whether every informer has the whole of what there is, and its
// handlers have seen it.
func (c *Controller) Synced() bool {
	return !slices.ContainsFunc(c.synced, func(done cache.InformerSynced) bool { return !done() })
}

// Stuck is an error if a loop has steps under way of which none ends. Nothing but a
// fault of the program does that, and a new process is what helps.
func (c *Controller) Stuck(now time.Time) error {
	var all []error
	for _, l := range c.running() {
		all = append(all, l.Stuck(now))
	}
	return errors.Join(all...)
}

// Work waits for the informers, reads what they may not show yet, and then steps until
// ctx ends. It takes no key after that, and returns when the steps under way have
// ended, or when the drain time is over. Of their writes only those begin that
// somebody waits for.
func (c *Controller) Work(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return context.Cause(ctx)
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	// A step that has begun is let finish: half a hand-over is worse than none.
	steps, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var work, events sync.WaitGroup
	for _, l := range c.running() {
		l.Start()
	}
	c.wakeAll()
	c.working.Store(true)
	for _, l := range c.running() {
		work.Go(func() { l.Run(steps) })
	}
	events.Go(func() { c.events.Run(steps) })
	go c.watchClock(ctx)
	<-ctx.Done()
	for _, l := range c.running() {
		l.Stop()
	}
	c.applier.Drain()
	late := time.AfterFunc(c.opts.Drain, cancel)
	defer late.Stop()
	work.Wait()
	c.events.Stop()
	events.Wait()
	return nil
}

// catchUp knows afterwards all pools and templates as they are now, however far their
// watches are behind: what the leader before this one has observed of them holds.
func (c *Controller) catchUp(ctx context.Context) error {
	if c.opts.SandboxesOnly {
		return nil
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.stores.CatchUp(ctx)
		if err != nil {
			c.opts.Log.Warn("the API server does not tell which pools and templates there are; asking again", "err", err)
		}
		return err == nil, nil
	})
}

// wakeAll fills the shelves and wakes everything that exists, claims in the order
// they were made. What rests comes behind everything else by its loop's own order.
func (c *Controller) wakeAll() {
	for _, b := range c.stores.Sandboxes.All() {
		c.shelves.Sync(view.KeyOf(b))
		c.loops.sandboxes.Wake(view.KeyOf(b))
	}
	claims := c.stores.Claims.All()
	slices.SortFunc(claims, claim.Older)
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
	for _, p := range c.stores.Policies.All() { // it may have outlived its template
		if key, ok := template.TemplateOf(p); ok {
			c.loops.templates.Wake(key)
		}
	}
}

// claimRests reports whether nobody waits for a claim's step: it was told of its
// sandbox, or that it has none.
func (c *Controller) claimRests(key view.Key) bool {
	one, ok := c.stores.Claims.Get(key)
	return ok && one.DeletionTimestamp == nil && view.Told(one)
}

// poolOfClaim is the pool that a claim names.
func (c *Controller) poolOfClaim(key view.Key) string {
	one, ok := c.stores.Claims.Get(key)
	if !ok {
		return ""
	}
	return one.Spec.WarmPoolRef.Name
}

// poolOfSandbox is the pool that a sandbox is a member of, or else the template of one
// that was.
func (c *Controller) poolOfSandbox(key view.Key) string {
	b, ok := c.stores.Sandboxes.Get(key)
	if !ok {
		return ""
	}
	return apply.PoolOf(b)
}

// claimHurries reports whether a claim is being served: it has a sandbox, or one is its to
// take, and it was not told that it is Ready.
func (c *Controller) claimHurries(key view.Key) bool {
	one, ok := c.stores.Claims.Get(key)
	return ok && (one.Status.State == ext.StateWarming || c.shelves.Serves(key))
}

// sandboxHurries reports whether a claim waits for a sandbox's step: the sandbox is its own,
// or the next member of a pool that it gets.
func (c *Controller) sandboxHurries(key view.Key) bool {
	b, ok := c.stores.Sandboxes.Get(key)
	if !ok {
		return false
	}
	switch apply.OwnerOf(b).Kind {
	case states.OwnerPool:
		return c.shelves.Awaited(key)
	case states.OwnerClaim:
		one, ok := c.stores.Claims.Get(view.OwnerKey(b))
		return ok && !view.Told(one)
	case states.OwnerNone, states.OwnerSandbox, states.OwnerOther:
	}
	return false
}

// sandboxBegun reports whether a sandbox has a pod: its launch is to be finished, or it is to
// be handed over.
func (c *Controller) sandboxBegun(key view.Key) bool {
	_, ok := c.stores.Pods.Get(key)
	return ok
}

// sandboxRests reports whether nobody waits for a sandbox's step: its pod is bound,
// and its status is of the spec that it has.
func (c *Controller) sandboxRests(key view.Key) bool {
	b, ok := c.stores.Sandboxes.Get(key)
	if !ok || b.DeletionTimestamp != nil {
		return false
	}
	pod, ok := c.stores.Pods.Get(key)
	ready := meta.FindStatusCondition(b.Status.Conditions, view.Ready)
	return ok && view.StateOf(pod) == states.Bound && ready != nil && ready.ObservedGeneration == b.Generation
}
