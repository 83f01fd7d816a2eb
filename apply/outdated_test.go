package apply

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestAWriteWhoseReasonIsOverWhenItsPlaceComesIsNotSent(t *testing.T) {
	g, s := NewWithT(t), aServer(t)
	claim, asked := aClaim(), 0
	over := func() bool { asked++; return false }
	_, err := s.applier.AnnotateClaim(While(t.Context(), over), claim, ClaimAnnotations{Sandbox: "x"})
	g.Expect(err).To(And(MatchError(ErrLost), MatchError(ErrOutdated), MatchError(ContainSubstring("claim ns/a: annotate"))))
	g.Expect(s.sent()).To(BeZero())
	g.Expect(s.labels(t, "kiln_writes_total")).To(HaveKeyWithValue("result", "skipped"))
	_, err = s.applier.AnnotateClaim(While(t.Context(), func() bool { return true }), claim, ClaimAnnotations{Sandbox: "x"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.sent()).To(Equal(1))
	g.Expect(asked).To(Equal(1))
}

// It is asked when the place has come, and not before the wait.
func TestWhatAWriteWasDecidedOnIsLookedAtWhenItsPlaceHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a := &Applier{gate: newGate(narrow), turns: newTurns(1)}
		var last *place
		for range narrow[classTrail].most {
			var err error
			last, err = a.gate.enter(t.Context(), ofClass(classTrail, flow{}))
			g.Expect(err).NotTo(HaveOccurred())
		}
		holds := true
		ended := make(chan error)
		go func() {
			ctx := While(context.Background(), func() bool { return holds })
			_, err := a.gate.enter(ctx, ofClass(classTrail, flow{}))
			if err == nil {
				_, err = a.turns.take(ctx, about("claim", "c", ""))
			}
			ended <- err
		}()
		synctest.Wait()
		holds = false
		last.leave()
		g.Expect(<-ended).To(MatchError(ErrOutdated))
	})
}
