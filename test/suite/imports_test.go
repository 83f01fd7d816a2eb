package suite

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

const module = "github.com/kiln-sandbox/kiln/"

// Who may know whom, one way only.
var rules = []rule{
	{
		"states is pure: it imports the standard library and looplab/fsm alone", "./states",
		func(path string, standard bool) bool {
			return !standard && path != module+"states" && !strings.HasPrefix(path, "github.com/looplab/fsm")
		},
	},
	{
		"the stories of states are text: they import the standard library alone", "./states/stories",
		func(path string, standard bool) bool { return !standard && path != module+"states/stories" },
	},
	{"crds knows nothing of states", "./crds/...", within("states", "apply", "watch", "cmd")},
	{"apply knows neither watch nor cmd", "./apply", within("watch", "cmd")},
	{"watch does not know cmd", "./watch/...", within("cmd")},
	{"view imports nothing of watch", "./watch/view", watchBut("view")},
	{"memory imports view alone", "./watch/memory", watchBut("memory", "view")},
	{"store imports view alone", "./watch/store", watchBut("store", "view")},
	{"shelf imports view, store and memory alone", "./watch/shelf", watchBut("shelf", "view", "store", "memory")},
	{"measure imports view, store, memory and shelf alone", "./watch/measure", watchBut("measure", "view", "store", "memory", "shelf")},
	{"loop imports no kind, no store and no shelf, only view", "./watch/loop", watchBut("loop", "view")},
	{"claims import no other kind", "./watch/claim", watchBut("claim", "view", "store", "memory", "shelf", "loop")},
	{"sandboxes import no other kind", "./watch/sandbox", watchBut("sandbox", "view", "store", "memory", "shelf", "loop")},
	{"pools import no other kind", "./watch/pool", watchBut("pool", "view", "store", "memory", "shelf", "loop")},
	{"templates import no other kind", "./watch/template", watchBut("template", "view", "store", "memory", "shelf", "loop")},
	{
		"states knows no traces", "./states/...",
		func(path string, _ bool) bool { return strings.HasPrefix(path, "go.opentelemetry.io/") },
	},
	{"apply makes spans by the API of OpenTelemetry alone", "./apply", exporting},
	{"watch makes spans by the API of OpenTelemetry alone", "./watch/...", exporting},
	{
		"controller-runtime stays in test", "./...",
		func(path string, _ bool) bool { return strings.HasPrefix(path, "sigs.k8s.io/controller-runtime") },
	},
}

// exporting means what keeps and sends spans: that is wired in cmd.
func exporting(path string, _ bool) bool {
	return slices.ContainsFunc([]string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "google.golang.org/grpc"},
		func(of string) bool { return path == of || strings.HasPrefix(path, of+"/") })
}

// A rule is a sentence about what some packages depend on.
type rule struct {
	says string
	// from are the packages, as go list takes them; not judges one dependency.
	from string
	not  func(path string, standard bool) bool
}

// watchBut means all packages of watch but some, and watch itself.
func watchBut(packages ...string) func(string, bool) bool {
	return func(path string, standard bool) bool {
		inner, _ := strings.CutPrefix(path, module+"watch/")
		return within("watch")(path, standard) && !slices.Contains(packages, inner)
	}
}

// within means the packages of some of our rooms.
func within(rooms ...string) func(string, bool) bool {
	return func(path string, _ bool) bool {
		for _, room := range rooms {
			if path == module+room || strings.HasPrefix(path, module+room+"/") {
				return true
			}
		}
		return false
	}
}

// list is what go list prints, word by word, a line for each package.
func list(t *testing.T, arguments ...string) (lines [][]string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", append([]string{"list"}, arguments...)...)
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

func TestTheRoomsKnowEachOtherOneWayOnly(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.says, func(t *testing.T) {
			for _, line := range list(t, "-deps", "-f", "{{.ImportPath}} {{.Standard}}", rule.from) {
				if rule.not(line[0], line[1] == "true") {
					t.Errorf("%s: %s imports %s", rule.says, rule.from, line[0])
				}
			}
		})
	}
}

func TestTheRoomsKnowTheKindsByTheControllerAlone(t *testing.T) {
	kind := within("watch/claim", "watch/sandbox", "watch/pool", "watch/template")
	for _, line := range list(t, "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "./...") {
		for _, path := range line[1:] {
			if kind(path, false) && line[0] != module+"watch" {
				t.Errorf("only the package watch imports a kind: %s imports %s", line[0], path)
			}
		}
	}
}
