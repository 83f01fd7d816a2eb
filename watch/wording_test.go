package watch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// worded are the reasons of conditions and Events that the users of the API read.
// Each kind words its own in its tables; what several kinds say is said in view.
var worded = map[string][]string{
	"WarmPoolNotFound":          {"claim/conditions.go"},
	"TemplateNotFound":          {"claim/conditions.go", "pool/conditions.go"}, // of the claim, and of the pool
	"AdoptionPending":           {"claim/conditions.go"},
	"InvalidMetadata":           {"claim/conditions.go"},
	"EnvVarsInjectionRejected":  {"claim/conditions.go"},
	"VolumeClaimTemplatesError": {"claim/conditions.go"},
	"SandboxNotReady":           {"claim/conditions.go"},
	"ClaimExpired":              {"claim/conditions.go"},
	"ChangeWithoutEffect":       {"claim/conditions.go"},
	"SandboxLost":               {"claim/conditions.go"},
	"SandboxAdopted":            {"claim/conditions.go"},
	"SandboxProvisioned":        {"claim/conditions.go"},
	"SandboxOutdated":           {"claim/conditions.go"},
	"DependenciesReady":         {"sandbox/conditions.go"},
	"DependenciesNotReady":      {"sandbox/conditions.go"},
	"MultiplePods":              {"sandbox/conditions.go"},
	"PodSucceeded":              {"sandbox/conditions.go"},
	"PodFailed":                 {"sandbox/conditions.go"},
	"PodTerminated":             {"sandbox/conditions.go"},
	"PodSchedulingUnknown":      {"sandbox/conditions.go"},
	"SandboxSuspended":          {"sandbox/conditions.go"},
	"NotSuspended":              {"sandbox/conditions.go"},
	"PodTerminating":            {"sandbox/conditions.go"},
	"PodNotOwned":               {"sandbox/conditions.go"},
	"PodStateUnknown":           {"sandbox/conditions.go"},
	"SandboxReady":              {"sandbox/occasions.go"},
	"SandboxPodCreated":         {"sandbox/occasions.go"},
	"SandboxPodCreateFailed":    {"sandbox/occasions.go"},
	"SandboxExpired":            {"view/view.go"},
	"InvalidConfiguration":      {"view/view.go"},
	"InvalidTemplate":           {"pool/conditions.go"},
	"TemplateUnreadable":        {"pool/conditions.go"},
	"SandboxRefused":            {"pool/conditions.go"},
	"PodRefused":                {"pool/conditions.go"},
	"AdoptionRefused":           {"pool/conditions.go"},
	"MembersEnd":                {"pool/conditions.go"},
	"Unschedulable":             {"pool/conditions.go"},
	"AsExpected":                {"pool/conditions.go"},
	"Complete":                  {"pool/conditions.go"},
	"Warming":                   {"pool/conditions.go"},
	"ScalingDown":               {"pool/conditions.go"},
	"RollingOut":                {"pool/conditions.go"},
	"Paused":                    {"pool/conditions.go"},
	"ProgressDeadlineExceeded":  {"pool/conditions.go"},
	"MembersReady":              {"pool/conditions.go"},
	"MembersNotReady":           {"pool/conditions.go"},
	"WarmPoolNotProgressing":    {"pool/conditions.go"},
	"WarmPoolProgressing":       {"pool/conditions.go"},
	"ReconcilerError":           {"view/view.go"},
	"NetworkPolicyRefused":      {"view/view.go"},
	"NetworkPolicyDeleted":      {"template/conditions.go"},
}

// literals calls visit with every string literal of the product's sources below.
func literals(t *testing.T, visit func(file, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				visit(filepath.ToSlash(path), text)
			}
			return true
		})
		return nil
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestNothingButTheTablesWordsAReason(t *testing.T) {
	in := map[string][]string{}
	literals(t, func(file, text string) {
		if _, ok := worded[text]; ok && !slices.Contains(in[text], file) {
			in[text] = append(in[text], file)
		}
	})
	for reason, files := range worded {
		NewWithT(t).Expect(in[reason]).To(ConsistOf(files), reason)
	}
}

// A reason that looks like one, in a table, and that the list above does not know.
func TestEveryRowOfTheTablesIsKnownHere(t *testing.T) {
	literals(t, func(file, text string) {
		if !strings.HasSuffix(file, "/conditions.go") || strings.ContainsAny(text, " %/.,:;=") || text == "" || text[0] < 'A' || text[0] > 'Z' {
			return
		}
		if slices.Contains([]string{"Adoption", "Provisioning", "Losing", "Reconciling", "Deleting", "Editing"}, text) {
			return // what an Event did
		}
		NewWithT(t).Expect(worded).To(HaveKey(text), file)
	})
}
