package loop

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// QueueMetrics are the measures of the work queues, under the names every
// controller uses.
type QueueMetrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, duration          *prometheus.HistogramVec
}

var _ workqueue.MetricsProvider = (*QueueMetrics)(nil)

// NewQueueMetrics registers the measures; nil keeps them unregistered.
func NewQueueMetrics(r prometheus.Registerer) *QueueMetrics {
	by := []string{"name"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "workqueue", Name: name, Help: help}, by)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "workqueue", Name: name, Help: help}, by)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "workqueue", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(1e-5, 10, 8),
		}, by)
	}
	m := &QueueMetrics{
		depth:      gauge("depth", "Keys that wait in the queue."),
		unfinished: gauge("unfinished_work_seconds", "Seconds of work in progress that has not been counted yet."),
		longest:    gauge("longest_running_processor_seconds", "Seconds the longest running step has taken so far."),
		adds:       counter("adds_total", "Keys added to the queue."),
		retries:    counter("retries_total", "Keys added again after a failure."),
		latency:    histogram("queue_duration_seconds", "Seconds a key waits in the queue."),
		duration:   histogram("work_duration_seconds", "Seconds a step takes."),
	}
	if r != nil {
		r.MustRegister(m.depth, m.unfinished, m.longest, m.adds, m.retries, m.latency, m.duration)
	}
	return m
}

func (m *QueueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(name)
}

func (m *QueueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

func (m *QueueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.latency.WithLabelValues(name)
}

func (m *QueueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.duration.WithLabelValues(name)
}

func (m *QueueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

func (m *QueueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(name)
}

func (m *QueueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(name)
}

// StepMetrics are the measures of the steps, under the names of controller-runtime,
// which dashboards of controllers know. A nil StepMetrics measures nothing.
type StepMetrics struct {
	total, errors   *prometheus.CounterVec
	seconds         *prometheus.HistogramVec
	workers, active *prometheus.GaugeVec
}

// stepBuckets are controller-runtime's, in seconds.
var stepBuckets = []float64{
	.005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5,
	5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
}

// NewStepMetrics registers the measures; nil keeps them unregistered.
func NewStepMetrics(r prometheus.Registerer) *StepMetrics {
	const space = "controller_runtime"
	by := []string{"controller"}
	m := &StepMetrics{
		total:   prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: space, Name: "reconcile_total", Help: "Steps by loop and how they ended."}, append(by, "result")),
		errors:  prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: space, Name: "reconcile_errors_total", Help: "Steps that failed."}, by),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: space, Name: "reconcile_time_seconds", Help: "Seconds a step takes.", Buckets: stepBuckets}, by),
		workers: prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: space, Name: "max_concurrent_reconciles", Help: "Keys that a loop steps at once at most."}, by),
		active:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: space, Name: "active_workers", Help: "Keys that a loop steps now."}, by),
	}
	if r != nil {
		r.MustRegister(m.total, m.errors, m.seconds, m.workers, m.active)
	}
	return m
}

// measured has the steps of a loop measured.
func (m *StepMetrics) measured(o Options, step func(context.Context, view.Key) Result) func(context.Context, view.Key) Result {
	if m == nil {
		return step
	}
	m.workers.WithLabelValues(o.Name).Set(float64(o.Workers))
	m.errors.WithLabelValues(o.Name) // told as zero before the first
	seconds, active := m.seconds.WithLabelValues(o.Name), m.active.WithLabelValues(o.Name)
	return func(ctx context.Context, key view.Key) Result {
		start := time.Now()
		active.Inc()
		r := step(ctx, key)
		active.Dec()
		seconds.Observe(time.Since(start).Seconds())
		m.total.WithLabelValues(o.Name, r.name()).Inc()
		if r.Err != nil {
			m.errors.WithLabelValues(o.Name).Inc()
		}
		return r
	}
}

// name is the result as controller-runtime calls it.
func (r Result) name() string {
	switch {
	case r.Err != nil:
		return "error"
	case r.Retry, r.Again:
		return "requeue"
	case r.After > 0:
		return "requeue_after"
	}
	return "success"
}
