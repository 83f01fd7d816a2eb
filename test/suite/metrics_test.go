package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// The bucket bounds that the dashboards of the API read.
var (
	claimBounds  = []float64{100, 250, 500, 750, 1000, 1250, 1500, 2000, 2500, 5000, 10000, 30000, 60000, 120000, 240000}
	launchBounds = []float64{50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 240000, 300000, 600000}
)

// busy is a world in which everything that is measured has happened: a warm claim of
// a pool that must be fresh, a cold one, a sandbox that a user made, and a claim that
// waits.
func busy(t *testing.T) (*kit.World, *kit.Controller) {
	t.Helper()
	w, c := started(t, 2)
	w.PatchPool("p", `{"updateStrategy":{"type":"Recreate"}}`)
	w.Await(observes(w, "t"))
	ago := time.Now().Add(-time.Minute).Format(time.RFC3339Nano)
	w.Create(world.Pool("empty", 0), world.Sandbox("mine"), world.Claim("warm", "p", func(c *ext.SandboxClaim) {
		c.Labels = map[string]string{"agents.x-k8s.io/created-by": "python-client"}
		c.Annotations = map[string]string{
			"agents.x-k8s.io/client-first-requested-at": ago, "agents.x-k8s.io/webhook-first-observed-at": ago,
		}
	}))
	w.Await(world.Bound("warm"))
	w.Create(world.Claim("cold", "empty"))
	w.Await(world.Bound("cold"), filled("p", 2), world.PodHasState("mine", states.Bound), world.Reported, c.Settled())
	return w, c
}

func TestEveryMetricOfTheContractIsToldByItsNameLabelsAndBounds(t *testing.T) {
	w, c := busy(t)
	w.Await(sandboxesTold(c, map[string]int{
		"created_by=controller expired=false launch_type=warm namespace=NS operating_mode=Running owned_by=SandboxWarmPool ready_condition=true sandbox_template=t": 2,
		"created_by=python-client expired=false launch_type=warm namespace=NS operating_mode=Running owned_by=SandboxClaim ready_condition=true sandbox_template=t": 1,
		"created_by=unknown expired=false launch_type=cold namespace=NS operating_mode=Running owned_by=SandboxClaim ready_condition=true sandbox_template=t":       1,
		"created_by=unknown expired=false launch_type=cold namespace=NS operating_mode=Running owned_by=None ready_condition=true sandbox_template=unknown":         1,
	}, w.Namespace))
	told := c.Scrape()
	for name, want := range map[string]struct {
		bounds []float64
		series map[string]int // by labels, with how often each was counted
	}{
		"agent_sandbox_claim_startup_latency_ms":            {claimBounds, map[string]int{"launch_type=warm sandbox_template=t": 1}},
		"agent_sandbox_client_claim_startup_latency_ms":     {claimBounds, map[string]int{"launch_type=warm sandbox_template=t": 1}},
		"agent_sandbox_claim_controller_startup_latency_ms": {claimBounds, map[string]int{"launch_type=warm sandbox_template=t": 1, "launch_type=cold sandbox_template=t": 1}},
		"agent_sandbox_creation_latency_ms": {launchBounds, map[string]int{
			"launch_type=warm namespace=NS sandbox_template=t": 1, "launch_type=cold namespace=NS sandbox_template=t": 1,
		}},
		"agent_sandbox_claim_creation_total": {nil, map[string]int{
			"created_by=python-client launch_type=warm namespace=NS pod_condition=ready sandbox_template=t warmpool_name=p":   1,
			"created_by=unknown launch_type=cold namespace=NS pod_condition=not_ready sandbox_template=t warmpool_name=empty": 1,
		}},
		"kiln_pool_claims_total": {nil, map[string]int{"launch_type=warm namespace=NS pool=p": 1, "launch_type=cold namespace=NS pool=empty": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := series(told[name], w.Namespace); !maps.Equal(got, want.series) {
				t.Errorf("it counts\n%v\nwant\n%v", got, want.series)
			}
			if got := bounds(told[name]); !slices.Equal(got, want.bounds) {
				t.Errorf("its bounds are %v, want %v", got, want.bounds)
			}
		})
	}
	for _, resource := range []string{"sandboxwarmpools", "sandboxtemplates"} {
		if n := series(told["kiln_freshness_reads_total"], w.Namespace)["resource="+resource+" result=ok"]; n == 0 {
			t.Errorf("no read of %s was counted, and the claim had to be proven fresh", resource)
		}
	}
	if first := bounds(told["kiln_claim_seconds"])[0]; first != .001 {
		t.Errorf("the finer latency begins at %v s", first)
	}
}

func TestSeriesOfAPoolEndWithIt(t *testing.T) {
	w, c := busy(t)
	pools := []string{"kiln_pool_members", "kiln_pool_rollout", "kiln_pool_claims_total", "kiln_shelf_free", "kiln_shelf_lent", "kiln_shelf_waiting"}
	told := c.Scrape()
	for _, name := range pools {
		if !tells(told[name], "p") {
			t.Errorf("%s says nothing of p", name)
		}
	}
	// The status is put off a little, and may still say how it was before the claim.
	NewWithT(t).Eventually(func() int {
		return series(c.Scrape()["kiln_pool_members"], w.Namespace)["count=ready namespace=NS pool=p"]
	}, "30s").Should(Equal(2))
	if got := series(told["kiln_shelf_free"], w.Namespace)["namespace=NS pool=p"]; got != 2 {
		t.Errorf("%d members are free, want 2", got)
	}
	p := w.Pool("p")
	w.Delete(w.Pools(), "p")
	w.Await(world.Deleted(p), func(*world.Snapshot) error {
		for name, f := range c.Scrape() {
			if slices.Contains(pools, name) && tells(f, "p") {
				return fmt.Errorf("%s still speaks of p", name)
			}
		}
		return nil
	})
}

func TestClaimsThatWaitAreTold(t *testing.T) {
	w, c := cold(t, 2)
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasReason("a", "AdoptionPending"))
	if got := series(c.Scrape()["kiln_shelf_waiting"], w.Namespace)["namespace=NS pool=p"]; got != 1 {
		t.Errorf("%d claims wait, want 1", got)
	}
	w.Kubelet.Release()
	w.Await(world.Converged("p", 2, "a"))
}

func TestARolloutIsToldByItsPhase(t *testing.T) {
	w, c, _ := stuckRollout(t)
	want := map[string]int{"namespace=NS phase=DeadlineExceeded pool=p": 1}
	NewWithT(t).Eventually(func() map[string]int { // the watch may be quicker than the answer to the write
		return series(c.Scrape()["kiln_pool_rollout"], w.Namespace)
	}, "30s").Should(Equal(want))
}

// What v1.0 told about its claims, a takeover does not tell again.
func TestATakeoverIsNoNewClaim(t *testing.T) {
	w := left(t)
	c := w.Controller()
	w.Await(taken, c.Settled())
	for _, name := range []string{"agent_sandbox_claim_creation_total", "agent_sandbox_claim_controller_startup_latency_ms", "agent_sandbox_creation_latency_ms"} {
		if got := series(c.Scrape()[name], w.Namespace); len(got) > 0 {
			t.Errorf("%s counts %v", name, got)
		}
	}
}

// sandboxesTold holds when the gauge of sandboxes says this, and nothing else.
func sandboxesTold(c *kit.Controller, want map[string]int, namespace string) world.Condition {
	return func(*world.Snapshot) error {
		if got := series(c.Scrape()["agent_sandboxes"], namespace); !maps.Equal(got, want) {
			return fmt.Errorf("it says\n%v\nwant\n%v", got, want)
		}
		return nil
	}
}

// series are the series of a metric by their labels, with what each counts. The
// world's namespace is NS.
func series(f *dto.MetricFamily, namespace string) map[string]int {
	all := map[string]int{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		slices.Sort(labels)
		n := int(m.GetCounter().GetValue()) + int(m.GetGauge().GetValue()) + int(m.GetHistogram().GetSampleCount())
		all[strings.ReplaceAll(strings.Join(labels, " "), namespace, "NS")] = n
	}
	return all
}

// bounds are the upper bounds of a histogram's buckets.
func bounds(f *dto.MetricFamily) (all []float64) {
	if len(f.GetMetric()) == 0 {
		return nil
	}
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		all = append(all, b.GetUpperBound())
	}
	return all
}

// tells reports whether a metric says something of a pool.
func tells(f *dto.MetricFamily, pool string) bool {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "pool" && l.GetValue() == pool {
				return true
			}
		}
	}
	return false
}
