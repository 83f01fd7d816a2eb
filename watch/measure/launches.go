package measure

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Launches measure how long sandboxes take from their creation until they are Ready
// for the first time.
type Launches struct {
	latency *prometheus.HistogramVec
	now     func() time.Time
}

// launchBuckets are the bounds that the API's own dashboards read, in milliseconds.
var launchBuckets = []float64{50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 240000, 300000, 600000}

// NewLaunches registers the measure; nil keeps it unregistered.
func NewLaunches(r prometheus.Registerer, now func() time.Time) *Launches {
	l := &Launches{now: now, latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agent_sandbox_creation_latency_ms", Buckets: launchBuckets,
		Help: "Milliseconds from a sandbox's creation until it was Ready for the first time.",
	}, []string{"namespace", "launch_type", "sandbox_template"})}
	if r != nil {
		r.MustRegister(l.latency)
	}
	return l
}

// SandboxChanged measures a sandbox that has just become Ready. It is the first time
// if it was never said to have been unready later than at its creation.
func (l *Launches) SandboxChanged(c store.Change[*agents.Sandbox]) {
	if !c.HadWas || !c.HasIs || c.Replaced() || !meta.IsStatusConditionTrue(c.Is.Status.Conditions, view.Ready) {
		return
	}
	was := meta.FindStatusCondition(c.Was.Status.Conditions, view.Ready)
	born := c.Is.CreationTimestamp
	if first := was == nil || was.Status != metav1.ConditionTrue && !was.LastTransitionTime.After(born.Time); first {
		l.latency.WithLabelValues(c.Is.Namespace, launchOf(c.Is), templateOf(c.Is)).Observe(float64(l.now().Sub(born.Time).Milliseconds()))
	}
}
