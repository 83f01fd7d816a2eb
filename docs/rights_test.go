package docs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of rights in docs/security.md")

// A right is something that the controller may do, as the chart says.
type right struct {
	Why, Where string
	Rule       struct{ APIGroups, Resources, Verbs, ResourceNames []string }
}

// The table of what the controller may do is made of what it may do.
func TestTheTableOfRightsIsTheRights(t *testing.T) {
	var rights []right
	into(t, &rights, "helm", "kiln", "files", "rights.yaml")
	if len(rights) == 0 {
		t.Fatal("no rights were found")
	}
	var table strings.Builder
	table.WriteString("| where | what | verbs | why |\n|---|---|---|---|\n")
	for _, r := range rights {
		what := strings.Join(r.Rule.Resources, ", ")
		if group := r.Rule.APIGroups[0]; group != "" {
			what += " (" + group + ")"
		}
		if names := r.Rule.ResourceNames; len(names) == 1 {
			what += " `" + names[0] + "`"
		} else if len(names) > 1 {
			what += fmt.Sprintf(", the %d of Kiln", len(names))
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", r.Where, what, strings.Join(r.Rule.Verbs, ", "), r.Why)
	}
	text := content(t, "docs", "security.md")
	between := regexp.MustCompile(`(?s)(<!-- rights -->\n)(.*)(<!-- /rights -->)`)
	if *update {
		text = between.ReplaceAllString(text, "${1}"+strings.ReplaceAll(table.String(), "$", "$$")+"${3}")
		if err := os.WriteFile(at("docs", "security.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := between.FindStringSubmatch(text); got == nil || got[2] != table.String() {
		t.Errorf("the table is not\n%s\nrun this test with -update", table.String())
	}
}
