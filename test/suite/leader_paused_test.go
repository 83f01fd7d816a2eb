package suite

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A leader stands in the middle of a write, for longer than its lease. Another one
// brings everything to its end. Then the first goes on: the write that had begun
// arrives, and none begins after it.
func TestALeaderThatLostTheLeaseInTheMiddleOfAWriteBeginsNoOther(t *testing.T) {
	for _, row := range crashes {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			first, gate := w.Held(row.kind, row.verb)
			row.scenario.run(w, gate.Reached())
			w.Await(gate.Reached())
			first.LoseLease()
			w.Controller()
			end := world.Converged("p", int(row.scenario.size), row.scenario.claims...)
			w.Await(end, world.Annotated(row.scenario.claims...))
			begun := len(first.Wire.Writes())
			gate.Open()
			w.Await(first.Settled(), end)
			w.Create(world.Claim("later", "p"))
			w.Await(world.Bound("later"))
			NewWithT(t).Expect(first.Wire.Writes()).To(HaveLen(begun), "%s", first.Wire)
		})
	}
}

// The status of a pool is not guarded: whoever edits a pool would be in its way. What a
// deposed leader says of the past is put right by the one that sees it.
func TestAPoolStatusThatADeposedLeaderWritesLateIsPutRight(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	first, gate := w.Held("poolstatus", "report")
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(gate.Reached())
	first.LoseLease()
	w.Controller()
	w.Await(world.Full("p", 2))
	w.ChangeTemplate("t", "image:2")
	w.Scale("p", 3)
	now := world.All(world.Converged("p", 3), observes(w, "t"))
	w.Await(now)
	version := w.Pool("p").ResourceVersion
	gate.Open()
	w.Await(first.Settled(), func(s *world.Snapshot) error {
		if s.Pools["p"].ResourceVersion == version {
			return errors.New("the late status has not come")
		}
		return nil
	}, now)
}
