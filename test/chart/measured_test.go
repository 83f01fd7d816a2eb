package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/test/stage"
)

// question and answer are those of test/prom.
type question struct {
	Scrapes, Queries []string
	Rules            string
}

type answer struct {
	Queries []result
	Alerts  map[string]result
	Wrong   []string
}

type result struct {
	Series  map[string]float64
	Unknown []string
	Wrong   string
}

// prometheus builds what runs queries, and returns how to ask it.
func prometheus(t *testing.T) func(question) answer {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "prom")
	build := exec.CommandContext(setup.ctx, "go", "build", "-o", binary, ".")
	build.Dir = at("test", "prom")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build test/prom: %v\n%s", err, said)
	}
	return func(q question) (a answer) {
		t.Helper()
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(setup.ctx, binary)
		command.Stdin = bytes.NewReader(text)
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := json.Unmarshal(out, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// scrape is what a controller tells, with what Prometheus adds.
func scrape(t *testing.T, r *stage.Replica) string {
	t.Helper()
	answer, err := http.Get(r.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "up{job=\"" + stage.Account + "\",namespace=\"" + stage.Home + "\"} 1\n"
}

// busy are a pool that must be fresh and one that keeps nothing.
const busy = `
apiVersion: v1
kind: Namespace
metadata: {name: busy}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: t, namespace: busy}
spec: {podTemplate: {spec: {containers: [{name: c, image: image}]}}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: p, namespace: busy}
spec: {replicas: 2, sandboxTemplateRef: {name: t}, updateStrategy: {type: Recreate}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: empty, namespace: busy}
spec: {replicas: 0, sandboxTemplateRef: {name: t}}
`

// troubled are a pool whose pods never become ready, one that rolls to such a template, and
// a template whose pods a quota refuses.
const troubled = `
apiVersion: v1
kind: Namespace
metadata: {name: troubled}
---
apiVersion: v1
kind: Namespace
metadata: {name: quota}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: quota}
spec: {hard: {pods: "0"}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: slow, namespace: troubled}
spec: {podTemplate: {metadata: {annotations: {kwok.x-k8s.io/ready-after: 24h}}, spec: {containers: [{name: c, image: slow}]}}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: fast, namespace: troubled}
spec: {podTemplate: {spec: {containers: [{name: c, image: image}]}}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: slow, namespace: troubled}
spec: {replicas: 1, sandboxTemplateRef: {name: slow}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: rolls, namespace: troubled}
spec: {replicas: 4, sandboxTemplateRef: {name: fast}, updateStrategy: {type: RollingUpdate, rollingUpdate: {progressDeadlineSeconds: 1}}}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: t, namespace: quota}
spec: {podTemplate: {spec: {containers: [{name: c, image: image}]}}}
`

// waits is a claim that comes when its pool's only member is starting. One that comes before
// the member is made would start a sandbox of its own, and not wait.
const waits = `
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxClaim
metadata: {name: waits, namespace: troubled}
spec: {warmPoolRef: {name: slow}}
`

const refused = `
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: NAME, namespace: quota}
spec: {replicas: 1, sandboxTemplateRef: {name: t}}
`

// does applies a manifest and returns when a field of an object says something.
func does(t *testing.T, manifest, namespace, what, path, want string) {
	t.Helper()
	if err := setup.cluster.Apply(setup.ctx, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	says(t, namespace, what, path, want)
}

// says returns when a field of an object says something.
func says(t *testing.T, namespace, what, path, want string) {
	t.Helper()
	NewWithT(t).Eventually(func() (string, error) {
		return tool(setup.cluster.Kubectl, "-n", namespace, "get", what, "-o", "jsonpath="+path)
	}, patience, often).Should(Equal(want), what)
}

func claims(t *testing.T, name, pool string) {
	t.Helper()
	does(t, "{apiVersion: extensions.agents.x-k8s.io/v1beta1, kind: SandboxClaim, metadata: {name: "+name+", namespace: busy}, spec: {warmPoolRef: {name: "+pool+"}}}",
		"busy", "sandboxclaim/"+name, "{.status.state}", "bound")
	says(t, "busy", "swp/p", "{.status.readyReplicas}", "2")
}

// rules is the file of rules that the chart has for some values.
func rules(t *testing.T, values string) string {
	t.Helper()
	o := object(t, rendered(t, append(everything(), with(t, values)...)...), "PrometheusRule", stage.Account)
	text, err := yaml.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// panels are the queries of the dashboard, by the titles of their panels.
func panels(t *testing.T) (titles, queries []string) {
	t.Helper()
	var config corev1.ConfigMap
	into(t, object(t, rendered(t, everything()...), "ConfigMap", stage.Account+"-dashboard"), &config)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(config.Data["kiln.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			titles = append(titles, p.Title)
			queries = append(queries, strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$pool", ".*").Replace(target.Expr))
		}
	}
	return titles, queries
}

// What the dashboard and the alerts ask for, the controller tells; alerts are silent while
// all is well, and each speaks when what it is about has happened.
func TestDashboardAndAlertsAskForWhatTheControllerTells(t *testing.T) {
	g := NewWithT(t)
	ask := prometheus(t)
	g.Expect(setup.cluster.InstallCRDs(setup.ctx)).To(Succeed())
	cfg, kubeconfig := account(t)
	rights, err := stage.Rights()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stage.Give(setup.ctx, setup.cluster, cfg, rights)).To(Succeed())
	kiln := controller(t, "measured", kubeconfig, "--claim-max-wait=1h")
	g.Expect(setup.cluster.Apply(setup.ctx, []byte(busy))).To(Succeed())
	var well []string
	for _, name := range []string{"a", "b", "c"} {
		claims(t, name, "p")
		claims(t, name+"-cold", "empty")
		well = append(well, scrape(t, kiln))
	}
	said := ask(question{Scrapes: well, Rules: rules(t, "metrics: {prometheusRule: {claimSeconds: 3600}}")})
	g.Expect(said.Wrong).To(BeEmpty())
	for name, r := range said.Alerts {
		if name == "KilnRolloutStuck" || name == "KilnPoolEmptyWhileClaimsWait" {
			continue // of the tests before this one, something may still be troubled
		}
		g.Expect(r.Wrong).To(BeEmpty(), name)
		g.Expect(r.Series).To(BeEmpty(), name+" is silent")
	}

	standby := controller(t, "standby", kubeconfig)
	bad := append(well, troubles(t, kiln)...)
	strict := rules(t, "metrics: {prometheusRule: {claimSeconds: 0.000001, writeFailures: 0.0001}}")
	titles, queries := panels(t)
	said = ask(question{Scrapes: bad, Queries: queries, Rules: strict})
	for i, r := range said.Queries {
		g.Expect(r.Wrong).To(BeEmpty(), titles[i]+": "+queries[i])
		g.Expect(r.Unknown).To(BeEmpty(), titles[i]+": "+queries[i])
		g.Expect(r.Series).NotTo(BeEmpty(), titles[i]+": "+queries[i])
	}
	for _, name := range []string{"KilnPoolEmptyWhileClaimsWait", "KilnClaimsSlow", "KilnRolloutStuck", "KilnWritesFail"} {
		g.Expect(said.Alerts[name].Series).NotTo(BeEmpty(), name+" speaks")
	}
	for name, r := range said.Alerts {
		g.Expect(r.Unknown).To(BeEmpty(), name)
	}
	alone := ask(question{Scrapes: []string{scrape(t, standby)}, Rules: strict})
	g.Expect(alone.Alerts["KilnNoLeader"].Series).NotTo(BeEmpty())
	nobody := ask(question{Scrapes: []string{"other 1\n"}, Rules: strict})
	g.Expect(nobody.Alerts["AgentSandboxControllerMetricsTargetsDown"].Series).NotTo(BeEmpty())
}

// troubles makes trouble and returns two scrapes during it.
func troubles(t *testing.T, kiln *stage.Replica) (all []string) {
	t.Helper()
	g := NewWithT(t)
	does(t, troubled, "troubled", "swp/rolls", "{.status.readyReplicas}", "4")
	says(t, "troubled", "swp/slow", "{.status.warmingReplicas}", "1")
	g.Expect(setup.cluster.Apply(setup.ctx, []byte(waits))).To(Succeed())
	g.Eventually(func() string { return scrape(t, kiln) }, patience, often).
		Should(ContainSubstring(`kiln_shelf_waiting{namespace="troubled",pool="slow"} 1`))
	does(t, "{apiVersion: extensions.agents.x-k8s.io/v1beta1, kind: SandboxWarmPool, metadata: {name: rolls, namespace: troubled}, spec: {replicas: 4, "+
		"sandboxTemplateRef: {name: slow}, updateStrategy: {type: RollingUpdate, rollingUpdate: {progressDeadlineSeconds: 1}}}}",
		"troubled", "swp/rolls", "{.status.rollout.phase}", "DeadlineExceeded")
	says(t, "quota", "resourcequota/none", "{.status.hard.pods}", "0")
	for _, name := range []string{"first", "second"} {
		does(t, strings.ReplaceAll(refused, "NAME", name), "quota", "swp/"+name, `{.status.conditions[?(@.type=="Degraded")].status}`, "True")
		all = append(all, scrape(t, kiln))
	}
	return all
}

// A monitor is a ServiceMonitor as far as the chart has anything to say in it.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Endpoints []struct {
			Port          string `json:"port"`
			HonorLabels   bool   `json:"honorLabels"`
			Interval      string `json:"interval"`
			ScrapeTimeout string `json:"scrapeTimeout"`
			// How secure metrics are scraped.
			Scheme          string         `json:"scheme"`
			BearerTokenFile string         `json:"bearerTokenFile"`
			TLSConfig       map[string]any `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

func TestTheMonitorFindsTheService(t *testing.T) {
	g := NewWithT(t)
	manifest := rendered(t, append(everything(), with(t, "metrics: {secure: false, serviceMonitor: {scrapeTimeout: 5s, additionalLabels: {release: prometheus}}}")...)...)
	var m monitor
	var s corev1.Service
	into(t, object(t, manifest, "ServiceMonitor", stage.Account), &m)
	into(t, object(t, manifest, "Service", stage.Account), &s)
	selector, err := metav1.LabelSelectorAsMap(&m.Spec.Selector)
	g.Expect(err).NotTo(HaveOccurred())
	for key, value := range selector {
		g.Expect(s.Labels).To(HaveKeyWithValue(key, value))
	}
	g.Expect(m.Spec.NamespaceSelector.MatchNames).To(ConsistOf(s.Namespace))
	g.Expect(m.Labels).To(HaveKeyWithValue("release", "prometheus"))
	g.Expect(fmt.Sprint(m.Spec.Endpoints)).To(Equal("[{metrics true 30s 5s   map[]}]"))
	g.Expect(s.Spec.Ports[0].Name).To(Equal("metrics"))
}

// With Prometheus' own token, and as sure of who answers as there is a way to be.
func TestTheMonitorScrapesSecureMetrics(t *testing.T) {
	for values, tls := range map[string]string{
		"{secure: true}":                   "map[insecureSkipVerify:true]",
		"{secure: true, certSecret: mine}": "map[ca:map[secret:map[key:ca.crt name:mine]] serverName:kiln.agent-sandbox-system.svc]",
		"{secure: true, certSecret: mine, serviceMonitor: {tlsConfig: {serverName: other}}}": "map[serverName:other]",
	} {
		g := NewWithT(t)
		var m monitor
		into(t, object(t, rendered(t, append(everything(), with(t, "metrics: "+values)...)...), "ServiceMonitor", stage.Account), &m)
		e := m.Spec.Endpoints[0]
		g.Expect([]string{e.Scheme, e.BearerTokenFile, fmt.Sprint(e.TLSConfig)}).To(Equal(
			[]string{"https", "/var/run/secrets/kubernetes.io/serviceaccount/token", tls}), values)
	}
}
