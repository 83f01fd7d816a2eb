package kit

import (
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kiln-sandbox/kiln/test/world"
)

// Replay writes what another program wrote, step by step, as a file has it, and returns when
// all of it was seen.
func (w *World) Replay(path string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
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
