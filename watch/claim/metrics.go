package claim

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// The annotations in which others say when a claim began: its client when it asked,
// and an admission webhook when it saw it.
const (
	annotationRequested = "agents.x-k8s.io/client-first-requested-at"
	annotationAdmitted  = "agents.x-k8s.io/webhook-first-observed-at"
)

// latencyBuckets are the bounds that the API's own dashboards and gates read, in
// milliseconds.
var latencyBuckets = []float64{100, 250, 500, 750, 1000, 1250, 1500, 2000, 2500, 5000, 10000, 30000, 60000, 120000, 240000}

// Metrics are the measures that users of the API know by name, and a finer one
// of ours: the first bound above is longer than a warm claim takes.
type Metrics struct {
	controllerLatency *prometheus.HistogramVec
	clientLatency     *prometheus.HistogramVec
	latency           *prometheus.HistogramVec
	fineLatency       *prometheus.HistogramVec
	launchLatency     *prometheus.HistogramVec
	claims            *prometheus.CounterVec
	served            *prometheus.CounterVec

	mu sync.Mutex
	// observed is when this process first saw a claim that is not bound yet.
	observed map[types.UID]time.Time
}

// launchBuckets are the bounds for the launch of a sandbox.
var launchBuckets = []float64{50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 240000, 300000, 600000}

// NewMetrics registers the measures; nil keeps them unregistered.
func NewMetrics(r prometheus.Registerer) *Metrics {
	by := []string{"launch_type", "sandbox_template"}
	m := &Metrics{
		observed: map[types.UID]time.Time{},
		controllerLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agent_sandbox_claim_controller_startup_latency_ms", Buckets: latencyBuckets,
			Help: "Milliseconds from the controller's first sight of a claim to its bound status.",
		}, by),
		clientLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agent_sandbox_client_claim_startup_latency_ms", Buckets: latencyBuckets,
			Help: "Milliseconds from the client's request, as the claim notes it, to the claim's bound status.",
		}, by),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agent_sandbox_claim_startup_latency_ms", Buckets: latencyBuckets,
			Help: "Milliseconds from the first sight of an admission webhook, as the claim notes it, to the claim's bound status.",
		}, by),
		fineLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kiln_claim_seconds", Buckets: prometheus.ExponentialBucketsRange(.001, 60, 24),
			Help: "Seconds from the controller's first sight of a claim to its bound status.",
		}, []string{"launch_type"}),
		launchLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agent_sandbox_creation_latency_ms", Buckets: launchBuckets,
			Help: "Milliseconds from the creation of a claim's sandbox until that was Ready, told when the claim is Ready for the first time.",
		}, []string{"namespace", "launch_type", "sandbox_template"}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agent_sandbox_claim_creation_total",
			Help: "Claims that were given a sandbox.",
		}, []string{"namespace", "sandbox_template", "launch_type", "warmpool_name", "pod_condition", "created_by"}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kiln_pool_claims_total",
			Help: "Claims that a pool was asked for a sandbox, by how they got one: warm from the pool, or cold.",
		}, []string{"namespace", "pool", "launch_type"}),
	}
	if r != nil {
		r.MustRegister(m.controllerLatency, m.clientLatency, m.latency, m.fineLatency, m.launchLatency, m.claims, m.served)
	}
	return m
}

// FirstObserved returns when this process first saw a claim, which is now if it has
// not.
func (m *Metrics) FirstObserved(c *ext.SandboxClaim, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.observed[c.UID]; ok {
		return at
	}
	m.observed[c.UID] = now
	return now
}

// Forget drops what is remembered of a claim that is bound, or gone.
func (m *Metrics) Forget(c *ext.SandboxClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.observed, c.UID)
}

// Len is how many claims it remembers the first sight of.
func (m *Metrics) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.observed)
}

// ForgetPool ends the series of a pool that is gone.
func (m *Metrics) ForgetPool(pool view.Key) {
	m.claims.DeletePartialMatch(prometheus.Labels{"namespace": pool.Namespace, "warmpool_name": pool.Name})
	m.served.DeletePartialMatch(prometheus.Labels{"namespace": pool.Namespace, "pool": pool.Name})
}

// created counts a claim that was given a sandbox.
func (m *Metrics) created(c *ext.SandboxClaim, s *agents.Sandbox, ready bool) {
	pod := "not_ready"
	if ready {
		pod = "ready"
	}
	m.served.WithLabelValues(c.Namespace, c.Spec.WarmPoolRef.Name, apply.LaunchOf(s)).Inc()
	m.claims.WithLabelValues(c.Namespace, s.Annotations[apply.AnnotationTemplate], apply.LaunchOf(s),
		c.Spec.WarmPoolRef.Name, pod, apply.Creator(c.Labels[apply.LabelCreatedBy])).Inc()
}

// bound measures a claim that was just told of its sandbox. It happens once in
// the life of a claim: the edge is only written once.
func (m *Metrics) bound(c *ext.SandboxClaim, s *agents.Sandbox, warm bool, now time.Time) {
	if warm {
		m.created(c, s, meta.IsStatusConditionTrue(s.Status.Conditions, view.Ready))
	}
	launch, template := apply.LaunchOf(s), s.Annotations[apply.AnnotationTemplate]
	took := now.Sub(m.FirstObserved(c, now))
	m.controllerLatency.WithLabelValues(launch, template).Observe(float64(took.Milliseconds()))
	m.fineLatency.WithLabelValues(launch).Observe(took.Seconds())
	for annotation, latency := range map[string]*prometheus.HistogramVec{
		annotationRequested: m.clientLatency, annotationAdmitted: m.latency,
	} {
		if at, err := time.Parse(time.RFC3339Nano, c.Annotations[annotation]); err == nil {
			latency.WithLabelValues(launch, template).Observe(float64(now.Sub(at).Milliseconds()))
		}
	}
}

// ready measures the launch of the sandbox of a claim whose status says for the first time
// that it is Ready. Only claims' sandboxes count: not free members, and not those of users.
func (m *Metrics) ready(was, is *ext.SandboxClaim, s *agents.Sandbox) {
	if s == nil || was.Status.Startup.FirstReadyTime != nil || is.Status.Startup.FirstReadyTime == nil {
		return
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, view.Ready); c != nil && c.Status == metav1.ConditionTrue {
		took := c.LastTransitionTime.Sub(s.CreationTimestamp.Time)
		m.launchLatency.WithLabelValues(is.Namespace, apply.LaunchOf(s), s.Annotations[apply.AnnotationTemplate]).Observe(float64(took.Milliseconds()))
	}
}
