// Package suite tells the stories of Kiln on a real API server: what happens
// when all goes well, and what happens when anything else does.
package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestMain(m *testing.M) { kit.Main(m) }

// started is a world with a controller and a full pool p of a size, at rest.
func started(t *testing.T, size int32) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", size))
	w.Await(resting(c, int(size)))
	return w, c
}

// cold is a world whose pods stay pending until they are released.
func cold(t *testing.T, size int32) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	w.Kubelet.Hold()
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", size))
	w.Await(pending(int(size)))
	return w, c
}
