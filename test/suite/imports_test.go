package suite

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

const module = "github.com/kiln-sandbox/kiln/"

// Who may know whom, one way only.
var rules = []struct {
	says string
	// from are the packages, as go list takes them; not judges one dependency.
	from string
	not  func(path string, standard bool) bool
}{
	{
		"states is pure: it imports the standard library and looplab/fsm alone", "./states",
		func(path string, standard bool) bool {
			return !standard && path != module+"states" && !strings.HasPrefix(path, "github.com/looplab/fsm")
		},
	},
	{"crds knows nothing of states", "./crds/...", within("states", "apply", "watch", "cmd")},
	{"apply knows neither watch nor cmd", "./apply", within("watch", "cmd")},
	{"watch does not know cmd", "./watch", within("cmd")},
	{
		"controller-runtime stays in test", "./...",
		func(path string, _ bool) bool { return strings.HasPrefix(path, "sigs.k8s.io/controller-runtime") },
	},
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

func TestTheRoomsKnowEachOtherOneWayOnly(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		t.Run(rule.says, func(t *testing.T) {
			list := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", rule.from)
			list.Dir = root
			out, err := list.Output()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(out)) {
				path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
				if rule.not(path, standard == "true") {
					t.Errorf("%s: %s imports %s", rule.says, rule.from, path)
				}
			}
		})
	}
}
