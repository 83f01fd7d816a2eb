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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/states"
)

// Options are what an Applier may be given beyond a connection.
type Options struct {
	// Widths are the widths of the lanes; zero means DefaultWidths.
	Widths Widths
	// Log receives one line for each transition; nil discards them.
	Log *slog.Logger
	// Metrics receives the counters; nil keeps them unregistered.
	Metrics prometheus.Registerer
	// Component names who reports events.
	Component string
	// SafeToEvict marks the pods of free pool members as safe to evict.
	SafeToEvict bool
	// Wrap, when set, wraps the transport of every lane. Tests inject faults.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// An Applier writes. It is safe for concurrent use.
type Applier struct {
	opts    Options
	log     *slog.Logger
	gate    *gate
	metrics *metrics
	lanes   [lanes]clients
}

// clients are the connections of one lane.
type clients struct {
	core kubernetes.Interface
	kiln *client.Clients
}

// New returns an Applier whose lanes have a connection each to the server that
// cfg names.
func New(cfg *rest.Config, opts Options) (*Applier, error) {
	if opts.Widths == (Widths{}) {
		opts.Widths = DefaultWidths
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a := &Applier{opts: opts, log: opts.Log, gate: &gate{widths: opts.Widths}, metrics: newMetrics(opts.Metrics)}
	for l := range lanes {
		c, err := connect(cfg, opts.Wrap)
		if err != nil {
			return nil, fmt.Errorf("connect the %s lane: %w", l, err)
		}
		a.lanes[l] = c
	}
	return a, nil
}

func connect(cfg *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) (clients, error) {
	own := Connection(cfg)
	if wrap != nil {
		own.Wrap(wrap)
	}
	h, err := rest.HTTPClientFor(own)
	if err != nil {
		return clients{}, err
	}
	kiln, err := client.New(own, h)
	if err != nil {
		return clients{}, err
	}
	pods := rest.CopyConfig(own)
	pods.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	pods.ContentType = "application/vnd.kubernetes.protobuf"
	core, err := kubernetes.NewForConfigAndClient(pods, h)
	if err != nil {
		return clients{}, err
	}
	return clients{core: core, kiln: kiln}, nil
}

// A Write says what a request is: it is the label set of the metric and the
// words of the log line.
type Write struct {
	Lane    Lane
	Manager states.Manager
	// Kind is the lower-case kind, with the subresource behind it if there is one.
	Kind string
	// Edge is the event of the chart, or the verb of a write that is no edge.
	Edge string
	Key  types.NamespacedName
	// From and To are the states on both sides, when the write is an edge.
	From, To states.State
}

// patience is the longest one request may take. What became of it is then
// unknown, which every caller can live with; a place in a lane held for ever by
// a frozen server, none could.
const patience = 30 * time.Second

// options force the write: the scopes are disjoint, so force takes fields from
// nobody but a hand that strayed into them.
func (w Write) options() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: string(w.Manager), Force: true}
}

// send makes one request in its lane, counts it, and logs it when it moved a
// state. It is the only place from which Kiln writes.
func send[T any](ctx context.Context, a *Applier, w Write, request func(context.Context, clients) (T, error)) (T, error) {
	asked := time.Now()
	leave, err := a.gate.enter(ctx, w.Lane)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s %s: %s: %w", w.Kind, w.Key, w.Edge, err)
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	got, err := request(patient, a.lanes[w.Lane])
	cancel()
	leave()
	err = classify(w, err)
	a.metrics.took.WithLabelValues(w.Lane.String()).Observe(time.Since(asked).Seconds())
	a.metrics.writes.WithLabelValues(string(w.Manager), w.Kind, w.Edge, result(err)).Inc()
	if err == nil && w.To != "" {
		a.metrics.moves.WithLabelValues(w.Kind, w.Edge, string(w.From), string(w.To)).Inc()
		a.log.Info("transition", "kind", w.Kind, "key", w.Key.String(),
			"from", string(w.From), "to", string(w.To), "event", w.Edge, "by", string(w.Manager))
	}
	return got, err
}

// skip counts a write that would have changed nothing and was not sent.
func (a *Applier) skip(w Write) {
	a.metrics.writes.WithLabelValues(string(w.Manager), w.Kind, w.Edge, "skipped").Inc()
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// unborn is the resourceVersion that makes an apply a create: no object has it,
// so an existing one conflicts.
const unborn = "1"
