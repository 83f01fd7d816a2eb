package suite

import (
	"fmt"
	"testing"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// Each of two controllers is kept in turn from seeing the template, and now and
// then is not told what became of a write, while the template changes and claims
// arrive. What one gives up the other must not give away.
func TestTwoLeadersAtOnceGiveNoOlderSandboxAway(t *testing.T) {
	t.Parallel()
	const size, changes, each = 4, 6, 3
	w := kit.New(t)
	leaders := []*kit.Controller{w.Controller(), w.Controller()}
	w.Create(kit.Template("t"), kit.Recreating(kit.Pool("p", size)))
	w.Await(kit.Full("p", size))
	for _, c := range leaders {
		for i := range 3 {
			c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Skip: 3 * i, Do: kit.LoseAnswer})
			c.Wire.Inject(kit.Fault{On: kit.On("claimstatus", "bound"), Skip: 4 * i, Do: kit.LoseAnswer})
			c.Wire.Inject(kit.Fault{On: kit.On("claimstatus", "refuse"), Skip: i, Do: kit.LoseAnswer})
		}
	}
	age := map[string]int{w.Revision("t"): 0} // of each revision
	since := map[string]int{}                 // the revision there was when a claim was made
	var claims []string
	for change := 1; change <= changes; change++ {
		blind := leaders[change%2].Valves
		blind.Shut("sandboxtemplates")
		age[w.Retemplate("t", fmt.Sprint("image:", change))] = change
		for i := range each {
			name := fmt.Sprintf("a%d-%d", change, i)
			claims = append(claims, name)
			since[name] = change
			w.Create(kit.Claim(name, "p"))
		}
		w.Await(holds(claims[len(claims)-1]))
		blind.Open()
	}
	w.Await(kit.Right("p", size, claims...), kit.Noted(claims...))
	for _, claim := range claims {
		if got := age[w.Sandbox(w.Told(claim)).Labels[apply.LabelRevision]]; got < since[claim] {
			t.Errorf("claim %s was made after change %d of the template, and got a sandbox of change %d", claim, since[claim], got)
		}
	}
}
