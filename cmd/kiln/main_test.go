package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/cmd/kiln/bench"
	"github.com/kiln-sandbox/kiln/crds"
)

// kiln runs a command line and returns what it said.
func kiln(args ...string) (stdout string, err error) {
	var out, said bytes.Buffer
	err = run(context.Background(), args, &out, &said)
	return out.String(), err
}

func TestACommandLineThatMakesNoSenseIsRefusedInOneLine(t *testing.T) {
	for line, says := range map[string]string{
		"":                 "name a command",
		"fly":              `there is no command "fly"`,
		"controller --fly": "-fly",
		"controller now":   `"now" is not a flag`,
		"controller --sandbox-concurrent-workers=-1":        "--sandbox-concurrent-workers is -1; give a number from 1 to 10000",
		"controller --sandbox-claim-concurrent-workers=0":   "give a number from 1",
		"controller --sandbox-warm-pool-max-batch-size=1e9": "sandbox-warm-pool-max-batch-size",
		"controller --kube-api-qps=0":                       "--kube-api-qps is 0",
		"controller --claim-max-wait=-1s":                   "--claim-max-wait is -1s",
		"controller --metrics-bind-address=nowhere":         "--metrics-bind-address",
		"controller --health-probe-bind-address=:99999":     "--health-probe-bind-address",
		"controller --metrics-cert-dir=/certs":              "--metrics-cert-dir is \"/certs\"; give --metrics-secure with it",
		"controller --zap-log-level=loud":                   "debug, info, warn or error",
		"controller --cluster-domain=Not_A_Domain":          "give a domain such as cluster.local",
		"controller --zap-encoder=xml":                      "json or console",
		"controller --pprof-block-profile-rate=-1":          "--pprof-block-profile-rate is -1; give 0 for none",
		"controller --pprof-mutex-profile-fraction=few":     "pprof-mutex-profile-fraction",
		"controller --leader-elect=perhaps":                 "leader-elect",
		"controller --leader-elect-lease-duration=1500ms":   "give whole seconds",
		"controller --leader-elect-renew-deadline=2s":       "--leader-elect-renew-deadline is 2s; give less than the lease duration, 2s",
		"controller --leader-elect-retry-period=1500ms":     "--leader-elect-retry-period is 1.5s",
		"states sculpture":                                  "text or mermaid",
		"bench fly":                                         `there is no scenario "fly"`,
		"bench serial --fly":                                "-fly",
		"bench --claims=-1 burst":                           "--claims is -1",
		"bench --rates=10,fast":                             `"fast" is no number`,
		"bench --pools=":                                    `"" is no number`,
		"bench --append":                                    "name it with --out",
		"bench compare a.json":                              "takes two files",
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			_, err := kiln(strings.Fields(line)...)
			g.Expect(err).To(MatchError(errUsage), "it exits with 2")
			g.Expect(err).To(MatchError(ContainSubstring(says)))
			g.Expect(err.Error()).NotTo(ContainSubstring("\n"))
		})
	}
}

func TestADeploymentOfTheAgentSandboxControllerStartsAsItIs(t *testing.T) {
	_, err := parse(strings.Fields(`--extensions --leader-elect=true --enable-webhook --webhook-port=9443 --manage-webhook-certs=false
		--kube-api-qps=-1 --kube-api-burst=10 --api-connections=4 --cache-label-selectors --sandbox-write-behind-window=100ms
		--sandbox-warm-pool-replenish-delay=2s --sandbox-warm-pool-max-refill-rate=10 --cluster-domain=cluster.local
		--enable-tracing=false --zap-devel --zap-log-level=debug --zap-encoder=console --enable-warm-pool-eviction=false
		--disable-claim-events --disable-claim-observability-annotations --sandbox-warm-pool-readiness-grace-period=5m
		--disable-sandbox-events`))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestTheFlagsOfSandboxesHaveAnEffect(t *testing.T) {
	g := NewWithT(t)
	s, err := parse(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.options.ClusterDomain).To(Equal("cluster.local"))
	g.Expect(s.noSandboxEvents).To(BeFalse())
	s, err = parse(strings.Fields("--disable-sandbox-events --cluster-domain=example.org"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.options.ClusterDomain).To(Equal("example.org"))
	g.Expect(s.noSandboxEvents).To(BeTrue())
}

func TestFlagsAloneMeanWhatTheyMeanToTheAgentSandboxController(t *testing.T) {
	for line, serves := range map[string]bool{"--leader-elect=true": false, "--leader-elect=true --extensions": true, "--extensions=true": true} {
		g := NewWithT(t)
		s, err := parse(asIncumbent(strings.Fields(line)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.extensions).To(Equal(serves), line)
	}
	s, err := parse(nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(s.extensions).To(BeTrue(), "kiln controller serves everything")
}

// contract are the flags of the agent-sandbox controller, with a value that is not
// the default.
var contract = strings.Fields(`--version=false --kubeconfig=x --extensions=true --cluster-domain=corp.local --disable-sandbox-events=true --metrics-bind-address=:1
	--health-probe-bind-address=:2 --leader-elect=false --leader-election-namespace=n --enable-webhook=false --webhook-port=1
	--webhook-cert-dir=d --webhook-cert-name=c --webhook-key-name=k --webhook-service-name=s --webhook-namespace=n
	--manage-webhook-certs=false --enable-tracing=true --enable-pprof=true --enable-pprof-debug=true --pprof-block-profile-rate=1
	--pprof-mutex-profile-fraction=1 --kube-api-qps=100 --kube-api-burst=200 --api-connections=4 --separate-watch-connection=true
	--cache-label-selectors=true --sandbox-concurrent-workers=1 --sandbox-claim-concurrent-workers=1
	--sandbox-warm-pool-concurrent-workers=2 --sandbox-template-concurrent-workers=2 --sandbox-warm-pool-max-batch-size=10
	--sandbox-warm-pool-replenish-delay=1s --sandbox-warm-pool-max-refill-rate=5 --sandbox-warm-pool-readiness-grace-period=1m
	--sandbox-warm-pool-unschedulable-recheck-interval=2m --enable-warm-pool-eviction=false --disable-claim-events=true
	--disable-claim-observability-annotations=true --sandbox-write-behind-window=1s --zap-devel=true --zap-log-level=3
	--zap-encoder=console --zap-stacktrace-level=error --zap-time-encoding=iso8601`)

func TestEveryFlagOfTheAgentSandboxControllerIsTaken(t *testing.T) {
	for _, one := range contract {
		t.Run(one, func(t *testing.T) {
			g := NewWithT(t)
			s, err := parse([]string{one})
			g.Expect(err).NotTo(HaveOccurred())
			name, _, _ := strings.Cut(one, "=")
			idle := slices.ContainsFunc(unused, func(u struct{ name, value, why string }) bool { return "--"+u.name == name })
			g.Expect(len(s.rests) == 1).To(Equal(idle), "a flag without effect is said in the log: %q", s.rests)
		})
	}
	s, err := parse(nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(s.rests).To(BeEmpty(), "only what was given is said")
}

func TestAThousandWorkersAreRemarkedOn(t *testing.T) {
	for claims, remarks := range map[string]int{"895": 0, "896": 1} { // and 100, 4 and 1 of the others
		var said bytes.Buffer
		args := []string{"controller", "--kubeconfig=/missing", "--sandbox-claim-concurrent-workers=" + claims}
		g := NewWithT(t)
		g.Expect(run(t.Context(), args, io.Discard, &said)).To(MatchError(ContainSubstring("/missing")))
		g.Expect(strings.Count(said.String(), "workers")).To(Equal(2*remarks), said.String())
	}
}

func TestDefinitionsThatKeepAnOlderVersionAreLeftAloneWithTheWayOut(t *testing.T) {
	g := NewWithT(t)
	crd := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"storedVersions": []any{"v1beta1"}}}}
	crd.SetName(crds.Sandboxes)
	g.Expect(keepsOlder(crd)).To(Succeed())
	g.Expect(unstructured.SetNestedStringSlice(crd.Object, []string{"v1alpha1", "v1beta1"}, "status", "storedVersions")).To(Succeed())
	g.Expect(keepsOlder(crd)).To(MatchError(And(
		ContainSubstring("v1alpha1 and v1beta1"), ContainSubstring("kiln migrate --prune-stored-versions"),
		ContainSubstring("kubectl get sandboxes.agents.x-k8s.io -A -o json | kubectl replace -f -"),
		ContainSubstring(`kubectl patch crd sandboxes.agents.x-k8s.io --subresource=status --type=merge -p '{"status":{"storedVersions":["v1beta1"]}}'`),
	)))
}

func TestHelpNamesEveryFlag(t *testing.T) {
	g := NewWithT(t)
	out, err := kiln("controller", "--help")
	g.Expect(err).NotTo(HaveOccurred())
	for _, u := range unused {
		g.Expect(out).To(ContainSubstring("--" + u.name))
	}
	g.Expect(out).To(ContainSubstring("--claim-max-wait duration\n"))
	g.Expect(out).To(ContainSubstring("(default 10s)"))
}

func TestTheStatesArePrinted(t *testing.T) {
	g := NewWithT(t)
	out, err := kiln("states")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(MatchRegexp(`ready +reserved +binding +kiln-state`))
	out, err = kiln("states", "mermaid")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("stateDiagram-v2"))
	g.Expect(out).To(ContainSubstring("ready --> binding: reserved"))
}

func TestAKubeconfigThatPointsNowhereIsAnErrorThatSaysWhere(t *testing.T) {
	g := NewWithT(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	host := "https://" + l.Addr().String()
	g.Expect(l.Close()).To(Succeed())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`, host), 0o600)).To(Succeed())
	_, err = kiln("controller", "--kubeconfig="+path, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	g.Expect(err).To(MatchError(And(ContainSubstring(host), ContainSubstring("does not answer"))))

	for _, line := range [][]string{{"--leader-elect=true", "--extensions"}, {"migrate"}, {"migrate", "--prune-stored-versions"}, {"crds", "install"}} {
		_, err := kiln(append(line, "--kubeconfig="+path)...)
		g.Expect(err).To(MatchError(ContainSubstring("does not answer")), "%v reaches for the API server", line)
	}

	_, err = kiln("controller", "--kubeconfig="+path+"-missing")
	g.Expect(err).To(MatchError(ContainSubstring("-missing")))
}

func TestCRDsOfThisVersionFitAndOlderOnesAreNamed(t *testing.T) {
	for _, raw := range crds.Manifests() {
		g := NewWithT(t)
		crd := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal(raw, &crd.Object)).To(Succeed())
		g.Expect(checkCRD(crd)).To(Succeed())
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		g.Expect(err).NotTo(HaveOccurred())
		if path := telling[crd.GetName()]; path != nil {
			unstructured.RemoveNestedField(versions[0].(map[string]any), append([]string{"schema", "openAPIV3Schema"}, path...)...)
			g.Expect(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")).To(Succeed())
			g.Expect(checkCRD(crd)).To(MatchError(And(ContainSubstring(crd.GetName()), ContainSubstring("older shape"))))
		}
		g.Expect(unstructured.SetNestedSlice(crd.Object, nil, "spec", "versions")).To(Succeed())
		g.Expect(checkCRD(crd)).To(MatchError(ContainSubstring("no version v1beta1")))
	}
}

func TestSandboxesAloneNeedOnlyTheirOwnCRD(t *testing.T) {
	g := NewWithT(t)
	s, err := parse([]string{"--extensions=false"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(needed(s)).To(Equal([]string{crds.Sandboxes}))
	s, err = parse(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(needed(s)).To(HaveLen(4))
}

func TestScenariosStandBeforeAndAfterFlags(t *testing.T) {
	g := NewWithT(t)
	b, err := parseBench(strings.Fields("burst --claims 7 serial --rates=1,2.5 --pools=3,4 --processes=etcd=7,kiln --keep"))
	g.Expect(err).NotTo(HaveOccurred())
	o := b.options
	g.Expect(o.Scenarios).To(Equal([]string{"burst", "serial"}))
	g.Expect(o.Claims).To(Equal(7))
	g.Expect(o.Rates).To(Equal([]float64{1, 2.5}))
	g.Expect(o.Pools).To(Equal([]int{3, 4}))
	g.Expect(o.Processes).To(Equal([]string{"etcd=7", "kiln"}))
	g.Expect(o.Keep).To(BeTrue())
	b, err = parseBench(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.options).To(Equal(bench.Defaults()))
}

func TestTheHelpOfTheBenchmarkNamesEveryScenario(t *testing.T) {
	g := NewWithT(t)
	help, err := kiln("bench", "--help")
	g.Expect(err).NotTo(HaveOccurred())
	for _, scenario := range bench.Scenarios {
		g.Expect(help).To(ContainSubstring("\n  " + scenario + " "))
	}
	g.Expect(help).To(ContainSubstring("--rates list\n        list of the rates of sweep (default 5,10,15,20,25,30,40,50)"))
}

func TestReportsAreComparedOnTheCommandLine(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	for name, p50 := range map[string]float64{"a": 30, "b": 15} {
		r := bench.Report{Rounds: []bench.Round{{Results: []bench.Result{{Scenario: "burst", Latency: bench.Latency{P50: p50}}}}}}
		g.Expect(r.WriteFile(filepath.Join(dir, name))).To(Succeed())
	}
	said, err := kiln("bench", "compare", filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(said).To(MatchRegexp(`burst +p50 ms +30.0 +15.0 +0.50 +0.50-0.50 +1`))
	_, err = kiln("bench", "compare", filepath.Join(dir, "a"), filepath.Join(dir, "none"))
	g.Expect(err).To(MatchError(ContainSubstring("no such file")))
}

func TestABrokenPromiseIsAnErrorAndItsReportIsWritten(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	b := benchmark{options: bench.Defaults(), out: filepath.Join(dir, "r.json"), html: filepath.Join(dir, "r.html"), join: true}
	r := &bench.Report{Rounds: []bench.Round{{Results: []bench.Result{{Scenario: "burst", Checks: bench.Checks{DoubleHeld: 1}}}}}}
	var out bytes.Buffer
	for n := range 2 {
		one := *r
		g.Expect(b.report(&one, &out)).To(MatchError(ContainSubstring("double_held 1")))
		written, err := bench.ReadReport(b.out)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(written.Rounds).To(HaveLen(n + 1))
	}
	g.Expect(b.html).To(BeARegularFile())
	r.Rounds[0].Results[0].Checks = bench.Checks{}
	g.Expect(b.report(r, &out)).To(Succeed())
}
