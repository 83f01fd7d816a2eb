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
	from, lastTake, to := takes[0].Begun, takes[burst-1].Begun, int64(0)
	told := 0
	for _, tell := range tells {
		to = max(to, tell.Ended)
		if tell.Ended < lastTake {
			told++
		}
	}
	if told < burst/2 {
		t.Errorf("%d of %d claims were told when the last one was taken for: telling waits for taking", told, burst)
	}
	for class, writes := range map[string][]kit.Write{
		"warm":  written(c, "sandbox create", "pod create", "pod ready"),
		"trail": written(c, "claim annotate", "event event", "poolstatus report"),
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
