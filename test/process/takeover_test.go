package process

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// What the claims of a take-over are: more than the pool has members, and they arrive
// while the leader ends. KILN_TAKEOVER is the size of the pool; whoever wants figures asks
// for 60.
var (
	members  = stage.Number("KILN_TAKEOVER", 15)
	arriving = members * 4 / 3
)

// TestATakeOver ends the leader of two replicas in each way there is, while claims
// arrive. The figures that it logs are for people: no machine is judged by its speed.
func TestATakeOver(t *testing.T) {
	NewWithT(t).Expect(world.cluster.InstallCRDs(world.ctx)).To(Succeed())

	t.Run("nothing happens, for comparison", func(t *testing.T) {
		start(t, "alone-1")
		warm(NewWithT(t), "alone", int32(members))
		took := takeOver(t, "alone", func() {})
		t.Logf("all %d claims bound after %v without a take-over", arriving, took)
	})

	t.Run("told to stop, the leader releases the lease, and the next one has it at once", func(t *testing.T) {
		g := NewWithT(t)
		leader, _ := pair(t, "clean")
		holders := watchLease(t)
		took := takeOver(t, "clean", func() {
			g.Expect(leader.Stop()).To(Succeed())
			g.Expect(leader.ExitCode()).To(Equal(0), said(t, leader))
		})
		g.Expect(holders()[1:]).To(HaveExactElements(BeEmpty(), Not(BeEmpty())), "released, then taken")
		t.Logf("all %d claims bound %v after SIGTERM", arriving, took)
	})

	t.Run("a standby that looks once an hour sees that the lease is released", func(t *testing.T) {
		g := NewWithT(t)
		leader := start(t, "seen-1")
		g.Eventually(func() string { return said(t, leader) }, long).Should(ContainSubstring("leading"))
		standby := start(t, "seen-2", "--leader-elect-lease-duration=10h", "--leader-elect-renew-deadline=9h", "--leader-elect-retry-period=1h")
		g.Eventually(ready, long).WithArguments(standby).Should(Succeed())
		g.Expect(leader.Stop()).To(Succeed())
		g.Eventually(func() string { return said(t, standby) }, long).Should(ContainSubstring("leading"))
	})

	t.Run("killed, the leader is replaced when the lease has run out", func(t *testing.T) {
		g := NewWithT(t)
		leader, _ := pair(t, "killed")
		holders := watchLease(t)
		took := takeOver(t, "killed", leader.Kill)
		g.Expect(holders()[1:]).To(HaveExactElements(Not(BeEmpty())), "taken, and never released")
		t.Logf("all %d claims bound %v after SIGKILL", arriving, took)
	})

	t.Run("stopped for longer than the lease, the leader writes nothing when it goes on", func(t *testing.T) {
		g := NewWithT(t)
		leader, next := pair(t, "paused")
		took := takeOver(t, "paused", func() {
			leader.Pause()
			g.Eventually(func() string { return said(t, next) }, long).Should(ContainSubstring("leading"))
		})
		before := transitions(said(t, leader))
		leader.Resume()
		g.Eventually(leader.Done(), long).Should(BeClosed())
		g.Expect(leader.ExitCode()).To(Equal(1), "it holds the lease no longer")
		g.Expect(said(t, leader)).To(ContainSubstring("lost the lease"))
		// What was on its way when it was stopped may have arrived since, and is told then.
		late := transitions(said(t, leader)) - before
		handovers(g, "paused")
		g.Expect(bound(g, "paused")).To(HaveLen(arriving))
		t.Logf("all %d claims bound %v after SIGSTOP; %d answers to writes from before were heard after SIGCONT", arriving, took, late)
	})
}

// pair runs a leader and a standby that is ready, beside a full pool.
func pair(t *testing.T, name string) (leader, standby *stage.Replica) {
	t.Helper()
	g := NewWithT(t)
	leader = start(t, name+"-1")
	g.Eventually(func() string { return said(t, leader) }, long).Should(ContainSubstring("leading"))
	warm(g, name, int32(members))
	standby = start(t, name+"-2")
	g.Eventually(ready, long).WithArguments(standby).Should(Succeed())
	return leader, standby
}

// takeOver ends the leader when the first of the arriving claims is bound, and returns
// how long it took until all were.
func takeOver(t *testing.T, pool string, end func()) time.Duration {
	t.Helper()
	g := NewWithT(t)
	rest, all := burst(t, pool, arriving)
	begun := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	var last time.Time
	g.Eventually(all, long, "100ms").Should(Receive(&last))
	took := last.Sub(begun).Round(10 * time.Millisecond)
	<-ended
	g.Expect(<-rest).To(Succeed())
	g.Eventually(func(g Gomega) { handovers(g, pool) }, long).Should(Succeed())
	return took
}

// watchLease returns a function that tells who has held the lease, one after the
// other, since the watch began; nobody is the empty string.
func watchLease(t *testing.T) (holders func() []string) {
	t.Helper()
	g := NewWithT(t)
	leases := world.core.CoordinationV1().Leases(stage.Home)
	w, err := leases.Watch(world.ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", stage.Lease).String()})
	g.Expect(err).NotTo(HaveOccurred())
	var all []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if l, ok := e.Object.(*coordinationv1.Lease); ok && l.Spec.HolderIdentity != nil {
				all = append(all, *l.Spec.HolderIdentity)
			}
		}
	}()
	return func() []string {
		w.Stop()
		<-done
		return slices.Compact(all)
	}
}

// transitions counts the moves that a replica has logged.
func transitions(log string) int { return strings.Count(log, `"msg":"transition"`) }
