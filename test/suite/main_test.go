// Package suite tells the stories of Kiln on a real API server: what happens
// when all goes well, and what happens when anything else does.
package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

// started is a world with a controller and a full pool p of a size.
func started(t *testing.T, size int32) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(kit.Template("t"), kit.Pool("p", size))
	w.Await(kit.Full("p", int(size)))
	return w, c
}

// cold is a world like that whose pods stay pending until they are released.
func cold(t *testing.T, size int32) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	w.Kubelet.Hold()
	c := w.Controller()
	w.Create(kit.Template("t"), kit.Pool("p", size))
	w.Await(pending(int(size)))
	return w, c
}

// pending wishes for the pool p to have a number of members, each with a pod.
func pending(n int) kit.Wish {
	return func(s *kit.Sight) error {
		if len(s.Members("p")) != n || len(s.Pods) != n {
			return errWaits
		}
		return nil
	}
}
