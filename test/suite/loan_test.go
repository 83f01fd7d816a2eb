package suite

import (
	"testing"

	"github.com/kiln-sandbox/kiln/test/world"
)

// As long as a claim is being told of a sandbox, its pool counts that sandbox. The claim
// ends meanwhile, and the pool has looked for the last time before the telling fails.
func TestAPoolRefillsWhenAHandOverEndsWithoutItsClaim(t *testing.T) {
	w, gate, _ := leaving(t)
	w.Await(func(s *world.Snapshot) error {
		if s.Pools["p"].Status.Replicas > 0 {
			return errWaits
		}
		return nil
	})
	gate.Open()
	w.Await(func(s *world.Snapshot) error { // the collector has nothing to do with it
		if len(s.Free("p")) == 0 {
			return errWaits
		}
		return nil
	})
	w.Collector.Resume()
	w.Await(world.Converged("p", 1))
}
