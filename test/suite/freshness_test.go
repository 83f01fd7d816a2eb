package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
	"github.com/kiln-sandbox/kiln/watch/claim"
)

// freshRounds is how often a claim comes right after a change of the template
// that the controller has not seen. KILN_FRESH_ROUNDS asks for another number; CI
// asks for a thousand.
func freshRounds() int { return stage.Number("KILN_FRESH_ROUNDS", 30) }

// A turn says when a round lets the controller see the change.
type turn func(c *kit.Controller, claim string) world.Condition

// proven is when the controller has taken the old member, which looks current to
// it, for the claim, and was answered that there is a newer template.
func proven(c *kit.Controller, _ string) world.Condition {
	answered, _ := c.Watches.FreshnessReads()
	took := c.Wire.Answered("sandbox", "adopt")
	return func(*world.Snapshot) error {
		if now, _ := c.Watches.FreshnessReads(); now < answered+2 || c.Wire.Answered("sandbox", "adopt") == took {
			return errors.New("it has not come to the claim")
		}
		return nil
	}
}

// tooLate is when the claim has its sandbox.
func tooLate(_ *kit.Controller, claim string) world.Condition { return world.Bound(claim) }

// strict is a world with a full pool of one that hands out no old member.
func strict(t *testing.T, prepare ...func(*kit.Controller)) (*kit.World, *kit.Controller) {
	t.Helper()
	w := kit.New(t)
	c := w.Prepared(func(c *kit.Controller) {
		for _, change := range prepare {
			change(c)
		}
	})
	w.Create(world.Template("t"), world.Recreating(world.Pool("p", 1)))
	w.Await(resting(c, 1))
	return w, c
}

// believing has a controller take what its watches show for the newest there is.
func believing(c *kit.Controller) {
	c.Product.Claims.Prove = func(context.Context, string, claim.Subject) (states.Freshness, error) {
		return states.FreshnessProven, nil
	}
}

// staleBindings claims again and again right after a change of the template that
// the controller is kept from seeing, and counts the claims that were bound to
// an older revision, and the sandboxes that were refused.
func staleBindings(t *testing.T, rounds int, when turn, prepare ...func(*kit.Controller)) (stale, refused int) {
	t.Helper()
	w, c := strict(t, prepare...)
	for i := range rounds {
		c.Watches.Shut("sandboxtemplates")
		revision := w.ChangeTemplate("t", fmt.Sprint("image:", i))
		claim := fmt.Sprint("a", i)
		turned := when(c, claim)
		w.Create(world.Claim(claim, "p"))
		w.Await(turned)
		c.Watches.Open()
		w.Await(world.Bound(claim))
		if w.Sandbox(w.SandboxOf(claim)).Labels[apply.LabelRevision] != revision {
			stale++
		}
		w.Delete(w.Claims(), claim)
		w.Await(resting(c, 1))
	}
	return stale, c.Counts().Sum(func(k world.Counter) bool { return k.Edge == "refuse" && k.Result == "ok" })
}

// The rounds are shared out to a few worlds, which spend most of their time
// waiting for the server. In each of them the old member is taken and given up
// again.
func TestAClaimMadeAfterAChangeOfTheTemplateNeverGetsAnOlderSandbox(t *testing.T) {
	t.Parallel()
	const worlds = 5
	for i := range worlds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rounds := (freshRounds() + worlds - 1) / worlds
			stale, refused := staleBindings(t, rounds, proven)
			NewWithT(t).Expect(stale).To(BeZero())
			NewWithT(t).Expect(refused).To(Equal(rounds))
		})
	}
}

func TestWithoutTheProofAClaimWouldGetAnOlderSandbox(t *testing.T) {
	t.Parallel()
	stale, _ := staleBindings(t, 5, tooLate, believing)
	NewWithT(t).Expect(stale).To(Equal(5))
}

func TestAPoolThatIsPointedAtAnotherTemplateHandsOutNoMemberOfTheOld(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Template("u"), world.Recreating(world.Pool("p", 1)))
	w.Await(resting(c, 1)) // or the answer to a status that is due would show the pool
	c.Watches.Shut("sandboxwarmpools")
	w.PatchPool("p", `{"sandboxTemplateRef":{"name":"u"}}`)
	turned := proven(c, "a")
	w.Create(world.Claim("a", "p"))
	w.Await(turned)
	c.Watches.Open()
	w.Await(world.Converged("p", 1, "a"))
	NewWithT(t).Expect(w.Sandbox(w.SandboxOf("a")).Annotations).To(HaveKeyWithValue(apply.AnnotationTemplate, "u"))
}

// The proof costs a claim no time: its sandbox is adopted while the server still
// thinks about the answer.
func TestTheProofIsReadBesideTheAdoption(t *testing.T) {
	t.Parallel()
	w, c := strict(t)
	c.Watches.Shut(kit.Freshness, "sandboxtemplates") // no watch makes the proof needless
	w.Create(world.Claim("a", "p"))
	w.Await(owns("a"))
	NewWithT(t).Expect(w.SandboxOf("a")).To(BeEmpty(), "it is told when the proof is there")
	c.Watches.Open()
	w.Await(world.Converged("p", 1, "a"))
	keptItsSandbox(t, w, "a")
}

// Whoever takes over finds a claim that has a sandbox and was not told of it, and
// does not know what its predecessor had been answered.
func TestAControllerDiesAndTheNextOneGivesTheOldSandboxUp(t *testing.T) {
	for _, at := range []struct{ kind, verb string }{
		{"sandbox", "adopt"}, {"claimstatus", "refuse"}, {"sandbox", "retire"}, {"pod", "stale"}, {"sandbox", "delete"}, {"claimstatus", "bound"},
	} {
		for name, does := range map[string]func(*kit.Controller) kit.Behaviour{"before": kit.CrashBefore, "after": kit.CrashAfter} {
			t.Run(fmt.Sprint(name, " ", at.kind, " ", at.verb), func(t *testing.T) {
				t.Parallel()
				w, c := strict(t)
				c.Watches.Shut("sandboxtemplates")
				revision := w.ChangeTemplate("t", "image:2")
				c.Wire.Inject(kit.Fault{On: kit.On(at.kind, at.verb), Do: does(c)})
				turned := world.Either(c.Dead(), proven(c, "a"))
				w.Create(world.Claim("a", "p"))
				w.Await(turned)
				c.Watches.Open()
				w.Await(c.Dead())
				w.Controller()
				w.Await(world.Converged("p", 1, "a"), world.Annotated("a"))
				NewWithT(t).Expect(w.Sandbox(w.SandboxOf("a")).Labels).To(HaveKeyWithValue(apply.LabelRevision, revision))
			})
		}
	}
}

// What a claim has taken from a pool that is gone meanwhile is proven all the same.
func TestAClaimWhosePoolVanishesGetsNoOlderSandbox(t *testing.T) {
	t.Parallel()
	w, c := strict(t)
	c.Watches.Shut("sandboxtemplates")
	w.ChangeTemplate("t", "image:2")
	turned := proven(c, "a")
	w.Create(world.Claim("a", "p"))
	w.Await(turned)
	w.Delete(w.Pools(), "p")
	w.Await(world.HasReason("a", "WarmPoolNotFound"))
	c.Watches.Open()
	NewWithT(t).Expect(w.SandboxOf("a")).To(BeEmpty())
}

// A burst shares its reads: there is never more than one pair under way, and it
// proves every claim that is not newer.
func TestABurstNeedsFewReadsToProveThatItIsFresh(t *testing.T) {
	t.Parallel()
	burst := stage.Number("KILN_BURST", 60)
	w := kit.New(t)
	begun := time.Now()
	stands := time.Now() // a launch that takes long is told once more, which is not counted here
	c := w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return stands } })
	w.Create(world.Template("t"), world.Recreating(world.Pool("p", int32(burst))))
	w.Await(world.Full("p", burst))
	names, claims := []string{}, []metav1.Object{}
	for i := range burst {
		names = append(names, fmt.Sprint("a", i))
		claims = append(claims, world.Claim(names[i], "p"))
	}
	w.CreateAtOnce(claims...)
	w.Await(world.All(world.Full("p", burst), world.Bound(names...), world.Annotated(names...)))
	reads, atOnce := c.Watches.FreshnessReads()
	t.Logf("%d reads for %d claims, %d at once", reads, burst, atOnce)
	NewWithT(t).Expect(atOnce).To(Equal(2), "one pair at a time")
	NewWithT(t).Expect(reads).To(BeNumerically("<", burst), "each pair proves more than one claim")
	w.Await(spent(c, total(full(burst))+burst*len(nine)))
	c.Stop() // the last answer is counted by then
	count(t, c.Counts().Less(full(burst)), bill{burst, nine, time.Since(begun)})
}

// Each of two controllers is kept in turn from seeing the template, and now and
// then is not told what became of a write, while the template changes and claims
// arrive. What one gives up the other must not give away.
func TestTwoLeadersAtOnceGiveNoOlderSandboxAway(t *testing.T) {
	t.Parallel()
	const size, changes, each = 4, 6, 3
	w := kit.New(t)
	leaders := []*kit.Controller{w.Controller(), w.Controller()}
	w.Create(world.Template("t"), world.Recreating(world.Pool("p", size)))
	w.Await(world.Full("p", size))
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
		blind := leaders[change%2].Watches
		blind.Shut("sandboxtemplates")
		age[w.ChangeTemplate("t", fmt.Sprint("image:", change))] = change
		for i := range each {
			name := fmt.Sprintf("a%d-%d", change, i)
			claims = append(claims, name)
			since[name] = change
			w.Create(world.Claim(name, "p"))
		}
		w.Await(owns(claims[len(claims)-1]))
		blind.Open()
	}
	w.Await(world.Converged("p", size, claims...), world.Annotated(claims...))
	for _, claim := range claims {
		if got := age[w.Sandbox(w.SandboxOf(claim)).Labels[apply.LabelRevision]]; got < since[claim] {
			t.Errorf("claim %s was made after change %d of the template, and got a sandbox of change %d", claim, since[claim], got)
		}
	}
}
