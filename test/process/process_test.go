package process

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// long is how patient a test is; only a failure takes it.
const long = "90s"

func ready(r *stage.Replica) error {
	answer, err := http.Get(r.Health + "/readyz")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s: %s", answer.Status, text)
	}
	return nil
}

func said(t *testing.T, r *stage.Replica) string {
	t.Helper()
	text, err := os.ReadFile(r.Log)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func holder(g Gomega) string {
	lease, err := world.core.CoordinationV1().Leases(stage.Home).Get(world.ctx, stage.Lease, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestTheLifeOfAController is one test because its chapters follow each other on
// one cluster.
func TestTheLifeOfAController(t *testing.T) {
	first := start(t, "kiln-1")

	t.Run("without the CRDs it says which are missing and keeps trying", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(func() string { return said(t, first) }, long).Should(And(
			ContainSubstring("sandboxes.agents.x-k8s.io is missing"),
			ContainSubstring("sandboxclaims.extensions.agents.x-k8s.io is missing"),
			ContainSubstring("kubectl apply"),
		))
		g.Expect(ready(first)).To(MatchError(ContainSubstring("503")))
		g.Expect(world.cluster.InstallCRDs(world.ctx)).To(Succeed())
		g.Eventually(ready, long).WithArguments(first).Should(Succeed())
	})

	second := start(t, "kiln-2")

	t.Run("a standby is ready and does nothing", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(ready, long).WithArguments(second).Should(Succeed())
		g.Eventually(func(g Gomega) { g.Expect(holder(g)).NotTo(BeEmpty()) }, long).Should(Succeed())
		g.Expect(said(t, second)).NotTo(ContainSubstring("leading"))
	})

	t.Run("a replica tells what was built", func(t *testing.T) {
		g := NewWithT(t)
		answer, err := http.Get(first.Metrics)
		g.Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(answer.Body)
		g.Expect(errors.Join(err, answer.Body.Close())).To(Succeed())
		for _, label := range []string{"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"} {
			g.Expect(string(text)).To(MatchRegexp(`(?m)^%s\{.*\b%s="`, "agent_sandbox_build_info", label))
		}
	})

	second.Kill()

	t.Run("told to stop in the middle of a burst, it finishes what it started and releases the lease", func(t *testing.T) {
		g := NewWithT(t)
		warm(g, "a", 20)
		rest, _ := burst(t, "a", 40)
		g.Expect(first.Stop()).To(Succeed())
		g.Expect(first.ExitCode()).To(Equal(0), said(t, first))
		g.Expect(holder(g)).To(BeEmpty(), "the next leader need not wait for the lease to run out")
		handovers(g, "a", said(t, first))
		g.Expect(<-rest).To(Succeed())
		g.Expect(len(bound(g, "a"))).To(BeNumerically("<", 40), "the burst outlasted it")
	})

	third := start(t, "kiln-3")

	t.Run("the next leader goes on at once, and every claim has a sandbox of its own", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(func(g Gomega) { g.Expect(bound(g, "a")).To(HaveLen(40)) }, long).Should(Succeed())
		g.Eventually(func() string { return said(t, third) }, long).Should(ContainSubstring("leading"))
	})

	t.Run("killed in the middle of a burst, it leaves nothing that the next leader cannot finish", func(t *testing.T) {
		g := NewWithT(t)
		warm(g, "b", 10)
		rest, _ := burst(t, "b", 20)
		third.Kill()
		g.Expect(<-rest).To(Succeed())
		start(t, "kiln-4")
		g.Eventually(func(g Gomega) { g.Expect(bound(g, "b")).To(HaveLen(20)) }, long).Should(Succeed())
		handovers(g, "b")
	})
}

// warm makes a template and a pool and waits until the pool is full.
func warm(g Gomega, name string, replicas int32) {
	template := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.PodTemplate = agents.PodTemplate{Spec: runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"image"}]}`)}}
	_, err := world.kiln.Templates("default").Create(world.ctx, template, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	pool := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec = ext.SandboxWarmPoolSpec{Replicas: &replicas, TemplateRef: ext.SandboxTemplateRef{Name: name}}
	_, err = world.kiln.Pools("default").Create(world.ctx, pool, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		p, err := world.kiln.Pools("default").Get(world.ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.Status.ReadyReplicas).To(Equal(replicas))
	}, long).Should(Succeed())
}

// burst starts to make claims on a pool, one after another, and returns when the
// first is bound. The first channel tells how making the rest went, the second when all
// are bound. A watch tells, because asking again and again would keep the API server
// from its work.
func burst(t *testing.T, pool string, n int) (made <-chan error, all <-chan time.Time) {
	t.Helper()
	g := NewWithT(t)
	w, err := world.kiln.Claims("default").Watch(world.ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(w.Stop)
	first, last := make(chan struct{}), make(chan time.Time, 1)
	go func() {
		bound := map[string]bool{}
		for e := range w.ResultChan() {
			c, ok := e.Object.(*ext.SandboxClaim)
			if !ok || c.Spec.WarmPoolRef.Name != pool || c.Status.State != ext.StateBound || bound[c.Name] {
				continue
			}
			if bound[c.Name] = true; len(bound) == 1 {
				close(first)
			}
			if len(bound) == n {
				last <- time.Now()
			}
		}
	}()
	rest := make(chan error, 1)
	go func() { rest <- claim(pool, n) }()
	g.Eventually(first, long, "1ms").Should(BeClosed())
	return rest, last
}

func claim(pool string, n int) error {
	for i := range n {
		c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", pool, i)}}
		c.Spec.WarmPoolRef.Name = pool
		if _, err := world.kiln.Claims("default").Create(world.ctx, c, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func claims(g Gomega, pool string) (all []ext.SandboxClaim) {
	list, err := world.kiln.Claims("default").List(world.ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, c := range list.Items {
		if c.Spec.WarmPoolRef.Name == pool {
			all = append(all, c)
		}
	}
	return all
}

// bound returns the claim that each sandbox was told to; two claims on one
// sandbox fail.
func bound(g Gomega, pool string) map[string]string {
	by := map[string]string{}
	for _, c := range claims(g, pool) {
		if name := c.Status.SandboxStatus.Name; c.Status.State == ext.StateBound {
			g.Expect(by).NotTo(HaveKey(name), "two claims were told of one sandbox")
			by[name] = c.Name
		}
	}
	return by
}

// handovers proves that no hand-over is half done: whoever owns a warm sandbox
// has been told of it. What is said of it is what the
// controllers said.
func handovers(g Gomega, pool string, said ...any) {
	told := bound(g, pool)
	list, err := world.kiln.Sandboxes("default").List(world.ctx, metav1.ListOptions{LabelSelector: "agents.x-k8s.io/launch-type=warm"})
	g.Expect(err).NotTo(HaveOccurred())
	for _, s := range list.Items {
		owner := metav1.GetControllerOf(&s)
		g.Expect(owner).NotTo(BeNil())
		if owner.Kind == "SandboxClaim" && s.DeletionTimestamp == nil && mine(g, pool, owner.Name) {
			g.Expect(told).To(HaveKeyWithValue(s.Name, owner.Name), said...)
		}
	}
}

func mine(g Gomega, pool, claim string) bool {
	c, err := world.kiln.Claims("default").Get(world.ctx, claim, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return c.Spec.WarmPoolRef.Name == pool
}
