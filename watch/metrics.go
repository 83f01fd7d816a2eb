package watch

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// noteRequested is when a client says that it asked for a claim.
const noteRequested = "agents.x-k8s.io/client-first-requested-at"

// latencyBuckets are the bounds that the API's own dashboards and gates read, in
// milliseconds.
var latencyBuckets = []float64{100, 250, 500, 750, 1000, 1250, 1500, 2000, 2500, 5000, 10000, 30000, 60000, 120000, 240000}

// metrics are the measures that users of the API know by name, and a finer one
// of ours: the first bound above is longer than a warm claim takes.
type metrics struct {
	controllerLatency *prometheus.HistogramVec
	clientLatency     *prometheus.HistogramVec
	fineLatency       *prometheus.HistogramVec
	claims            *prometheus.CounterVec

	mu sync.Mutex
	// seen is when this process first saw a claim that is not bound yet.
	seen map[types.UID]time.Time
}

func newMetrics(r prometheus.Registerer) *metrics {
	by := []string{"launch_type", "sandbox_template"}
	m := &metrics{
		seen: map[types.UID]time.Time{},
		controllerLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agent_sandbox_claim_controller_startup_latency_ms", Buckets: latencyBuckets,
			Help: "Milliseconds from the controller's first sight of a claim to its bound status.",
		}, by),
		clientLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agent_sandbox_client_claim_startup_latency_ms", Buckets: latencyBuckets,
			Help: "Milliseconds from the client's request, as the claim notes it, to the claim's bound status.",
		}, by),
		fineLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kiln_claim_seconds", Buckets: prometheus.ExponentialBucketsRange(.001, 60, 24),
			Help: "Seconds from the controller's first sight of a claim to its bound status.",
		}, []string{"launch_type"}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agent_sandbox_claim_creation_total",
			Help: "Claims that were given a sandbox.",
		}, []string{"namespace", "sandbox_template", "launch_type", "warmpool_name", "pod_condition", "created_by"}),
	}
	if r != nil {
		r.MustRegister(m.controllerLatency, m.clientLatency, m.fineLatency, m.claims)
	}
	return m
}

// firstSight returns when a claim was first seen, noting it if that is now.
func (m *metrics) firstSight(c *ext.SandboxClaim, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.seen[c.UID]; ok {
		return at
	}
	m.seen[c.UID] = now
	return now
}

func (m *metrics) forget(c *ext.SandboxClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, c.UID)
}

// created counts a claim that was given a sandbox.
func (m *metrics) created(c *ext.SandboxClaim, s *agents.Sandbox, ready bool) {
	pod := "not_ready"
	if ready {
		pod = "ready"
	}
	m.claims.WithLabelValues(c.Namespace, s.Annotations[apply.NoteTemplate], s.Labels[apply.LabelLaunch],
		c.Spec.WarmPoolRef.Name, pod, apply.Creator(c.Labels[apply.LabelCreatedBy])).Inc()
}

// bound measures a claim that was just told of its sandbox. It happens once in
// the life of a claim: the edge is only written once.
func (m *metrics) bound(c *ext.SandboxClaim, s *agents.Sandbox, now time.Time) {
	launch, template := s.Labels[apply.LabelLaunch], s.Annotations[apply.NoteTemplate]
	took := now.Sub(m.firstSight(c, now))
	m.controllerLatency.WithLabelValues(launch, template).Observe(float64(took.Milliseconds()))
	m.fineLatency.WithLabelValues(launch).Observe(took.Seconds())
	if at, err := time.Parse(time.RFC3339Nano, c.Annotations[noteRequested]); err == nil {
		m.clientLatency.WithLabelValues(launch, template).Observe(float64(now.Sub(at).Milliseconds()))
	}
	m.forget(c)
}
