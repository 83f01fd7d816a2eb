package suite

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

	takes, hands, tells := written(c, "sandbox adopt"), written(c, "pod bound"), written(c, "claimstatus bound")
	if len(takes) != burst || len(hands) != burst || len(tells) != burst {
		t.Fatalf("%d claims took a sandbox, %d pods were handed over and %d claims were told, of %d", len(takes), len(hands), len(tells), burst)
	}
	from, to := takes[0].Begun, int64(0)
	for _, tell := range tells {
		to = max(to, tell.Ended)
	}
	sandboxOf := map[types.UID]string{}
	for _, r := range takes {
		sandboxOf[r.Owner.UID] = r.Name
	}
	handing, telling := overtaken(takes, hands, func(take, hand kit.Write) bool { return take.Name == hand.Name }),
		overtaken(takes, tells, func(take, tell kit.Write) bool { return take.Name == sandboxOf[tell.UID] })
	for i := range telling { // from the hand-over on
		telling[i] -= handing[i]
	}
	for what, between := range map[string][]int{"handing over": handing, "telling": telling} {
		if slices.Sort(between); between[burst*3/4] > 2*takesAtOnce {
			t.Errorf("%s waits for taking: so many claims took a sandbox before it and after the write before: %v", what, between)
		}
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
// before all that wait to take, so few more than these begin before its next write, while
// its own step is on its way there.
const takesAtOnce = 20

// overtaken is, for each claim in the order of the takes, how many others went to take a
// sandbox between its own take and a later write of its own.
func overtaken(takes, later []kit.Write, same func(take, one kit.Write) bool) (all []int) {
	for _, take := range takes {
		at := slices.IndexFunc(later, func(r kit.Write) bool { return same(take, r) })
		n := 0
		for _, other := range takes {
			if other.Begun > take.Ended && other.Begun < later[at].Begun {
				n++
			}
		}
		all = append(all, n)
	}
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
