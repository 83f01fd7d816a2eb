package process

import (
	"slices"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// A leader, a standby and a replica without leader election are ready as long as the API
// server takes their writes, whatever it still lets them read. The plane is one of its
// own: others need not stand what happens to its storage.
func TestAReplicaIsReadyOnlyWhileItCanWrite(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.Start(world.ctx, cluster.Options{CRDs: true})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(c.Stop()).To(Succeed()) }()
	account, kubeconfig, err := stage.Admit(world.ctx, c)
	g.Expect(err).NotTo(HaveOccurred())
	run := func(name string, args ...string) *stage.Replica {
		r, err := stage.Kiln{Name: name, Binary: world.binary, Kubeconfig: kubeconfig, Args: args, Alive: true, Mortal: true}.Run(world.ctx, c)
		g.Expect(err).NotTo(HaveOccurred())
		return r
	}
	leader := run("ready-leader")
	g.Eventually(func() string { return said(t, leader) }, long).Should(ContainSubstring("leading"))
	standby, alone, few := run("ready-standby"), run("ready-alone", "--leader-elect=false"), run("ready-few", "--leader-elect=false", "--watch-namespaces=gone,default")
	all := []*stage.Replica{leader, standby, alone, few}

	t.Run("all of them are", func(t *testing.T) {
		for _, r := range all {
			NewWithT(t).Eventually(ready, long).WithArguments(r).Should(Succeed())
		}
	})
	t.Run("without the right to write, whoever has to ask is not, and says which right", func(t *testing.T) {
		g := NewWithT(t)
		rights, err := stage.Rights()
		g.Expect(err).NotTo(HaveOccurred())
		fewer := slices.DeleteFunc(slices.Clone(rights), func(r stage.Right) bool { return slices.Contains(r.Rule.Resources, "events") })
		g.Expect(stage.Give(world.ctx, c, account, fewer)).To(Succeed())
		for _, r := range all[1:] {
			g.Eventually(ready, long).WithArguments(r).Should(MatchError(And(ContainSubstring("503"), ContainSubstring("takes no write: events.events.k8s.io is forbidden"))))
		}
		g.Expect(ready(leader)).To(Succeed(), "it writes its lease")
		g.Expect(stage.Give(world.ctx, c, account, rights)).To(Succeed())
		for _, r := range all {
			g.Eventually(ready, long).WithArguments(r).Should(Succeed())
		}
	})
	standby.Kill() // it would be the leader after the next chapter, or it would not

	t.Run("while the storage hangs none is, and all are again afterwards", func(t *testing.T) {
		g := NewWithT(t)
		etcd := c.PID("etcd")
		g.Expect(syscall.Kill(etcd, syscall.SIGSTOP)).To(Succeed())
		defer func() { g.Expect(syscall.Kill(etcd, syscall.SIGCONT)).To(Succeed()) }()
		g.Eventually(ready, long).WithArguments(leader).Should(MatchError(And(ContainSubstring("503"), ContainSubstring("the lease could not be renewed"))))
		for _, r := range []*stage.Replica{alone, few} {
			g.Eventually(ready, long).WithArguments(r).Should(MatchError(And(ContainSubstring("503"), ContainSubstring("the API server takes no write"))))
		}
		g.Expect(syscall.Kill(etcd, syscall.SIGCONT)).To(Succeed())
		for _, r := range []*stage.Replica{leader, alone, few} {
			g.Eventually(ready, long).WithArguments(r).Should(Succeed())
		}
	})
}
