package process

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// incumbentPod makes a pod as the agent-sandbox controller has it, and returns what deletes it.
func incumbentPod(t *testing.T, name string, args ...string) (end func()) {
	t.Helper()
	g, pods := NewWithT(t), world.core.CoreV1().Pods(stage.Home)
	_, _, err := world.cluster.ServiceAccountConfig(world.ctx, stage.Home, "agent-sandbox-controller") // makes both
	g.Expect(err).NotTo(HaveOccurred())
	_, err = pods.Create(world.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{ServiceAccountName: "agent-sandbox-controller", Containers: []corev1.Container{
			{Name: "agent-sandbox-controller", Image: "image", Args: args},
		}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	now := int64(0)
	return func() {
		t.Helper()
		g.Expect(pods.Delete(world.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})).To(Succeed())
	}
}

// The agent-sandbox controller says that it may be silent for 15 seconds. Here it is an hour, so nothing but the end
// of its pod can have Kiln lead.
func TestALeaderWhosePodIsGoneNeedNotReleaseTheLease(t *testing.T) {
	g := NewWithT(t)
	g.Expect(world.cluster.InstallCRDs(world.ctx)).To(Succeed())
	end := incumbentPod(t, "incumbent-1", "--leader-elect=true")
	held, hour, now := "incumbent-1_7d0f", int32(3600), metav1.NowMicro()
	leases := world.core.CoordinationV1().Leases(stage.Home)
	_ = leases.Delete(world.ctx, stage.Lease, metav1.DeleteOptions{})
	_, err := leases.Create(world.ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: stage.Lease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &held, LeaseDurationSeconds: &hour, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	standby := start(t, "heir")
	g.Eventually(func() string { return said(t, standby) }, long).Should(ContainSubstring(held))
	g.Eventually(ready, long).WithArguments(standby).Should(Succeed())
	g.Expect(holder(g)).To(Equal(held))
	end()
	g.Eventually(func() string { return said(t, standby) }, long).Should(ContainSubstring("leading"))
}

// A controller that holds no lease is seen by the arguments of its pod.
func TestKilnDoesNotWorkBesideAControllerWithoutLeaderElection(t *testing.T) {
	const beside = "not working beside an agent-sandbox controller"
	for name, args := range map[string][]string{"elected": nil, "unelected": {"--leader-elect=false"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(world.cluster.InstallCRDs(world.ctx)).To(Succeed())
			end := incumbentPod(t, "incumbent-2", "--leader-elect=false")
			waits := start(t, "waits-"+name, args...)
			g.Eventually(func() string { return said(t, waits) }, long).Should(ContainSubstring(beside))
			g.Eventually(ready, long).WithArguments(waits).Should(Succeed())
			g.Expect(transitions(said(t, waits))).To(BeZero())
			end()
			g.Eventually(func() string { return said(t, waits) }, long).Should(ContainSubstring("is gone"))
			warm(g, name, 1)
		})
	}
	t.Run("a leader gives way to one that comes later", func(t *testing.T) {
		g := NewWithT(t)
		leader := start(t, "gives-way")
		g.Eventually(func() string { return said(t, leader) }, long).Should(ContainSubstring("leading"))
		end := incumbentPod(t, "incumbent-3", "--leader-elect=false")
		defer end()
		g.Eventually(leader.Done(), long).Should(BeClosed())
		g.Expect(said(t, leader)).To(And(ContainSubstring(beside), ContainSubstring("lost the lease")))
	})
}
