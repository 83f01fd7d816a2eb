package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// options are the flags of kiln by its commands, as its source declares them.
func options(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(at("cmd", "kiln", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			command, flags := declared(d)
			all[command] = append(all[command], flags...)
		}
	}
	all["controller"] = append(all["controller"], all[""]...)
	delete(all, "")
	return all
}

// declared are the flags that a declaration adds to a command. A list of flags that is
// no function's is that of the controller.
func declared(d ast.Decl) (command string, flags []string) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Names[0].Name == "unused" {
				for _, row := range n.Values[0].(*ast.CompositeLit).Elts {
					flags = append(flags, literal(row.(*ast.CompositeLit).Elts[0]))
				}
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) < 2 {
				return true
			}
			of, _ := f.X.(*ast.Ident)
			switch {
			case of == nil:
			case f.Sel.Name == "NewFlagSet":
				command = strings.TrimPrefix(literal(n.Args[0]), "kiln ")
			case of.Name == "f" && strings.HasSuffix(f.Sel.Name, "Var"):
				flags = append(flags, literal(n.Args[1]))
			case of.Name == "f":
				flags = append(flags, literal(n.Args[0]))
			}
		}
		return true
	})
	return command, slices.DeleteFunc(flags, func(f string) bool { return f == "" })
}

// literal is a string as it is written, or nothing.
func literal(x ast.Expr) string {
	if l, ok := x.(*ast.BasicLit); ok && l.Kind == token.STRING {
		return strings.Trim(l.Value, "`\"")
	}
	return ""
}

// others are flags that documents name alone and that are no flag of one command.
var others = map[string]string{"help": "every command's", "create-namespace": "helm's", "reuse-values": "helm's",
	"etcd-servers-overrides": "the API server's"}

var option = regexp.MustCompile(`^--([A-Za-z0-9-]+)`)

func TestEveryFlagThatIsNamedIsOne(t *testing.T) {
	all := options(t)
	for _, command := range []string{"controller", "crds", "migrate", "bench", "probe"} {
		if len(all[command]) == 0 {
			t.Fatalf("no flags of kiln %s were found", command)
		}
	}
	each(t, func(t *testing.T, p *page) {
		for _, s := range p.spans {
			m := option.FindStringSubmatch(s.text)
			if m == nil || others[m[1]] != "" {
				continue
			}
			known := false
			for _, flags := range all {
				known = known || slices.Contains(flags, m[1])
			}
			if !known {
				p.wrong(t, s, "there is no %s", m[0])
			}
		}
		for _, l := range p.lines() {
			for _, words := range l.commands() {
				command, flags := called(words)
				for _, f := range flags {
					if f != "help" && !slices.Contains(all[command], f) {
						p.wrong(t, l, "kiln %s has no --%s", command, f)
					}
				}
			}
		}
	})
}

// called is the command of kiln that words call, and the flags that they give it.
func called(words []string) (command string, flags []string) {
	if words[0] != "kiln" && words[0] != "bin/kiln" || len(words) < 2 {
		return "", nil
	}
	command = "controller"
	if !strings.HasPrefix(words[1], "-") {
		command = words[1]
	}
	for _, w := range words[1:] {
		if m := option.FindStringSubmatch(w); m != nil {
			flags = append(flags, m[1])
		}
	}
	return command, flags
}

func TestEveryFlagOfTheControllerIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "docs/") {
			continue
		}
		for _, s := range p.spans {
			if m := option.FindStringSubmatch(s.text); m != nil {
				documented[m[1]] = true
			}
		}
	}
	for _, f := range options(t)["controller"] {
		if !documented[f] {
			t.Errorf("no page of docs has --%s", f)
		}
	}
}

func TestEveryCommandOfKilnIsOne(t *testing.T) {
	known := []string{"controller", "crds", "migrate", "bench", "probe", "states", "version"}
	usage := content(t, "cmd", "kiln", "main.go")
	for _, command := range known {
		if !strings.Contains(usage, `case "`+command+`"`) {
			t.Errorf("kiln has no command %s", command)
		}
	}
	each(t, func(t *testing.T, p *page) {
		for _, l := range p.lines() {
			for _, words := range l.commands() {
				if command, _ := called(words); command != "" && !slices.Contains(known, command) {
					p.wrong(t, l, "kiln has no command %s", command)
				}
			}
		}
	})
}

func TestEveryTargetOfMakeIsOne(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(content(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	each(t, func(t *testing.T, p *page) {
		for _, l := range p.lines() {
			for _, words := range l.commands() {
				if words[0] != "make" || len(words) < 2 || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(words[1]) {
					continue
				}
				if !targets[words[1]] {
					p.wrong(t, l, "there is no make %s", words[1])
				}
			}
		}
	})
}

// The blocks that are marked so can be pasted into a shell.
func TestEveryBlockForAShellParses(t *testing.T) {
	n := 0
	each(t, func(t *testing.T, p *page) {
		for _, b := range p.blocks {
			if b.language != "sh" {
				continue
			}
			n++
			command := exec.Command("sh", "-n")
			command.Stdin = strings.NewReader(b.text)
			if said, err := command.CombinedOutput(); err != nil {
				p.wrong(t, b, "%v: %s", err, said)
			}
		}
	})
	if n == 0 {
		t.Error("there is no block for a shell")
	}
}

// A definition is what kubectl knows of a kind.
type definition struct {
	Spec struct {
		Group string
		Names struct {
			Kind, Plural, Singular string
			ShortNames             []string
		}
		Versions []struct {
			Schema struct{ OpenAPIV3Schema *schema }
		}
	}
}

func definitions(t *testing.T) (all []definition) {
	t.Helper()
	files, err := filepath.Glob(at("crds", "*", "v1beta1", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		var d definition
		into(t, &d, strings.TrimPrefix(path, at()))
		all = append(all, d)
	}
	if len(all) != 4 {
		t.Fatalf("%d definitions were found", len(all))
	}
	return all
}

// builtin are the resources of Kubernetes that documents name, as kubectl takes them.
var builtin = []string{
	"pod", "pods", "service", "serviceaccount", "networkpolicy", "networkpolicies", "deployment", "job", "lease", "crd", "pvc", "namespace", "events", "clusterrole", "clusterrolebinding",
}

// kinds are the resources that kubectl may be asked for.
func kinds(t *testing.T) []string {
	t.Helper()
	all := slices.Clone(builtin)
	for _, d := range definitions(t) {
		n := d.Spec.Names
		all = append(append(all, n.Plural, n.Singular, n.Plural+"."+d.Spec.Group), n.ShortNames...)
	}
	return all
}

func TestKubectlIsAskedForWhatThereIs(t *testing.T) {
	known, n := kinds(t), 0
	var crds []string
	for _, d := range definitions(t) {
		crds = append(crds, d.Spec.Names.Plural+"."+d.Spec.Group)
	}
	each(t, func(t *testing.T, p *page) {
		for _, l := range p.lines() {
			for _, words := range l.commands() {
				if words[0] != "kubectl" {
					continue
				}
				resources, names := asked(words[1:])
				for _, r := range resources {
					n++
					if !slices.Contains(known, r) {
						p.wrong(t, l, "kubectl knows no %q", r)
					}
				}
				if slices.Equal(resources, []string{"crd"}) {
					for _, name := range names {
						if !slices.Contains(crds, name) {
							p.wrong(t, l, "there is no definition %s", name)
						}
					}
				}
			}
		}
	})
	if n < 20 {
		t.Errorf("kubectl is asked for %d resources: the reader does not see them", n)
	}
}

// about are the commands of kubectl whose first argument is a resource.
var about = []string{"get", "describe", "delete", "wait", "patch", "edit", "scale", "label", "annotate", "explain", "logs", "status"}

// asked are the resources that a call of kubectl is about, and the names after them.
func asked(words []string) (resources, names []string) {
	var plain []string
	for i := 0; i < len(words); i++ {
		switch {
		case slices.Contains([]string{"-n", "-l", "-L", "-o", "-f", "-p", "-c"}, words[i]):
			i++ // its value
		case !strings.HasPrefix(words[i], "-"):
			plain = append(plain, words[i])
		}
	}
	if len(plain) > 0 && plain[0] == "rollout" {
		plain = plain[1:]
	}
	if len(plain) < 2 || !slices.Contains(about, plain[0]) {
		return nil, nil
	}
	for _, one := range strings.Split(plain[1], ",") {
		resource, _, _ := strings.Cut(one, "/")
		resources = append(resources, resource)
	}
	return resources, plain[2:]
}
