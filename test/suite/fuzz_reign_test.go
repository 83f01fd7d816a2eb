package suite

import (
	"math/rand/v2"
	"sync"

	"github.com/kiln-sandbox/kiln/test/kit"
)

// A reign is the controllers that serve the worlds of a fuzz. One leads, and now and
// then two at once, of which neither knows: a lease does not keep that from happening.
type reign struct {
	host   *kit.World
	served []*kit.World

	mu   sync.Mutex
	all  []*kit.Controller // all that ever led
	lead []*kit.Controller
}

// begin has the first controller lead.
func (r *reign) begin() { r.rest(func() {}) }

// over has what the controllers do judged in these worlds.
func (r *reign) over(worlds ...*kit.World) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range worlds {
		for _, c := range r.all {
			w.Host(c)
		}
	}
	r.served = append(r.served, worlds...)
}

// serve has what a controller does judged in all worlds.
func (r *reign) serve(c *kit.Controller) *kit.Controller {
	r.all = append(r.all, c)
	for _, w := range r.served {
		w.Host(c)
	}
	return c
}

// change has another controller lead: after its predecessor, in the place of one that
// died, or beside it.
func (r *reign) change(rnd *rand.Rand) (how string) {
	how = []string{"follows", "follows one that died", "leads, too"}[rnd.IntN(3)]
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.serve(r.host.Standby(everywhere))
	switch how {
	case "follows":
		r.end()
	case "follows one that died":
		for _, c := range r.lead {
			c.Crash()
		}
		r.end()
	default:
		for len(r.lead) > 1 {
			r.lead[0].Stop()
			r.lead = r.lead[1:]
		}
	}
	next.Lead()
	r.lead = append(r.lead, next)
	return how
}

// rest has nobody lead while something is done. The next one comes without a view.
func (r *reign) rest(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end()
	// Also if a test ends there: the others want a leader.
	defer func() { r.lead = []*kit.Controller{r.serve(r.host.Controller(everywhere))} }()
	do()
}

// end stops whoever leads.
func (r *reign) end() {
	for _, c := range r.lead {
		c.Stop()
	}
	r.lead = nil
}
