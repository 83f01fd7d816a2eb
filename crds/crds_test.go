package crds_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/crds"
)

// A node is any part of a parsed manifest.
type node = any

// dig goes down a path of keys and indexes; a step that leads nowhere is nil.
func dig(n node, path string) node {
	for _, step := range strings.Split(path, "/") {
		switch at := n.(type) {
		case map[string]any:
			n = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return nil
			}
			n = at[i]
		default:
			return nil
		}
	}
	return n
}

// read parses the manifests, by name.
func read(t *testing.T) map[string]node {
	t.Helper()
	docs := map[string]node{}
	for i, doc := range crds.Manifests() {
		var n node
		if err := yaml.UnmarshalStrict(doc, &n); err != nil {
			t.Fatal(err)
		}
		docs[crds.Names()[i]] = n
	}
	return docs
}

const (
	version = "spec/versions/0/"
	fields  = version + "schema/openAPIV3Schema/properties/"
	spec    = fields + "spec/properties/"
	status  = fields + "status/properties/"
)

func TestManifestsAreFourKindsInOneVersion(t *testing.T) {
	g := NewWithT(t)
	g.Expect(crds.Manifests()).To(HaveLen(4))
	for name, n := range read(t) {
		g.Expect(dig(n, "metadata/name")).To(Equal(name))
		g.Expect(dig(n, "spec/scope")).To(Equal("Namespaced"))
		g.Expect(dig(n, "spec/versions")).To(HaveLen(1), name)
		g.Expect(dig(n, version+"name")).To(Equal("v1beta1"))
		g.Expect(dig(n, version+"served")).To(BeTrue())
		g.Expect(dig(n, version+"storage")).To(BeTrue())
	}
}

// The columns of the agent-sandbox controller keep their positions, and Kiln's own come
// behind them: scripts count columns.
func TestShortNamesAndColumns(t *testing.T) {
	docs := read(t)
	for name, want := range map[string][]string{
		crds.Sandboxes:        {"sandbox", "Ready", "Reason", "Age", "Owner-Kind", "Owner"},
		crds.SandboxClaims:    {"sandboxclaim", "Ready", "Sandbox", "Reason", "Age", "State"},
		crds.SandboxWarmPools: {"swp", "Ready", "Desired", "Age", "Warming", "Stale", "Updated"},
		crds.SandboxTemplates: {"sandboxtemplate"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(dig(docs[name], "spec/names/shortNames")).To(ConsistOf(want[0]))
			columns, _ := dig(docs[name], version+"additionalPrinterColumns").([]any)
			got := want[:1:1]
			for _, c := range columns {
				got = append(got, dig(c, "name").(string))
			}
			g.Expect(got).To(Equal(want))
		})
	}
}

func TestSubresources(t *testing.T) {
	g := NewWithT(t)
	docs := read(t)
	g.Expect(dig(docs[crds.Sandboxes], version+"subresources")).To(Equal(map[string]any{"status": map[string]any{}}))
	g.Expect(dig(docs[crds.SandboxClaims], version+"subresources")).To(Equal(map[string]any{"status": map[string]any{}}))
	g.Expect(dig(docs[crds.SandboxTemplates], version+"subresources")).To(BeNil())
	g.Expect(dig(docs[crds.SandboxWarmPools], version+"subresources/scale")).To(Equal(map[string]any{
		"specReplicasPath":   ".spec.replicas",
		"statusReplicasPath": ".status.replicas",
		"labelSelectorPath":  ".status.selector",
	}))
}

func TestManifestsFitInTheAnnotationOfKubectlApply(t *testing.T) {
	g := NewWithT(t)
	for name, n := range read(t) {
		raw, err := json.Marshal(n)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(raw)).To(BeNumerically("<", 256<<10), name)
	}
}
