// Package loop runs the steps of all kinds: one queue and one shape for each.
package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Kind is what a loop runs. S is a snapshot of everything that the decision is
// made from, L what this step has learned, which no store shows.
type Kind[S, L any] interface {
	// Observe reads the stores and takes in what the step has learned. It asks
	// nobody and changes nothing.
	Observe(view.Key, L) S
	// Decide passes the facts of the snapshot to package states.
	Decide(S) states.Decision
	// Do carries out the one effect of a decision and returns what the step has
	// learned by then. It is also called with the decision that ends the step.
	Do(context.Context, S, states.Decision) (L, error)
}

// maxEffects bounds what one step does before it lets other keys have their turn.
// The longest story, a claim that refuses a sandbox and gets another, has 16.
const maxEffects = 24

// A Result says when a key is to be looked at again.
type Result struct {
	// After is when, although nothing may happen; zero means that an event will.
	After time.Duration
	// Retry: with the key's own back-off.
	Retry bool
	// Again: behind the keys that wait now.
	Again bool
	// Err is why an effect failed.
	Err error
}

// Step advances a key until it rests: observe, decide, do, and so on. An effect
// that fails ends the step, and the kind is told so.
func Step[S, L any](ctx context.Context, k Kind[S, L], key view.Key) Result {
	var learned L
	for range maxEffects {
		s := k.Observe(key, learned)
		d := k.Decide(s)
		next, err := k.Do(ctx, s, d)
		switch {
		case err != nil && d.Ends():
			return Result{After: d.After, Retry: true, Err: err}
		case err != nil:
			_, ended := k.Do(ctx, k.Observe(key, next), states.Decision{Act: states.Retry, Reason: states.ReasonFailed})
			return Result{Retry: true, Err: errors.Join(err, ended)}
		case d.Ends():
			return Result{After: d.After, Retry: d.Act == states.Retry}
		}
		learned = next
	}
	return Result{Again: true}
}

// A Loop takes keys of one kind and steps each until it rests. Namespaces take
// turns, and a step that takes long holds up no other namespace, and no other pool of
// its own.
type Loop struct {
	name    string
	workers int
	queue   workqueue.TypedRateLimitingInterface[view.Key]
	crowd   *crowd
	step    func(context.Context, view.Key) Result
	log     *slog.Logger
	running sync.WaitGroup
	started atomic.Bool
	stopped atomic.Bool
	pulse   pulse
	trace   *tracing
}

// Options are what a loop is made with.
type Options struct {
	// Name is the queue's name in logs and metrics.
	Name string
	// Workers are how many keys are stepped at once.
	Workers int
	// Rests reports whether nobody waits for a step of a key: it is stepped behind
	// those that somebody waits for. Nil means that somebody always does.
	Rests func(view.Key) bool
	// Around begins a step, and returns what ends it. Nil has nothing to begin.
	Around func(context.Context) (context.Context, func())
	// Pool is the pool that a key has to do with: what waits for a slow server holds up
	// the keys of its own. Nil means that all keys of a namespace are alike.
	Pool func(view.Key) string
	// Hurries reports whether a claim waits for a step of a key. Such a key does not wait
	// for those of its pool for which none does. Nil means that claims wait for no key.
	Hurries func(view.Key) bool
	// Begun reports whether a step of a key goes on with what an earlier one began. Such a key
	// waits for others of its pool before those that begin something. Nil means that no
	// step does.
	Begun   func(view.Key) bool
	Metrics workqueue.MetricsProvider
	// Steps measures the steps; nil does not.
	Steps *StepMetrics
	// Spans has a span made of each step; its zero value does not.
	Spans Spans
	Log   *slog.Logger
}

// The back-off of a key that fails: its own, never a bucket it shares.
const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = time.Minute
)

// patience is how long a step may take before its worker is replaced. It waits for a
// slow server then, and costs nothing but the wait.
const patience = time.Second

// New returns a loop over a kind. Nothing runs yet.
func New[S, L any](o Options, k Kind[S, L]) *Loop {
	step := func(ctx context.Context, key view.Key) Result {
		if o.Around != nil {
			var end func()
			ctx, end = o.Around(ctx)
			defer end()
		}
		return Step(ctx, k, key)
	}
	traces := newTracing(o.Spans)
	return &Loop{
		name: o.Name, workers: o.Workers, log: o.Log, crowd: newCrowd(o), trace: traces,
		step:  o.Steps.measured(o, step),
		queue: newQueue(o, traces),
	}
}

// newQueue is client-go's queue, with an order of our own.
func newQueue(o Options, t *tracing) workqueue.TypedRateLimitingInterface[view.Key] {
	order := newFairQueue(o.Rests)
	order.came = t.queued
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[view.Key]{
		Name: o.Name, MetricsProvider: o.Metrics, Queue: order,
	})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[view.Key]{
		Name: o.Name, MetricsProvider: o.Metrics, Queue: fair,
	})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[view.Key](backoffFirst, backoffMost),
		workqueue.TypedRateLimitingQueueConfig[view.Key]{DelayingQueue: delaying},
	)
}

// Start lets keys be woken. Before that nobody would step them: a standby that
// watches for a year must not remember every key it has seen.
func (l *Loop) Start() { l.started.Store(true) }

// Started reports whether keys are stepped by now.
func (l *Loop) Started() bool { return l.started.Load() }

// Wake asks for a step of a key.
func (l *Loop) Wake(key view.Key) {
	if l.started.Load() {
		l.queue.Add(key)
	}
}

// Hurry tells that a claim waits for a step of a key from now on. If it was to wait for
// other keys of its pool, it has its turn again.
func (l *Loop) Hurry(key view.Key) {
	if l.crowd.takeBack(key) {
		l.queue.Done(key)
		l.queue.Add(key)
	}
}

// WakeAfter asks for a step of a key after a time. Several become one.
func (l *Loop) WakeAfter(key view.Key, t time.Duration) {
	if l.started.Load() {
		l.queue.AddAfter(key, t)
	}
}

// Stop takes no key any more. What waits is left to whoever works next; the steps
// that have begun end.
func (l *Loop) Stop() {
	l.stopped.Store(true)
	l.crowd.close()
	l.queue.ShutDown()
}

// Run works until the loop is stopped and everything started is finished.
func (l *Loop) Run(ctx context.Context) {
	for range l.workers {
		l.running.Go(func() { l.work(ctx) })
	}
	l.running.Wait()
}

func (l *Loop) work(ctx context.Context) {
	for l.next(ctx) {
	}
}

// next takes one key; it reports false when the worker is not needed any more: the
// queue has closed, or the step took so long that another worker has its place.
func (l *Loop) next(ctx context.Context) bool {
	key, closed := l.queue.Get()
	switch {
	case closed:
		return false
	case l.stopped.Load():
		l.queue.Done(key)
		return true
	}
	of, ok := l.crowd.enter(key)
	if !ok { // not done: it has its step when one of its flow ends
		if !of.hurried && l.crowd.hurries(key) { // a claim came before it was set aside
			l.Hurry(key)
		}
		return true
	}
	replaced := make(chan struct{})
	late := time.AfterFunc(patience, func() {
		l.running.Go(func() { l.work(ctx) })
		close(replaced)
	})
	l.one(ctx, key)
	l.left(ctx, of)
	if late.Stop() {
		return true
	}
	<-replaced
	return false
}

// left has the keys stepped that were set aside until a step of their flow has ended.
func (l *Loop) left(ctx context.Context, of flow) {
	for _, key := range l.crowd.leave(of) {
		l.running.Go(func() {
			l.one(ctx, key)
			l.left(ctx, of)
		})
	}
}

// one steps a key and says when it comes again.
func (l *Loop) one(ctx context.Context, key view.Key) {
	defer l.queue.Done(key)
	l.pulse.began(time.Now())
	ctx, span := l.trace.begin(ctx, key)
	r := l.step(ctx, key)
	l.trace.end(span, r)
	l.pulse.ended(time.Now())
	if r.Err != nil {
		l.report(key, r.Err)
	}
	switch {
	case errors.Is(r.Err, apply.ErrNamespaceEnds):
		l.queue.Forget(key) // its own end is an event
	case r.Retry:
		l.queue.AddRateLimited(key)
	case r.Again:
		l.queue.Add(key)
	default:
		l.queue.Forget(key)
	}
	if r.After > 0 { // it is due whatever the back-off says
		l.queue.AddAfter(key, r.After)
	}
}

// report logs a failure. Losing a race is no failure, and what the server refuses
// is said where its user looks: in a condition.
func (l *Loop) report(key view.Key, err error) {
	if apply.Expected(err) || errors.Is(err, apply.ErrRefused) {
		l.log.Debug("again", "loop", l.name, "key", key.String(), "err", err)
		return
	}
	l.log.Warn("again", "loop", l.name, "key", key.String(), "err", err)
}
