package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of metrics is held against the registry by cmd/kiln; here is everything
// else that names one.
func TestEveryMetricThatIsNamedIsOne(t *testing.T) {
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:counter|gauge|histogram) \\|").FindAllStringSubmatch(content(t, "docs", "operations.md"), -1) {
		known[m[1]] = true
	}
	if len(known) < 20 {
		t.Fatalf("the table has %d metrics", len(known))
	}
	name := regexp.MustCompile(`\b(?:(?:kiln|agent_sandbox|workqueue|controller_runtime|rest_client|leader_election)_[a-z_]*[a-z]|agent_sandboxes)\b`)
	each(t, func(t *testing.T, p *page) {
		for _, one := range name.FindAllString(p.text, -1) {
			bare := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(one, "")
			if !known[one] && !known[bare] {
				t.Errorf("%s: there is no metric %s", p.path, one)
			}
		}
	})
}

// Every alert has a section that says what to do, links to it, and no section is about
// an alert that is gone.
func TestEveryAlertHasItsSection(t *testing.T) {
	doc := content(t, "docs", "operations.md")
	_, doc, _ = strings.Cut(doc, "\n## Alerts\n")
	doc, _, _ = strings.Cut(doc, "\n## ")
	sections := map[string]string{}
	for _, s := range strings.Split(doc, "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	alerts := strings.Split(content(t, "helm", "kiln", "files", "alerts.yaml"), "\n- alert: ")[1:]
	if len(alerts) == 0 {
		t.Fatal("no alerts were found")
	}
	for _, a := range alerts {
		name, rule, _ := strings.Cut(a, "\n")
		text, ok := sections[name]
		if !ok {
			t.Errorf("%s has no section", name)
		}
		if len(strings.Fields(text)) < 40 {
			t.Errorf("the section %s does not say what to do", name)
		}
		if want := "runbook_url: {{ $runbook }}" + anchor(name) + "\n"; !strings.Contains(rule+"\n", want) {
			t.Errorf("%s does not have %s", name, want)
		}
		delete(sections, name)
	}
	for name := range sections {
		t.Errorf("there is no alert %s", name)
	}
	if !strings.Contains(content(t, "helm", "kiln", "files", "alerts.yaml"), `/blob/main/docs/operations.md#" .Chart.Home`) {
		t.Error("the links lead to another page")
	}
}

// A schema is what is read of the schema of a value.
type schema struct {
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties *schema
}

// has reports whether a value of a schema has a field.
func (s *schema) has(path []string) bool {
	switch {
	case s == nil || len(path) == 0:
		return s != nil
	case s.Items != nil:
		return s.Items.has(path)
	case s.AdditionalProperties != nil:
		return true
	}
	return s.Properties[path[0]].has(path[1:])
}

var dotted = regexp.MustCompile(`^([a-z][A-Za-z]*(?:\[?\]?\.[a-zA-Z]+)*)(?:[=:].*)?$`)

// Values of the chart and fields of the API are named by their paths.
func TestEveryPathThatIsNamedIsAValueOrAField(t *testing.T) {
	var values map[string]any
	into(t, &values, "helm", "kiln", "values.yaml")
	var roots []*schema
	for _, d := range definitions(t) {
		roots = append(roots, d.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	seen := map[string]int{}
	each(t, func(t *testing.T, p *page) {
		for _, s := range append(given(p), p.spans...) {
			m := dotted.FindStringSubmatch(s.text)
			if m == nil || !strings.Contains(m[1], ".") {
				continue
			}
			path := strings.Split(strings.ReplaceAll(m[1], "[]", ""), ".")
			_, isValue := values[path[0]]
			switch {
			case isValue:
				seen["value"]++
				if !valued(values, path) {
					p.wrong(t, s, "the chart has no value %s", m[1])
				}
			case path[0] == "spec", path[0] == "status":
				seen["field"]++
				if !slices.ContainsFunc(roots, func(r *schema) bool { return r.has(path) }) {
					p.wrong(t, s, "no kind has %s", m[1])
				}
			}
		}
	})
	if seen["value"] < 20 || seen["field"] < 20 {
		t.Errorf("the reader sees only %v", seen)
	}
}

// given are the values that commands set.
func given(p *page) (all []place) {
	for _, l := range p.lines() {
		for _, words := range l.commands() {
			for i, w := range words {
				if w == "--set" && i+1 < len(words) {
					for _, one := range strings.Split(words[i+1], ",") {
						all = append(all, place{text: one, line: l.line})
					}
				}
			}
		}
	}
	return all
}

// valued reports whether the chart has a value. What is empty by default may be anything.
func valued(values map[string]any, path []string) bool {
	is, ok := values[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	below, ok := is.(map[string]any)
	return ok && (len(below) == 0 || valued(below, path[1:]))
}

// A name of several words that is set as code is somewhere in the source: a kind, a
// field, a reason, a test, an environment variable.
func TestEveryNameIsInTheSource(t *testing.T) {
	word := regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*`)
	known := map[string]bool{}
	sources(t, []string{".go", ".yaml", ".tpl", "Makefile"}, func(_, text string) {
		for _, w := range word.FindAllString(text, -1) {
			known[w] = true
		}
	})
	humps := regexp.MustCompile(`^[A-Za-z][a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+$`)
	each(t, func(t *testing.T, p *page) {
		for _, s := range p.spans {
			if humps.MatchString(s.text) && !known[s.text] {
				p.wrong(t, s, "%s is nowhere in the source", s.text)
			}
		}
	})
}

// Every test that a page names is there, and so is one for every pattern.
func TestEveryTestThatIsNamedIsThere(t *testing.T) {
	declares := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T`)
	var all []string
	sources(t, []string{"_test.go"}, func(_, text string) {
		for _, m := range declares.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
	})
	name := regexp.MustCompile(`\bTest[A-Z]\w+`)
	each(t, func(t *testing.T, p *page) {
		for _, one := range name.FindAllString(p.text, -1) {
			if !slices.Contains(all, one) {
				t.Errorf("%s: there is no %s", p.path, one)
			}
		}
		for _, l := range p.lines() {
			for _, words := range l.commands() {
				p.runs(t, l, words, all)
			}
		}
	})
}

// runs holds what go test is told against the tests that there are.
func (p *page) runs(t *testing.T, at place, words, all []string) {
	if len(words) < 3 || words[0] != "go" || words[1] != "test" {
		return
	}
	for i, w := range words[2:] {
		switch {
		case w == "-run" && i+3 < len(words):
			pattern, err := regexp.Compile(words[i+3])
			if err != nil || !slices.ContainsFunc(all, pattern.MatchString) {
				p.wrong(t, at, "no test is run by %s", words[i+3])
			}
		case strings.HasPrefix(w, "./"):
			dir, _, _ := strings.Cut(strings.TrimSuffix(w, "/..."), " ")
			if !slices.ContainsFunc([]string{dir, "test/" + dir}, func(d string) bool { return isDir(d) }) {
				p.wrong(t, at, "there is no package %s", w)
			}
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(at(path))
	return err == nil && info.IsDir()
}

// Every threat names what shows that it is stood against.
func TestEveryThreatHasATest(t *testing.T) {
	_, table, _ := strings.Cut(content(t, "docs", "security.md"), "| threat |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 10 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(row, "`Test") {
			t.Errorf("no test is named: %s", row)
		}
	}
}
