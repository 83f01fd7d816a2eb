package apply

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/states"
)

func TestAWriteWhoseReasonIsOverWhenItsPlaceComesIsNotSent(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	claim, asked := aClaim(), 0
	over := func() bool { asked++; return false }
	_, err := s.applier.AnnotateClaim(While(t.Context(), over), claim, "x", noon)
	g.Expect(err).To(And(MatchError(ErrLost), MatchError(ErrOutdated), MatchError(ContainSubstring("claim ns/a: annotate"))))
	g.Expect(s.sent()).To(BeZero())
	g.Expect(s.labels(t, "kiln_writes_total")).To(HaveKeyWithValue("result", "skipped"))
	_, err = s.applier.AnnotateClaim(While(t.Context(), func() bool { return true }), claim, "x", noon)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.sent()).To(Equal(1))
	g.Expect(asked).To(Equal(1))
}

// It is asked when the place has come, and not before the wait.
func TestWhatAWriteWasDecidedOnIsLookedAtWhenItsPlaceHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a := &Applier{gate: newGate(narrow), turns: newTurns(1)}
		var leave []func()
		for range narrow[classTrail].most {
			l, err := a.gate.enter(t.Context(), classTrail, flow{})
			g.Expect(err).NotTo(HaveOccurred())
			leave = append(leave, l)
		}
		holds := true
		ended := make(chan error)
		go func() {
			ctx := While(context.Background(), func() bool { return holds })
			w := about("claim", "c", "")
			w.class, w.manager = classTrail, states.ClaimManager
			_, err := a.gate.enter(ctx, w.class, flow{})
			if err == nil {
				_, err = a.turn(ctx, w)
			}
			ended <- err
		}()
		synctest.Wait()
		holds = false
		leave[0]()
		g.Expect(<-ended).To(MatchError(ErrOutdated))
		for _, l := range leave[1:] {
			l()
		}
		time.Sleep(2 * patience)
	})
}
