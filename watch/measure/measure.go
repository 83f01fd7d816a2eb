// Package measure tells at a scrape what the stores and the shelves hold, and counts
// what no loop counts for itself. docs/operations.md lists every metric of the process.
package measure

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Standing is how many sandboxes and pools there are, in which condition. It is
// read from the stores at each scrape, so a series ends with the last object that it
// counts. A standby says nothing: two replicas must not count everything twice.
type Standing struct {
	Stores  *store.Stores
	Shelves *shelf.Shelves
	// Working reports whether this replica is the one that works.
	Working func() bool
}

// byPool are the labels of what is told of each pool.
var byPool = []string{"namespace", "pool"}

var (
	sandboxes = prometheus.NewDesc("agent_sandboxes", "Sandboxes that exist.",
		[]string{"namespace", "ready_condition", "expired", "launch_type", "sandbox_template", "owned_by", "created_by", "operating_mode"}, nil)
	poolMembers = prometheus.NewDesc("kiln_pool_members",
		"Members of a pool as its status counts them, by what is counted: desired, all, ready, warming, stale, updated, updated_ready.",
		append(byPool, "count"), nil)
	rollout   = prometheus.NewDesc("kiln_pool_rollout", "Where the rollout of a pool stands, as its status says; always 1.", append(byPool, "phase"), nil)
	shelfFree = prometheus.NewDesc("kiln_shelf_free", "Members of a pool that a claim may take now.", byPool, nil)
	shelfLent = prometheus.NewDesc("kiln_shelf_lent", "Members of a pool that claims are taking at this moment.", byPool, nil)
	waiting   = prometheus.NewDesc("kiln_shelf_waiting", "Claims in line for a member of a pool.", byPool, nil)
)

var _ prometheus.Collector = (*Standing)(nil)

// Describe names what Collect tells.
func (s *Standing) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sandboxes, poolMembers, rollout, shelfFree, shelfLent, waiting} {
		to <- d
	}
}

// Collect tells how things stand.
func (s *Standing) Collect(to chan<- prometheus.Metric) {
	if !s.Working() {
		return
	}
	counts := map[kind]int{}
	for _, b := range s.Stores.Sandboxes.All() {
		counts[kindOf(b)]++
	}
	for k, n := range counts {
		to <- prometheus.MustNewConstMetric(sandboxes, prometheus.GaugeValue, float64(n), k.labels()...)
	}
	stock := s.Shelves.Stock()
	for _, p := range s.Stores.Pools.All() {
		s.pool(p, stock, to)
	}
}

// pool tells how a pool stands.
func (s *Standing) pool(p *ext.SandboxWarmPool, stock map[types.UID]states.Stock, to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{p.Namespace, p.Name}, labels...)...)
	}
	is := p.Status
	for count, n := range map[string]int{
		"desired": view.Replicas(p), "all": int(is.Replicas), "ready": int(is.ReadyReplicas), "warming": int(is.WarmingReplicas),
		"stale": int(is.StaleReplicas), "updated": int(is.UpdatedReplicas), "updated_ready": int(is.UpdatedReadyReplicas),
	} {
		gauge(poolMembers, n, count)
	}
	if is.Rollout.Phase != "" {
		gauge(rollout, 1, is.Rollout.Phase)
	}
	on := stock[p.UID]
	gauge(shelfFree, on.Free)
	gauge(shelfLent, on.Lent)
	gauge(waiting, on.Waiting)
}

// A kind is what sandboxes are counted by.
type kind struct {
	namespace, template, launch, owner, creator, mode string
	ready, expired                                    bool
}

func (k kind) labels() []string {
	return []string{
		k.namespace, strconv.FormatBool(k.ready), strconv.FormatBool(k.expired), k.launch, k.template, k.owner, k.creator, k.mode,
	}
}

// unknown is a label's value where nothing is known.
const unknown = "unknown"

// owners are the kinds that own sandboxes, as metrics name them.
var owners = map[states.OwnerKind]string{
	states.OwnerNone: "None", states.OwnerPool: ext.KindPool, states.OwnerClaim: ext.KindClaim,
	states.OwnerSandbox: "Other", states.OwnerOther: "Other",
}

func kindOf(b *agents.Sandbox) kind {
	k := kind{
		namespace: b.Namespace, template: templateOf(b), launch: launchOf(b), owner: owners[apply.OwnerOf(b).Kind],
		creator: apply.Creator(b.Labels[apply.LabelCreatedBy]), mode: string(agents.Running),
		ready: meta.IsStatusConditionTrue(b.Status.Conditions, view.Ready),
	}
	if b.Spec.OperatingMode == agents.Suspended {
		k.mode = string(agents.Suspended)
	}
	if c := meta.FindStatusCondition(b.Status.Conditions, view.Ready); c != nil {
		k.expired = c.Reason == view.ReasonExpired
	}
	return k
}

func templateOf(b *agents.Sandbox) string {
	if name := b.Annotations[apply.AnnotationTemplate]; name != "" {
		return name
	}
	return unknown
}

// launchOf is how a sandbox was launched. One that a user made came from no pool: it is
// cold, as for the agent-sandbox controller.
func launchOf(b *agents.Sandbox) string {
	if apply.LaunchOf(b) == apply.LaunchWarm {
		return apply.LaunchWarm
	}
	return apply.LaunchCold
}
