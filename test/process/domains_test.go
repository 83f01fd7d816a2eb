package process

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// The administrator changes the ConfigMap, and nobody restarts anything.
func TestLabelDomainsAreFollowedWhileAReplicaRuns(t *testing.T) {
	g := NewWithT(t)
	g.Expect(world.cluster.InstallCRDs(world.ctx)).To(Succeed())
	c, err := dynamic.NewForConfig(world.cluster.Config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { uninstall(t, c) }) // the next tests begin without definitions
	path := filepath.Join(t.TempDir(), "domains")
	g.Expect(os.WriteFile(path, []byte("a.example\n"), 0o600)).To(Succeed())
	r := start(t, "kiln-domains", "--allowed-label-domains-file="+path)
	warm(g, "domains", 1)
	claim := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: "domains"}}
	claim.Spec.WarmPoolRef.Name = "domains"
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: map[string]string{"b.example/who": "me"}}
	_, err = world.kiln.Claims("default").Create(world.ctx, claim, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	reason := func(g Gomega) string {
		is, err := world.kiln.Claims("default").Get(world.ctx, "domains", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		if ready := meta.FindStatusCondition(is.Status.Conditions, "Ready"); ready != nil {
			return ready.Reason
		}
		return ""
	}
	g.Eventually(reason, long).Should(Equal("InvalidMetadata"))
	g.Expect(os.WriteFile(path, []byte("a.example\nb.example\n"), 0o600)).To(Succeed())
	g.Eventually(reason, long).Should(Equal("DependenciesReady"))
	g.Expect(os.WriteFile(path, []byte("no domain!\n"), 0o600)).To(Succeed())
	g.Eventually(func() string { return said(t, r) }, long).Should(ContainSubstring("is no domain"))
	g.Expect(reason(g)).To(Equal("DependenciesReady"))

	g.Expect(world.kiln.Claims("default").Delete(world.ctx, "domains", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(world.kiln.Pools("default").Delete(world.ctx, "domains", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func(g Gomega) {
		pods, err := world.core.CoreV1().Pods("default").List(world.ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).To(BeEmpty())
	}, long).Should(Succeed())
}
