package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

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
		"controller --zap-log-level=loud":                   "debug, info, warn or error",
		"controller --zap-encoder=xml":                      "json or console",
		"controller --leader-elect=perhaps":                 "leader-elect",
		"states sculpture":                                  "text or mermaid",
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
		--disable-claim-events --disable-claim-observability-annotations --sandbox-warm-pool-readiness-grace-period=5m`))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
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

func TestLabelDomainsComeFromAFileThatMayBeMissing(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "domains")
	domains, err := readDomains(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(domains).To(BeEmpty())
	g.Expect(os.WriteFile(path, []byte("a.example\nb.example, c.example\n\n"), 0o600)).To(Succeed())
	domains, err = readDomains(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(domains).To(Equal([]string{"a.example", "b.example", "c.example"}))
}
