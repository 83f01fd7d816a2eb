package chart

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The agent-sandbox controller's chart may make the namespace. Then who uninstalls it deletes the namespace, with Kiln in it.
func TestTheNamespaceOfAnotherReleaseIsToldAndCanBeTakenOutOfIt(t *testing.T) {
	g := NewWithT(t)
	chart := at("test", "e2e", "testdata", "incumbent")
	said, err := tool(setup.helm, "install", "agent-sandbox", chart, "-n", "default", "--set", "namespace.name=theirs")
	g.Expect(err).NotTo(HaveOccurred(), said)
	// Other tests leave roles named kiln.
	told, err := tool(setup.helm, "install", "kiln", at("helm", "kiln"), "-n", "theirs", "--dry-run=server", "--set", "nameOverride=own")
	g.Expect(err).NotTo(HaveOccurred(), told)
	g.Expect(told).To(ContainSubstring("WARNING: namespace theirs is a part of the release agent-sandbox."))
	_, told, _ = strings.Cut(told, "WARNING")
	var commands []string
	for line := range strings.Lines(told) {
		if strings.HasPrefix(line, "kubectl ") || strings.HasPrefix(line, "helm ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	g.Expect(commands).To(HaveLen(2), told)
	for _, c := range commands {
		c = strings.NewReplacer("kubectl", setup.cluster.Kubectl, "helm upgrade", setup.helm+" upgrade", "CHART", chart).Replace(c)
		said, err := tool("sh", "-c", c)
		g.Expect(err).NotTo(HaveOccurred(), said)
	}
	said, err = tool(setup.helm, "uninstall", "agent-sandbox", "-n", "default")
	g.Expect(err).NotTo(HaveOccurred(), said)
	said, err = tool(setup.cluster.Kubectl, "get", "namespace", "theirs", "-o", "jsonpath={.status.phase}{.metadata.deletionTimestamp}")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).To(Equal("Active"))
	said, err = tool(setup.cluster.Kubectl, "-n", "theirs", "get", "deployment", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).NotTo(ContainSubstring("agent-sandbox-controller"), "all else of that release is gone")
}
