package suite

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/watch"
)

// freshRounds is how often a claim comes right after a change of the template
// that the controller has not seen. KILN_FRESH_ROUNDS asks for another number; CI
// asks for a thousand.
func freshRounds() int { return number("KILN_FRESH_ROUNDS", 100) }

// A turn is the moment at which a round lets the controller see the change.
type turn func(c *kit.Controller, claim string) kit.Wish

// proven is when the controller has taken the old member, which looks current to
// it, for the claim, and was answered that there is a newer template.
func proven(c *kit.Controller, _ string) kit.Wish {
	answered, _ := c.Valves.Proofs()
	took := c.Wire.Count("sandbox", "adopt")
	return func(*kit.Sight) error {
		if now, _ := c.Valves.Proofs(); now < answered+2 || c.Wire.Count("sandbox", "adopt") == took {
			return errors.New("it has not come to the claim")
		}
		return nil
	}
}

// tooLate is when the claim has its sandbox.
func tooLate(_ *kit.Controller, claim string) kit.Wish { return kit.Bound(claim) }

// strict is a world with a full pool of one that hands out no old member.
func strict(t *testing.T, with ...func(*watch.Options)) (*kit.World, *kit.Controller) {
	t.Helper()
	w := kit.New(t)
	c := w.Controller(with...)
	w.Create(kit.Template("t"), kit.Recreating(kit.Pool("p", 1)))
	w.Await(kit.Full("p", 1))
	return w, c
}

// staleBindings claims again and again right after a change of the template that
// the controller is kept from seeing, and counts the claims that were bound to
// an older revision, and the sandboxes that were refused.
func staleBindings(t *testing.T, rounds int, when turn, with ...func(*watch.Options)) (stale, refused int) {
	t.Helper()
	w, c := strict(t, with...)
	for i := range rounds {
		c.Valves.Shut("sandboxtemplates")
		revision := w.Retemplate("t", fmt.Sprint("image:", i))
		claim := fmt.Sprint("a", i)
		turned := when(c, claim)
		w.Create(kit.Claim(claim, "p"))
		w.Await(turned)
		c.Valves.Open()
		w.Await(kit.Bound(claim))
		if w.Sandbox(w.Told(claim)).Labels[apply.LabelRevision] != revision {
			stale++
		}
		w.Delete(w.Claims(), claim)
		w.Await(kit.Right("p", 1))
	}
	return stale, c.Counts().Sum(func(k kit.Counter) bool { return k.Edge == "refuse" && k.Result == "ok" })
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
	credulous := func(o *watch.Options) { o.Credulous = true }
	stale, _ := staleBindings(t, 5, tooLate, credulous)
	NewWithT(t).Expect(stale).To(Equal(5))
}

func TestAPoolThatIsPointedAtAnotherTemplateHandsOutNoMemberOfTheOld(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(kit.Template("t"), kit.Template("u"), kit.Recreating(kit.Pool("p", 1)))
	w.Await(kit.Full("p", 1))
	c.Valves.Shut("sandboxwarmpools")
	w.Repool("p", `{"sandboxTemplateRef":{"name":"u"}}`)
	turned := proven(c, "a")
	w.Create(kit.Claim("a", "p"))
	w.Await(turned)
	c.Valves.Open()
	w.Await(kit.Right("p", 1, "a"))
	NewWithT(t).Expect(w.Sandbox(w.Told("a")).Annotations).To(HaveKeyWithValue(apply.NoteTemplate, "u"))
}

// The proof costs a claim no time: its sandbox is adopted while the server still
// thinks about the answer.
func TestTheProofIsReadBesideTheAdoption(t *testing.T) {
	t.Parallel()
	w, c := strict(t)
	c.Valves.Shut("proofs")
	w.Create(kit.Claim("a", "p"))
	w.Await(holds("a"))
	NewWithT(t).Expect(w.Told("a")).To(BeEmpty(), "it is told when the proof is there")
	c.Valves.Open()
	w.Await(kit.Right("p", 1, "a"))
	keptItsSandbox(t, w, "a")
}

// holds wishes for a claim to be the owner of a sandbox.
func holds(claim string) kit.Wish {
	return func(s *kit.Sight) error {
		for _, b := range s.Sandboxes {
			if c, ok := s.Claims[claim]; ok && metav1.IsControlledBy(b, c) {
				return nil
			}
		}
		return errWaits
	}
}

// Whoever takes over finds a claim that has a sandbox and was not told of it, and
// does not know what its predecessor had been answered.
func TestAControllerDiesAndTheNextOneGivesTheOldSandboxUp(t *testing.T) {
	for _, at := range []struct{ kind, verb string }{
		{"sandbox", "adopt"}, {"claimstatus", "refuse"}, {"sandbox", "retire"}, {"pod", "stale"}, {"sandbox", "delete"}, {"claimstatus", "bound"},
	} {
		for name, deed := range map[string]func(*kit.Controller) kit.Deed{"before": kit.CrashBefore, "after": kit.CrashAfter} {
			t.Run(fmt.Sprint(name, " ", at.kind, " ", at.verb), func(t *testing.T) {
				t.Parallel()
				w, c := strict(t)
				c.Valves.Shut("sandboxtemplates")
				revision := w.Retemplate("t", "image:2")
				c.Wire.Inject(kit.Fault{On: kit.On(at.kind, at.verb), Do: deed(c)})
				turned := kit.Either(c.Dead(), proven(c, "a"))
				w.Create(kit.Claim("a", "p"))
				w.Await(turned)
				c.Valves.Open()
				w.Await(c.Dead())
				w.Controller()
				w.Await(kit.Right("p", 1, "a"), kit.Noted("a"))
				NewWithT(t).Expect(w.Sandbox(w.Told("a")).Labels).To(HaveKeyWithValue(apply.LabelRevision, revision))
			})
		}
	}
}

// What a claim has taken from a pool that is gone meanwhile is proven all the same.
func TestAClaimWhosePoolVanishesGetsNoOlderSandbox(t *testing.T) {
	t.Parallel()
	w, c := strict(t)
	c.Valves.Shut("sandboxtemplates")
	w.Retemplate("t", "image:2")
	turned := proven(c, "a")
	w.Create(kit.Claim("a", "p"))
	w.Await(turned)
	w.Delete(w.Pools(), "p")
	w.Await(kit.Says("a", "WarmPoolNotFound"))
	c.Valves.Open()
	NewWithT(t).Expect(w.Told("a")).To(BeEmpty())
}

// A burst shares its reads: there is never more than one pair under way, and it
// proves every claim that is not newer.
func TestABurstNeedsFewReadsToProveThatItIsFresh(t *testing.T) {
	t.Parallel()
	burst := number("KILN_BURST", 60)
	w := kit.New(t)
	stands := time.Now() // a launch that takes long is told once more, which is not counted here
	c := w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return stands } })
	w.Create(kit.Template("t"), kit.Recreating(kit.Pool("p", int32(burst))))
	w.Await(kit.Full("p", burst))
	wrote := c.Counts()
	names, claims := []string{}, []metav1.Object{}
	for i := range burst {
		names = append(names, fmt.Sprint("a", i))
		claims = append(claims, kit.Claim(names[i], "p"))
	}
	w.CreateAtOnce(claims...)
	w.Await(kit.All(kit.Full("p", burst), kit.Bound(names...), kit.Noted(names...)))
	reads, atOnce := c.Valves.Proofs()
	t.Logf("%d reads for %d claims, %d at once", reads, burst, atOnce)
	NewWithT(t).Expect(atOnce).To(Equal(2), "one pair at a time")
	NewWithT(t).Expect(reads).To(BeNumerically("<", burst), "each pair proves more than one claim")
	c.Stop()
	count(t, c.Counts().Less(wrote), burst, ten)
}
