package kit

import (
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kiln-sandbox/kiln/test/world"
)

// Replay writes what another program wrote, step by step, as a file has it, and returns when
// all of it was seen. Renamed are pairs of a text in the file and what to read instead of it.
func (w *World) Replay(path string, renamed ...string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	text = []byte(strings.NewReplacer(renamed...).Replace(string(text)))
	c, err := dynamic.NewForConfig(server.config)
	if err != nil {
		w.t.Fatal(err)
	}
	err = world.Replay(w.ctx, c, w.Namespace, text, func(o *unstructured.Unstructured) error {
		if o.GetKind() != "Service" { // nobody records those
			w.Await(world.Seen(o))
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
}
