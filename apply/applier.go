package apply

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/states"
)

// Options are what an Applier may be given beyond a connection.
type Options struct {
	// Log receives one line for each transition; nil discards them.
	Log *slog.Logger
	// Metrics receives the counters; nil keeps them unregistered.
	Metrics prometheus.Registerer
	// Component names who reports events.
	Component string
	// SafeToEvict marks the pods of free pool members as safe to evict.
	SafeToEvict bool
	// Wrap, when set, wraps the transport of every class. Tests inject faults.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Permit, when set, says whether a request may begin. It is asked before each,
	// also before one that client-go repeats: whoever has lost the lease writes
	// nothing any more, were it resumed in the middle of a step.
	Permit func() error
}

// An Applier writes. It is safe for concurrent use.
type Applier struct {
	opts        Options
	log         *slog.Logger
	gate        *gate
	turns       *turns
	metrics     *metrics
	connections [classes]*client.Connection
	// awaited say whether a claim waits for a pool's member: one for each controller.
	awaited []func(member cache.ObjectName) bool
}

// New returns an Applier whose classes have a connection each to the server that
// cfg names.
func New(cfg *rest.Config, opts Options) (*Applier, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a := &Applier{opts: opts, log: opts.Log, gate: newGate(startWidths), turns: newTurns(rememberedWrites), metrics: newMetrics(opts.Metrics)}
	for c := range classes {
		connection, err := client.Connect(cfg, opts.transport)
		if err != nil {
			return nil, fmt.Errorf("connect for the class %s: %w", c, err)
		}
		a.connections[c] = connection
	}
	return a, nil
}

// Quiet reports whether at most one claim is being served at this moment.
func (a *Applier) Quiet() bool { return a.gate.quiet() }

// Drain refuses the writes that nobody waits for, from now on and those that have
// not begun: refills and what trails. Whoever works next makes them.
func (a *Applier) Drain() { a.gate.drain() }

// A write says what a request is: it gives the metrics their labels, errors their
// beginning and the log line its fields.
type write struct {
	urgency
	manager states.Manager
	// kind is the lower-case kind, with the subresource behind it if there is one.
	kind string
	// edge is the event of the chart, or the verb of a write that is no edge.
	edge string
	key  types.NamespacedName
	// pool is the one that the write is about, as far as it says which.
	pool string
	// seen is the version of the object that the write is guarded by, if it is.
	seen string
	// move is the change of state that the write makes, if it makes one.
	move *transition
}

// A transition is a legal move of a chart and why it is made.
type transition struct {
	kind   string
	edge   states.Edge
	reason states.Reason
}

// judge finds the transition that a decision makes from a persisted state. The
// chart has the last word.
func judge(chart states.Chart, from string, d states.Decision) (*transition, error) {
	edge, err := chart.Judge(chart.Parse(from), d.About.Event)
	if err != nil {
		return nil, err
	}
	return &transition{kind: chart.Kind, edge: edge, reason: d.Reason}, nil
}

// requestTimeout is the longest one request may take. What became of it is then
// unknown, and every caller can live with that. No caller could live with a place
// in a class that a frozen server never gives back.
const requestTimeout = 30 * time.Second

// rememberedWrites is how many of the last writes are remembered: more than can be answered
// while a step goes from its view to its write.
const rememberedWrites = 512

// options force the write: the scopes are disjoint, so force takes fields only
// from a person or a program that wrote into them.
func (w write) options() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: string(w.manager), Force: true}
}

// send makes one request in its class, counts it, and logs it when it moved a
// state. It is the only place from which Kiln writes.
func send[T any](ctx context.Context, a *Applier, w write, request func(context.Context, *client.Connection) (T, error)) (T, error) {
	start := time.Now()
	ctx, span := w.span(ctx)
	_, waits := Span(ctx, "waitForPlace")
	place, err := a.gate.enter(ctx, w)
	waits.End()
	if err != nil {
		var none T
		w.ended(span, "stopped", err)
		return none, w.wrap(err)
	}
	w.class = place.class
	end, err := a.turns.take(ctx, w)
	var got T
	if err != nil {
		end(nil)
		place.leave()
		a.skip(w)
		w.ended(span, "skipped", err)
		return got, w.wrap(err)
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	got, err = request(limited, a.connections[w.class])
	cancel()
	if err == nil {
		took(ctx, w)
		end(got)
	} else {
		end(nil)
	}
	place.leave()
	err = classify(w, err)
	a.metrics.seconds.WithLabelValues(w.class.String()).Observe(time.Since(start).Seconds())
	a.metrics.writes.WithLabelValues(string(w.manager), w.kind, w.edge, result(err)).Inc()
	w.ended(span, result(err), err)
	if err == nil && w.move != nil {
		a.record(w.key, w.move)
	}
	return got, err
}

// record counts and logs a transition that was written.
func (a *Applier) record(key types.NamespacedName, t *transition) {
	from, to, event := string(t.edge.From), string(t.edge.To), string(t.edge.Event)
	a.metrics.transitions.WithLabelValues(t.kind, event, from, to).Inc()
	a.log.Info("transition", "kind", t.kind, "key", key.String(),
		"from", from, "to", to, "event", event, "by", string(t.edge.By), "reason", string(t.reason))
}

// skip counts a write that would have changed nothing and was not sent.
func (a *Applier) skip(w write) {
	a.metrics.writes.WithLabelValues(string(w.manager), w.kind, w.edge, "skipped").Inc()
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// mustNotExist is the resourceVersion that makes an apply a create: no object has
// it, so an existing one conflicts.
const mustNotExist = "1"
