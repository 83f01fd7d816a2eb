package suite

import (
	"fmt"
	"testing"

	"github.com/kiln-sandbox/kiln/test/world"
)

// A claim that waits says why once, however often it is woken meanwhile.
func TestAClaimThatWaitsWritesItsReasonOnce(t *testing.T) {
	const n, wakes = 6, 4
	w, c := cold(t, n)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("c", i))
		w.Create(world.Claim(names[i], "p"))
	}
	for _, name := range names {
		w.Await(world.ClaimSays(name, "AdoptionPending", "one is starting"))
	}
	looks := func() int {
		return c.Counts().Sum(func(k world.Counter) bool { return k.Kind == "claimstatus" && k.Edge == "report" })
	}
	for i := range wakes {
		before := looks()
		w.PatchPool("p", fmt.Sprintf(`{"replicas":%d}`, n+1+i)) // it wakes all of them
		w.Await(pending(n+1+i), func(*world.Snapshot) error {
			if looks() < before+n {
				return errWaits
			}
			return nil
		}, c.Settled())
	}
	said := c.Wire.Count("claimstatus", "binding")
	t.Logf("%d claims wait and have looked again %d times; they have written why %d times", n, looks(), said)
	if said != n {
		t.Errorf("want one write of each")
	}
	w.Kubelet.Release()
	w.Await(world.Converged("p", n+wakes, names...))
	if all := c.Wire.Count("claimstatus", "binding") + c.Wire.Count("claimstatus", "bound"); all != 2*n {
		t.Errorf("%d writes of the status of %d claims, want one for the wait and one for the end of it", all, n)
	}
}
