package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
	"github.com/kiln-sandbox/kiln/watch/pool"
)

// What things cost, as the product counts it: a new member of a pool; one warm
// claim, its replacement in the pool included; and the same with what can be
// switched off.
var (
	member = []world.Counter{
		{Manager: "kiln-owner", Kind: "sandbox", Edge: "create", Result: "ok"},
		{Manager: "kiln-pod", Kind: "pod", Edge: "create", Result: "ok"},
		{Manager: "kiln-status", Kind: "sandboxstatus", Edge: "report", Result: "ok"},
		{Manager: "kiln-state", Kind: "pod", Edge: "warmed", Result: "ok"},
	}
	seven = append([]world.Counter{
		{Manager: "kiln-owner", Kind: "sandbox", Edge: "adopt", Result: "ok"},
		{Manager: "kiln-claim", Kind: "claim", Edge: "bound", Result: "ok"},
		{Manager: "kiln-state", Kind: "pod", Edge: "handed", Result: "ok"},
	}, member...)
	nine = append([]world.Counter{
		{Manager: "kiln-claim", Kind: "claim", Edge: "annotate", Result: "ok"},
		{Manager: "kiln", Kind: "event", Edge: "SandboxAdopted", Result: "ok"},
	}, seven...)
)

func TestAWarmClaimCostsSevenWritesAndNineWithAnnotationsAndEvent(t *testing.T) {
	for _, row := range []struct {
		name string
		all  bool
		cost []world.Counter
	}{
		{"seven without annotations and Event", false, seven},
		{"nine with annotations and Event", true, nine},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			begun := time.Now()
			c := w.Controller(func(o *watch.Options) { o.Annotate, o.ClaimEvents = row.all, row.all })
			w.Create(world.Template("t"), world.Pool("p", 5))
			w.Await(world.Full("p", 5))
			n := stage.Number("KILN_CLAIMS", 100)
			for i := range n {
				name := fmt.Sprintf("claim-%d", i)
				w.Create(world.Claim(name, "p"))
				w.Await(world.Bound(name), world.Full("p", 5))
				// The watch that showed this claim has shown the end of those before it. Had
				// their sandboxes gone first, they would be told of that in vain.
				w.Collector.Resume()
				if i%3 == 2 && i < n-1 { // some end as they go, and that costs no write at all
					w.Collector.Pause()
					w.Delete(w.Claims(), name)
				}
			}
			w.Await(world.Counted("p", 5), spent(c, total(full(5))+n*len(row.cost)))
			c.Stop() // the last answer is counted by then
			count(t, c.Counts().Less(full(5)), bill{n, row.cost, time.Since(begun)})
		})
	}
}

// full is what it costs to fill a pool for the first time, its status apart.
func full(n int) world.Counts {
	filled := world.Counts{
		{Manager: "kiln-template", Kind: "template", Edge: "label", Result: "ok"}: 1,
		{Manager: "kiln-template", Kind: "policy", Edge: "create", Result: "ok"}:  1,
	}
	for _, k := range member {
		filled[k] = n
	}
	return filled
}

func total(c world.Counts) int { return c.Sum(func(world.Counter) bool { return true }) }

// spent holds when a controller has had answers to a number of writes, those of pools'
// statuses apart. One that is told to stop leaves what nobody waits for to the next.
func spent(c *kit.Controller, n int) world.Condition {
	return func(*world.Snapshot) error {
		if got := answered(c); got < n {
			return fmt.Errorf("%d writes were answered, not yet %d", got, n)
		}
		return nil
	}
}

func answered(c *kit.Controller) int {
	return len(slices.DeleteFunc(c.Wire.Writes(), func(one kit.Write) bool { return one.Kind == "poolstatus" || one.Ended == 0 }))
}

// A bill is what a number of claims, or of whatever else, should cost: each of these
// writes once.
type bill struct {
	n    int
	cost []world.Counter
	// took is how long that took. A pool's status is written no more often than once
	// in a while, however much happens.
	took time.Duration
}

// count compares what was written with a bill: nothing is written in vain.
func count(t *testing.T, wrote world.Counts, b bill) {
	t.Helper()
	n, cost := b.n, b.cost
	t.Logf("%d times:\n%s", n, wrote)
	for _, k := range cost {
		if wrote[k] != n {
			t.Errorf("%s %s %s: %d writes for %d, want one each", k.Manager, k.Kind, k.Edge, wrote[k], n)
		}
	}
	reports := wrote.Sum(func(k world.Counter) bool { return k.Kind == "poolstatus" && k.Result == "ok" })
	sent := wrote.Sum(func(k world.Counter) bool { return k.Kind != "poolstatus" && k.Result != "skipped" })
	if sent != n*len(cost) {
		t.Errorf("%d requests for %d, want %d each", sent, n, len(cost))
	}
	const changesOfSpec = 2 // they are reported at once
	if most := int(b.took/pool.StatusDelay) + 1 + changesOfSpec; reports > most {
		t.Errorf("%d pool status writes in %s, and %d is the most: they are not brought together", reports, b.took, most)
	}
	for _, result := range []string{"lost", "gone", "refused", "retry"} {
		if in := wrote.Sum(world.Result(result)); in > 0 {
			t.Errorf("%d writes were %s", in, result)
		}
	}
	t.Logf("each: %.2f writes, and %.2f of pool status", float64(sent)/float64(n), float64(reports)/float64(n))
}

// The writes a claim waits for are three, one behind the other. The annotations are beside
// the second, for no other claim is being served. Everything else that the claim causes
// begins when it was told: each of the three is held for a while, and nothing has set out
// beside it.
func TestAWarmClaimIsReadyAfterThreeWritesAndOnlyItsAnnotationsAreBesideThem(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	adopt, hand, tell := kit.NewGate(), kit.NewGate(), kit.NewGate()
	c := w.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.Hold(adopt)})
		c.Wire.Inject(kit.Fault{On: kit.On("pod", "bound"), Do: kit.Hold(hand)})
		c.Wire.Inject(kit.Fault{On: kit.On("claimstatus", "bound"), Do: kit.Hold(tell)})
	})
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(resting(c, 2))
	settled := len(c.Wire.Writes())
	w.Create(world.Claim("a", "p"))
	w.Await(adopt.Reached())
	adopt.Open()
	w.Await(hand.Reached(), func(*world.Snapshot) error {
		if c.Wire.Answered("claim", "annotate") == 0 {
			return errWaits
		}
		return nil
	})
	w.Await(func(s *world.Snapshot) error { // the news of the adoption has come, and nothing came of it
		if len(s.Members("p")) != 1 {
			return errWaits
		}
		return nil
	})
	hand.Open()
	w.Await(tell.Reached())
	of := []func(kit.Write) bool{kit.On("sandbox", "adopt"), kit.On("pod", "bound"), kit.On("claim", "annotate"), kit.On("claimstatus", "bound")}
	for _, one := range c.Wire.Writes()[settled:] {
		if !slices.ContainsFunc(of, func(is func(kit.Write) bool) bool { return is(one) }) && one.Kind != "poolstatus" {
			t.Errorf("%s %s set out before the claim was told", one.Kind, one.Verb)
		}
	}
	tell.Open()
	w.Await(world.Converged("p", 2, "a"), world.Annotated("a"))
	took, handed, noted, told := only(t, c, "sandbox", "adopt"), only(t, c, "pod", "bound"), only(t, c, "claim", "annotate"), only(t, c, "claimstatus", "bound")
	if took.Ended > handed.Begun || took.Ended > noted.Begun || handed.Ended > told.Begun || noted.Ended > told.Begun {
		t.Errorf("adopted %d-%d, handed over %d-%d, annotated %d-%d, told %d-%d", took.Begun, took.Ended, handed.Begun, handed.Ended, noted.Begun, noted.Ended, told.Begun, told.Ended)
	}
}

// While another claim is being served nobody is annotated before being told.
func TestAClaimIsAnnotatedAfterItWasToldWhileAnotherOneIsServed(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	adopt := kit.NewGate()
	c := w.Prepared(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.Hold(adopt)})
	})
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(resting(c, 2))
	w.Create(world.Claim("a", "p"))
	w.Await(adopt.Reached())
	w.Create(world.Claim("b", "p"))
	w.Await(world.Annotated("b"))
	adopt.Open()
	w.Await(world.Converged("p", 2, "a", "b"), world.Annotated("a", "b"))
	told, noted := int64(0), int64(0)
	for _, one := range c.Wire.Writes() {
		switch {
		case one.Name != "b":
		case one.Is("claimstatus", "bound"):
			told = one.Ended
		case one.Is("claim", "annotate"):
			noted = one.Begun
		}
	}
	if noted < told {
		t.Errorf("claim b was told at %d and annotated at %d", told, noted)
	}
}

// only finds the one write of a kind and verb.
func only(t *testing.T, c *kit.Controller, kind, verb string) kit.Write {
	t.Helper()
	var found []kit.Write
	for _, one := range c.Wire.Writes() {
		if one.Is(kind, verb) {
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d writes of %s %s, want one", len(found), kind, verb)
	}
	return found[0]
}

// replaced is what one member costs when a newer one takes its place.
var replaced = append([]world.Counter{
	{Manager: "kiln-owner", Kind: "sandbox", Edge: "retire", Result: "ok"},
	{Manager: "kiln-state", Kind: "pod", Edge: "retired", Result: "ok"},
	{Manager: "kiln-owner", Kind: "sandbox", Edge: "delete", Result: "ok"},
}, member...)

// On the controller's clock every launch takes half a minute, and no
// longer: nobody waits for a member's status, so it is told when it is over.
func TestAMemberIsReplacedWithSevenWritesAndNoneInVain(t *testing.T) {
	n := stage.Number("KILN_MEMBERS", 30)
	quarter := intstr.FromString("25%")
	for name, pool := range map[string]*ext.SandboxWarmPool{
		"all at once": world.Recreating(world.Pool("p", int32(n))),
		"rolling":     world.Rolling(world.Pool("p", int32(n)), quarter, quarter),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			begun := time.Now()
			stands := time.Now().Add(30 * time.Second)
			c := w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return stands } })
			w.Create(world.Template("t"), pool)
			w.Await(world.Full("p", n))
			now := w.ChangeTemplate("t", "image:2")
			w.Await(world.All(world.Full("p", n), renewed(now, n)), spent(c, total(full(n))+n*len(replaced)))
			c.Stop() // the last answer is counted by then
			count(t, c.Counts().Less(full(n)), bill{n, replaced, time.Since(begun)})
		})
	}
}
