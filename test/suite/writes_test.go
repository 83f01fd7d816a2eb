package suite

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/watch"
)

// What things cost, as the product counts it: a new member of a pool; one warm
// claim, its replacement in the pool included; and the same with what can be
// switched off.
var (
	member = []kit.Counter{
		{Manager: "kiln-owner", Kind: "sandbox", Edge: "create", Result: "ok"},
		{Manager: "kiln-pod", Kind: "pod", Edge: "create", Result: "ok"},
		{Manager: "kiln-status", Kind: "sandboxstatus", Edge: "report", Result: "ok"},
		{Manager: "kiln-state", Kind: "pod", Edge: "warmed", Result: "ok"},
	}
	eight = append([]kit.Counter{
		{Manager: "kiln-owner", Kind: "sandbox", Edge: "adopt", Result: "ok"},
		{Manager: "kiln-claim", Kind: "claim", Edge: "bound", Result: "ok"},
		{Manager: "kiln-state", Kind: "pod", Edge: "reserved", Result: "ok"},
		{Manager: "kiln-state", Kind: "pod", Edge: "confirmed", Result: "ok"},
	}, member...)
	ten = append([]kit.Counter{
		{Manager: "kiln-claim", Kind: "claim", Edge: "record", Result: "ok"},
		{Manager: "kiln", Kind: "event", Edge: "SandboxAdopted", Result: "ok"},
	}, eight...)
)

func TestAWarmClaimCostsEightWritesAndTenWithAnnotationsAndEvent(t *testing.T) {
	for _, row := range []struct {
		name string
		all  bool
		cost []kit.Counter
	}{
		{"eight without annotations and Event", false, eight},
		{"ten with annotations and Event", true, ten},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			c := w.Controller(func(o *watch.Options) { o.Annotate, o.Events = row.all, row.all })
			w.Create(kit.Template("t"), kit.Pool("p", 5))
			w.Await(kit.Full("p", 5))
			n := number("KILN_CLAIMS", 100)
			for i := range n {
				name := fmt.Sprintf("claim-%d", i)
				w.Create(kit.Claim(name, "p"))
				w.Await(kit.Bound(name), kit.Full("p", 5))
				if i%3 == 2 { // some end as they go, and that costs no write at all
					w.Delete(w.Claims(), name)
				}
			}
			w.Await(kit.Counted("p", 5))
			c.Stop() // the last answer is counted by then
			count(t, c.Counts().Less(full(5)), n, row.cost)
		})
	}
}

// full is what it costs to fill a pool for the first time, its status apart.
func full(n int) kit.Counts {
	filled := kit.Counts{{Manager: "kiln-template", Kind: "template", Edge: "label", Result: "ok"}: 1}
	for _, k := range member {
		filled[k] = n
	}
	return filled
}

// count compares what was written with what a number of claims, or of whatever
// else, should cost: each of these writes once, and nothing in vain.
func count(t *testing.T, wrote kit.Counts, n int, cost []kit.Counter) {
	t.Helper()
	t.Logf("%d times:\n%s", n, wrote)
	for _, k := range cost {
		if wrote[k] != n {
			t.Errorf("%s %s %s: %d writes for %d, want one each", k.Manager, k.Kind, k.Edge, wrote[k], n)
		}
	}
	reports := wrote.Sum(func(k kit.Counter) bool { return k.Kind == "poolstatus" && k.Result == "ok" })
	sent := wrote.Sum(func(k kit.Counter) bool { return k.Kind != "poolstatus" && k.Result != "skipped" })
	if sent != n*len(cost) {
		t.Errorf("%d requests for %d, want %d each", sent, n, len(cost))
	}
	if reports > n/2 {
		t.Errorf("%d pool status writes for %d: they are not brought together", reports, n)
	}
	for _, result := range []string{"lost", "gone", "refused", "retry"} {
		if in := wrote.Sum(kit.Result(result)); in > 0 {
			t.Errorf("%d writes were %s", in, result)
		}
	}
	t.Logf("each: %.2f writes, and %.2f of pool status", float64(sent)/float64(n), float64(reports)/float64(n))
}

// The writes a claim waits for are two, one behind the other. The note on the
// claim is on its way at the same time as the adoption: each is held until the
// other has set out, and nothing stands still. The pod's word goes its own way: it
// is held until the claim has been told.
func TestAWarmClaimIsReadyAfterTwoWritesOneBehindTheOther(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	adopt, record, word := kit.NewGate(), kit.NewGate(), kit.NewGate()
	c := w.Doomed(func(c *kit.Controller) {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.Hold(adopt)})
		c.Wire.Inject(kit.Fault{On: kit.On("claim", "record"), Do: kit.Hold(record)})
		c.Wire.Inject(kit.Fault{On: kit.On("pod", "binding"), Do: kit.Hold(word)})
	})
	w.Create(kit.Template("t"), kit.Pool("p", 2))
	w.Await(kit.Full("p", 2), kit.Counted("p", 2))
	settled := len(c.Wire.Writes())
	w.Create(kit.Claim("a", "p"))
	w.Await(adopt.Reached())
	w.Await(record.Reached())
	adopt.Open()
	record.Open()
	w.Await(kit.Words("a", states.Bound))
	word.Open()
	w.Await(kit.Right("p", 2, "a"))

	took, noted, told := only(t, c, "sandbox", "adopt"), only(t, c, "claim", "record"), only(t, c, "claimstatus", "bound")
	if took.Ended > told.Begun {
		t.Error("the claim was told before its sandbox was taken")
	}
	if noted.Begun > took.Ended || took.Begun > noted.Ended {
		t.Error("the note and the adoption are not side by side")
	}
	for _, one := range c.Wire.Writes()[settled:] {
		if one.Ended < told.Begun && one != took && one != noted && about(one, "a", took.Name) {
			t.Errorf("%s %s came before the claim was told", one.Kind, one.Verb)
		}
	}
}

// about reports whether a write is about one of these.
func about(w kit.Write, names ...string) bool {
	for _, n := range names {
		if w.Name == n {
			return true
		}
	}
	return false
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

// number reads a number from the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
