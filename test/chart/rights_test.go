package chart

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// work is what somebody asks of the controller in a namespace: a warm claim, a cold one with
// storage, and a sandbox with a Service and storage.
const work = `
apiVersion: v1
kind: Namespace
metadata: {name: NS}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: t, namespace: NS}
spec: &spec
  podTemplate: {spec: {containers: [{name: c, image: image}]}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: p, namespace: NS}
spec: {replicas: 1, sandboxTemplateRef: {name: t}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxClaim
metadata: {name: a, namespace: NS}
spec: {warmPoolRef: {name: p}}
---
apiVersion: agents.x-k8s.io/v1beta1
kind: Sandbox
metadata: {name: own, namespace: NS}
spec:
  podTemplate: {spec: {containers: [{name: c, image: image}]}}
  service: true
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// asked has somebody ask for work in a namespace.
func asked(t *testing.T, namespace string) {
	t.Helper()
	if err := setup.cluster.Apply(setup.ctx, []byte(strings.ReplaceAll(work, "NS", namespace))); err != nil {
		t.Fatal(err)
	}
}

// served holds when the work of a namespace is done. Nobody here makes storage, so the pod
// that waits for it is all that the sandbox can have.
func served(namespace string) error {
	const ready = `{.status.conditions[?(@.type=="Ready")].status}`
	for what, path := range map[string]string{"sandboxclaim/a": ready, "swp/p": ready, "service/own": "True", "pvc/data-own": "True", "pod/own": "True"} {
		said, err := tool(setup.cluster.Kubectl, "-n", namespace, "get", what, "-o", "jsonpath="+path)
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		if said != "True" {
			return fmt.Errorf("%s is Ready %q", what, said)
		}
	}
	return nil
}

const (
	patience = time.Minute
	often    = 100 * time.Millisecond
)

// account is the controller's access, and a kubeconfig with it.
func account(t *testing.T) (*rest.Config, string) {
	t.Helper()
	cfg, kubeconfig, err := setup.cluster.ServiceAccountConfig(setup.ctx, stage.Home, stage.Account)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, kubeconfig
}

// controller runs the controller until the test ends.
func controller(t *testing.T, name, kubeconfig string, args ...string) *stage.Replica {
	t.Helper()
	return replica(t, stage.Kiln{Name: name, Kubeconfig: kubeconfig, Args: args})
}

// replica runs a controller until the test ends.
func replica(t *testing.T, k stage.Kiln) *stage.Replica {
	t.Helper()
	k.Binary, k.Alive = setup.kiln, true
	r, err := k.Run(setup.ctx, setup.cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// forbidden are the requests that the controller was refused, since so many were noted.
func forbidden(t *testing.T, since int) (refused []string) {
	t.Helper()
	noted, err := setup.audit.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range noted[since:] {
		// Admission asks for rights as well: on an owner whose deletion is to wait for this object.
		if one.Forbidden || one.Code == 403 && strings.Contains(one.Message, "can't set finalizers on") {
			refused = append(refused, one.String()+": "+one.Message)
		}
	}
	slices.Sort(refused)
	return slices.Compact(refused)
}

// lease has somebody hold the lease until the test ends, or nobody, if that is the name.
func lease(t *testing.T, holder string) {
	t.Helper()
	held := "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: " + stage.Lease + ", namespace: " + stage.Home +
		"}, spec: {holderIdentity: '" + holder + "', leaseDurationSeconds: 3600}}"
	if err := setup.cluster.Apply(setup.ctx, []byte(held)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noLease(t) })
}

func noLease(t *testing.T) {
	t.Helper()
	if said, err := tool(setup.cluster.Kubectl, "-n", stage.Home, "delete", "lease", "--all"); err != nil {
		t.Fatal(err, said)
	}
}

// scraped is what somebody with a token is answered who asks for the metrics.
func scraped(of *stage.Replica, token string) (int, error) {
	r, err := http.NewRequestWithContext(setup.ctx, http.MethodGet, of.Metrics, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// status is the status that a URL is answered with.
func status(url string) (int, error) {
	answer, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func noted(t *testing.T) int {
	t.Helper()
	all, err := setup.audit.Requests()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// With all its rights nothing is refused, and without any one of them something is.
func TestNothingWorksWithoutAnyOneOfTheRights(t *testing.T) {
	g := NewWithT(t)
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	cfg, kubeconfig := account(t)
	rights, err := stage.Rights()
	g.Expect(err).NotTo(HaveOccurred())
	t.Run("with all of them, and under the admission policies", func(t *testing.T) {
		g := NewWithT(t)
		admission(t, "with-all")
		g.Expect(stage.Give(setup.ctx, setup.cluster, cfg, rights)).To(Succeed())
		since := noted(t)
		r := replica(t, stage.Kiln{Name: "with-all", Kubeconfig: kubeconfig, Secure: true})
		asked(t, "with-all")
		g.Eventually(func() error { return served("with-all") }, patience, often).Should(Succeed())
		g.Expect(scraped(r, cfg.BearerToken)).To(Equal(http.StatusForbidden), "the controller itself is no reader")
		g.Expect(forbidden(t, since)).To(BeEmpty())
	})
	for i, r := range rights {
		if r.Where == stage.Beside {
			continue // TestAFewNamespacesAreServedByRolesAlone
		}
		name := fmt.Sprintf("without-%d", i)
		t.Run("without "+strings.Join(r.Rule.Verbs, ", ")+" of "+strings.Join(r.Rule.Resources, ", "), func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(stage.Give(setup.ctx, setup.cluster, cfg, slices.Delete(slices.Clone(rights), i, i+1))).To(Succeed())
			switch {
			case r.Where != stage.AtHome:
			case slices.Contains(r.Rule.Verbs, "create"): // one that is there need not be made
				noLease(t)
			default: // a leader watches no lease
				lease(t, "another")
			}
			since := noted(t)
			secure := replica(t, stage.Kiln{Name: name, Kubeconfig: kubeconfig, Secure: true})
			asked(t, name)
			if r.Where == stage.Guard {
				g.Expect(scraped(secure, cfg.BearerToken)).To(Equal(http.StatusServiceUnavailable))
			}
			g.Eventually(func() []string { return forbidden(t, since) }, patience, often).ShouldNot(BeEmpty())
		})
	}
}

// A controller that has Roles serves the namespaces that it watches, and asks for nothing else.
func TestAFewNamespacesAreServedByRolesAlone(t *testing.T) {
	g := NewWithT(t)
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	cfg, kubeconfig := account(t)
	g.Expect(stage.Give(setup.ctx, setup.cluster, cfg, nil)).To(Succeed())
	for _, namespace := range []string{"one", "two", "other"} {
		asked(t, namespace)
	}
	since := noted(t)
	roles := func(values string) string {
		return rendered(t, append(with(t, values), "--no-hooks", "--show-only", "templates/rbac.yaml")...)
	}
	g.Expect(setup.cluster.Apply(setup.ctx, []byte(roles("{replicaCount: 1, watchNamespaces: [one, two], controller: {leaderElect: false}}")))).To(Succeed())
	alone := controller(t, "few-alone", kubeconfig, "--watch-namespaces=one,two", "--leader-elect=false")
	g.Eventually(func() (int, error) { return status(alone.Health + "/readyz") }, patience, often).Should(Equal(http.StatusOK))
	g.Expect(alone.Stop()).To(Succeed())
	g.Expect(setup.cluster.Apply(setup.ctx, []byte(roles("watchNamespaces: [one, two]")))).To(Succeed())
	few := controller(t, "few", kubeconfig, "--watch-namespaces=one,two")
	g.Eventually(func() (int, error) { return status(few.Health + "/readyz") }, patience, often).Should(Equal(http.StatusOK))
	for _, namespace := range []string{"one", "two"} {
		g.Eventually(func() error { return served(namespace) }, patience, often).Should(Succeed())
	}
	g.Expect(served("other")).NotTo(Succeed())
	text, err := os.ReadFile(few.Log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).NotTo(ContainSubstring("would not be noticed"))
	g.Expect(forbidden(t, since)).To(BeEmpty())
}

// The role of an older version lets nobody watch the lease. A standby looks for it then.
func TestAStandbyThatMayNotWatchTheLeaseSaysSoAndTakesItAllTheSame(t *testing.T) {
	g := NewWithT(t)
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	cfg, kubeconfig := account(t)
	rights, err := stage.Rights()
	g.Expect(err).NotTo(HaveOccurred())
	older := slices.DeleteFunc(slices.Clone(rights), func(r stage.Right) bool {
		return r.Where == stage.AtHome && slices.Contains(r.Rule.Verbs, "watch")
	})
	g.Expect(older).To(HaveLen(len(rights) - 1))
	g.Expect(stage.Give(setup.ctx, setup.cluster, cfg, older)).To(Succeed())
	lease(t, "another")
	standby := controller(t, "blind", kubeconfig)
	log := func() (string, error) {
		text, err := os.ReadFile(standby.Log)
		return string(text), err
	}
	g.Eventually(log, patience, often).Should(And(ContainSubstring("the lease is not watched"), ContainSubstring("leases.coordination.k8s.io")))
	asked(t, "blind")
	lease(t, "")
	g.Eventually(func() error { return served("blind") }, patience, often).Should(Succeed())
	text, err := log()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(text, "the lease is not watched")).To(Equal(1))
}
