package loop

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func TestAQueueIsMeasuredUnderTheNamesThatEveryControllerUses(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	o := quiet("one", 1)
	o.Metrics = NewQueueMetrics(registry)
	l := New(o, &counter{decide: upTo(0, states.Decision{})})
	l.Start()
	l.Wake(key)
	l.Stop()
	l.Run(t.Context())
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	g.Expect(names).To(ConsistOf(
		"workqueue_depth", "workqueue_adds_total", "workqueue_retries_total", "workqueue_queue_duration_seconds",
		"workqueue_work_duration_seconds", "workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds",
	))
}

func TestStepsAreCountedByHowTheyEnd(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewStepMetrics(registry)
	for _, r := range []Result{{}, {After: 1}, {Retry: true}, {Again: true}, {Retry: true, Err: errors.New("no")}} {
		m.measured(quiet("one", 3), func(context.Context, view.Key) Result { return r })(t.Context(), key)
	}
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	told := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				name += " " + l.GetValue()
			}
			told[name] = one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	g.Expect(told).To(Equal(map[string]float64{
		"controller_runtime_reconcile_total one success": 1, "controller_runtime_reconcile_total one requeue_after": 1,
		"controller_runtime_reconcile_total one requeue": 2, "controller_runtime_reconcile_total one error": 1,
		"controller_runtime_reconcile_errors_total one": 1, "controller_runtime_reconcile_time_seconds one": 5,
		"controller_runtime_max_concurrent_reconciles one": 3, "controller_runtime_active_workers one": 0,
	}))
}
