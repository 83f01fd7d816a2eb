package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// everywhere has a controller serve all namespaces. A test that needs that runs
// beside no other, whose namespaces it would serve, too.
func everywhere(o *watch.Options) { o.Namespace = "" }

// Four pools stand behind an admission webhook that does not answer, each in a
// namespace of its own: as many as there are workers of pools.
func TestPoolsBehindASlowWebhookHoldUpNoOtherNamespace(t *testing.T) {
	const each = 20
	fast, slow := kit.New(t), []*kit.World{}
	for range watch.DefaultOptions().Workers.Pools {
		slow = append(slow, kit.New(t))
	}
	hangs := func(one kit.Write) bool {
		return one.Is("sandbox", "create") && slices.ContainsFunc(slow, func(w *kit.World) bool { return w.Namespace == one.Namespace })
	}
	gate := kit.NewGate()
	c := fast.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: hangs, Always: true, Do: kit.Hold(gate)})
	}, everywhere)
	for _, w := range slow {
		w.Create(world.Template("t"), world.Pool("p", each))
		fast.Await(func(*world.Snapshot) error {
			if !slices.ContainsFunc(c.Wire.Writes(), func(one kit.Write) bool { return hangs(one) && one.Namespace == w.Namespace }) {
				return errors.New("the webhook was not asked yet")
			}
			return nil
		})
	}
	fast.Create(world.Template("t"), world.Pool("p", 3), world.Claim("a", "p"))
	fast.Await(world.Converged("p", 3, "a"))
	hang, answered := 0, 0
	for _, one := range c.Wire.Writes() {
		switch {
		case hangs(one) && one.Ended == 0:
			hang++
		case hangs(one):
			answered++
		}
	}
	t.Logf("%d writes of %d namespaces hang, %d were given up", hang, len(slow), answered)
	g := NewWithT(t)
	g.Expect(answered).To(BeZero(), "nobody had to wait for one of them")
	g.Expect(hang).To(BeNumerically(">=", len(slow)))
	gate.Open()
	for _, w := range slow {
		w.Await(world.Full("p", each))
	}
}

// Four pools of one namespace stand behind an admission webhook that does not answer,
// be it for their members or for the pods of these. The namespace has others.
func TestPoolsBehindASlowWebhookHoldUpNoOtherPoolOfTheirNamespace(t *testing.T) {
	for _, kind := range []string{"sandbox", "pod"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			slowPools(t, func(one kit.Write) bool { return one.Is(kind, "create") })
		})
	}
}

// slowPools has the writes of four pools hang, and looks at a fifth.
func slowPools(t *testing.T, slows func(kit.Write) bool) {
	t.Helper()
	const each, prefix = 20, "slow-"
	w := kit.New(t)
	gate, slow := kit.NewGate(), []string{}
	for i := range watch.DefaultOptions().Workers.Pools {
		slow = append(slow, fmt.Sprint(prefix, i))
	}
	c := w.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: func(one kit.Write) bool {
			return slows(one) && strings.HasPrefix(one.Name, prefix)
		}, Always: true, Do: kit.Hold(gate)})
	})
	under := func() (pools []string, writes int) {
		for _, one := range c.Wire.Writes() {
			if slows(one) && one.Ended == 0 {
				pools, writes = append(pools, one.Name[:len(prefix)+1]), writes+1
			}
		}
		slices.Sort(pools)
		return slices.Compact(pools), writes
	}
	w.Create(world.Template("t"))
	for i, name := range slow {
		w.Create(world.Pool(name, each))
		w.Await(func(*world.Snapshot) error {
			if pools, _ := under(); len(pools) != i+1 {
				return errWaits
			}
			return nil
		})
	}
	w.Create(world.Pool("p", 3), world.Claim("a", "p"))
	w.Await(world.All(world.Full("p", 3), world.Counted("p", 3), world.Bound("a")))
	pools, writes := under()
	t.Logf("%d writes of %d pools hang", writes, len(pools))
	NewWithT(t).Expect(pools).To(Equal(slow), "nobody had to wait for one of them")
	gate.Open()
	for _, name := range slow {
		w.Await(world.Full(name, each))
	}
}

// KILN_WAITING says how many claims of one namespace wait, beside the one of another.
func TestTheWaitingClaimsOfOneNamespaceDelayNoClaimOfAnother(t *testing.T) {
	crowd, other := kit.New(t), kit.New(t)
	first := other.Controller(everywhere)
	other.Create(world.Template("t"), world.Pool("p", 4))
	other.Await(world.Full("p", 4))
	idle := claimed(other, "idle")
	other.Await(world.Converged("p", 4, "idle"))
	first.Stop()

	var waiting []metav1.Object
	for i := range stage.Number("KILN_WAITING", 400) {
		waiting = append(waiting, world.Claim(fmt.Sprint("w", i), "none"))
	}
	for batch := range slices.Chunk(waiting, 50) {
		crowd.CreateAtOnce(batch...)
	}
	next := other.Standby(everywhere)
	other.Create(world.Claim("one", "p"))
	next.Lead()
	other.Await(world.Bound("one"))
	writes := next.Wire.Writes()
	took := slices.IndexFunc(writes, func(one kit.Write) bool { return one.Is("sandbox", "adopt") })
	busy := claimed(other, "busy")
	t.Logf("%d claims wait; %d writes began before the one was given its sandbox; another claim took %.1f times as long as on an idle controller (%v, %v)",
		len(waiting), took, busy.Seconds()/idle.Seconds(), busy.Round(time.Millisecond), idle.Round(time.Millisecond))
	NewWithT(t).Expect(took).To(BeNumerically("<=", watch.DefaultOptions().Workers.Claims), "no more than were being stepped")
}

// claimed is how long a claim takes to be bound.
func claimed(w *kit.World, name string) time.Duration {
	begun := time.Now()
	w.Create(world.Claim(name, "p"))
	w.Await(world.Bound(name))
	return time.Since(begun)
}
