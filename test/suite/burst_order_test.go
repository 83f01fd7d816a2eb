package suite

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// In a burst claims come first. All claims are there before anybody works, so that from
// the first that is taken for to the last that is told one or another is always owed an
// answer. What refills the pool, and what nobody waits for, goes one by one meanwhile.
func TestInABurstNothingGoesBesideTheClaimsButWhatKeepsTheOthersAlive(t *testing.T) {
	t.Parallel()
	const burst = 80
	w := kit.New(t)
	first := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", burst))
	w.Await(resting(first, burst))
	first.Stop()
	var claims []string
	for i := range burst {
		claims = append(claims, fmt.Sprint("c", i))
		w.Create(world.Claim(claims[i], "p"))
	}
	c := w.Controller()
	w.Await(world.Converged("p", burst, claims...), world.Annotated(claims...))

	takes, tells := written(c, "sandbox adopt"), written(c, "claimstatus bound")
	if len(takes) != burst || len(tells) != burst {
		t.Fatalf("%d claims took a sandbox and %d were told, of %d", len(takes), len(tells), burst)
	}
	from, to := takes[0].Begun, int64(0)
	for _, tell := range tells {
		to = max(to, tell.Ended)
	}
	if between := overtaken(takes, tells); between[burst*3/4] > takesAtOnce {
		t.Errorf("telling waits for taking: so many claims took a sandbox between another's two writes: %v", between)
	}
	for class, writes := range map[string][]kit.Write{
		"warm": written(c, "sandbox create", "pod create", "sandboxstatus report", "pod ready", "pod warming"),
		"trail": written(c, "claim annotate", "event event", "poolstatus report", "sandbox retire", "pod stale", "sandbox delete",
			"template label"),
	} {
		within := slices.DeleteFunc(writes, func(r kit.Write) bool { return r.Begun < from || r.Begun > to })
		if len(within) == 0 {
			t.Errorf("nothing of class %s was written while claims waited: it starves", class)
		}
		for _, r := range within {
			if beside := beside(within, r); len(beside) > 0 {
				t.Errorf("class %s is wider than its least while claims wait, at %d: %s %s %s\n  beside %v", class, r.Begun, r.Kind, r.Verb, r.Name, beside)
				break
			}
		}
	}
}

// takesAtOnce is how many sandboxes are taken at once. A claim that has taken one goes
// before all that wait to take, and so more than these begin between its two writes only
// when its own step is late.
const takesAtOnce = 12

// overtaken is, for each claim, how many others went to take a sandbox between its own two
// writes; in order of size.
func overtaken(takes, tells []kit.Write) (all []int) {
	for _, tell := range tells {
		at := slices.IndexFunc(takes, func(r kit.Write) bool { return r.Owner.UID == tell.UID })
		n := 0
		for _, other := range takes {
			if other.Begun > takes[at].Ended && other.Begun < tell.Begun {
				n++
			}
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// written are the writes of some kinds and verbs, in the order in which they began.
func written(c *kit.Controller, what ...string) (all []kit.Write) {
	for _, r := range c.Wire.Writes() {
		if slices.Contains(what, r.Kind+" "+r.Verb) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b kit.Write) int { return cmp.Compare(a.Begun, b.Begun) })
	return all
}

// beside are the writes that were under way when another began, and had been for less
// than a second: one that takes longer has given its place away.
func beside(all []kit.Write, one kit.Write) (some []string) {
	for _, r := range all {
		if r.Begun < one.Begun && r.Ended > one.Begun && one.At.Sub(r.At) < time.Second {
			some = append(some, fmt.Sprintf("%s %s %s %d-%d", r.Kind, r.Verb, r.Name, r.Begun, r.Ended))
		}
	}
	return some
}
