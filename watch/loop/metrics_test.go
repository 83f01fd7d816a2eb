package loop

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kiln-sandbox/kiln/states"
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
