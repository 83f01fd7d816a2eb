package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of flags in docs/install.md")

// The table of flags is made of the flags, those without effect included.
func TestTheTableOfFlagsIsTheFlags(t *testing.T) {
	var table strings.Builder
	table.WriteString("| flag | default | what |\n|---|---|---|\n")
	(&settings{}).flags().VisitAll(func(f *flag.Flag) {
		if f.Usage == "" {
			return
		}
		fallback, what := "", strings.ReplaceAll(f.Usage, "`", "")
		if f.DefValue != "" {
			fallback = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", f.Name, fallback, what)
	})
	table.WriteString("\nAccepted, so that a Deployment of the agent-sandbox controller starts as it is, and without effect:\n\n| flag | why |\n|---|---|\n")
	for _, u := range unused {
		fmt.Fprintf(&table, "| `--%s` | %s |\n", u.name, u.why)
	}
	const path, start, end = "../../docs/install.md", "<!-- generated: flags -->\n", "<!-- end: flags -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(text), start)
	is, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no markers for the flags", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+start+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if is != table.String() {
		t.Errorf("%s is out of date (go test ./cmd/kiln -update); it should read:\n%s", path, table.String())
	}
}
