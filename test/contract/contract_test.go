package contract

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

//go:generate go test . -run TestTheTableIsFresh -update

var update = flag.Bool("update", false, "write TABLE.md anew")

// real are the packages whose tests run on a real API server.
var real = []string{"suite", "process", "examples"}

func tests(t *testing.T) (all []Test) {
	t.Helper()
	for _, dir := range real {
		some, err := Tests(filepath.Join("..", dir))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(some).NotTo(BeEmpty(), dir)
		all = append(all, some...)
	}
	return all
}

func TestEveryLineOfTheContractHasATest(t *testing.T) {
	_, missing := Table(tests(t))
	for _, l := range missing {
		t.Errorf("%s: no test on a real API server compares %q", l.What, l.Texts)
	}
}

func TestTheTableIsFresh(t *testing.T) {
	table, _ := Table(tests(t))
	if *update {
		NewWithT(t).Expect(os.WriteFile("TABLE.md", []byte(table), 0o644)).To(Succeed())
	}
	committed, err := os.ReadFile("TABLE.md")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(string(committed)).To(Equal(table), "go generate ./contract writes it anew")
}

func TestAWordIsNotProvenByAnotherThatHoldsIt(t *testing.T) {
	g := NewWithT(t)
	proves := func(literal, text string) bool {
		return Test{literals: []string{literal}}.Proves(Line{Texts: []string{text}})
	}
	g.Expect(proves("PodFailed", "PodFailed")).To(BeTrue())
	g.Expect(proves("a Warning PodFailed Reconciling", "PodFailed")).To(BeTrue())
	g.Expect(proves("SandboxPodFailed", "PodFailed")).To(BeFalse())
	g.Expect(proves("agents.x-k8s.io/sandbox-name-hash", "agents.x-k8s.io/sandbox-name")).To(BeFalse())
	g.Expect(proves("Error seen: pod", "Error seen: ")).To(BeTrue())
	g.Expect(proves("Pod is Ready; Service Exists", "Pod is Ready")).To(BeTrue())
}
