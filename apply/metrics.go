package apply

import "github.com/prometheus/client_golang/prometheus"

// metrics count what is written. Labels come from the charts, the managers and the
// classes, so their number is bounded.
type metrics struct {
	writes      *prometheus.CounterVec
	transitions *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kiln_writes_total",
			Help: "Requests that write, by field manager, kind, edge and result (ok, lost, gone, refused, retry; skipped ones were never sent).",
		}, []string{"manager", "kind", "edge", "result"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kiln_transitions_total",
			Help: "State changes written, by kind, event and the states on both sides.",
		}, []string{"kind", "event", "from", "to"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kiln_write_seconds",
			Help:    "Time from asking for a place in a class to the server's answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"class"}),
	}
	if r != nil {
		r.MustRegister(m.writes, m.transitions, m.seconds)
	}
	return m
}
