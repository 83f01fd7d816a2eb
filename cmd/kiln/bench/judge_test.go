package bench

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestTheJudgeFindsWhatIsBroken(t *testing.T) {
	served := func(name, sandbox string) life { return bound(name, sandbox, 1, time.Second) }
	revised := func(wants, got int) life {
		l := served("r", "s-9")
		l.wants, l.got = wants, got
		return l
	}
	changed := served("a", "s-1")
	changed.sandboxes = append(changed.sandboxes, "s-2/")
	again := served("b", "s-1")
	again.sandboxes = []string{"s-1/another-uid"}

	for says, c := range map[string]struct {
		lives []life
		want  Checks
		named []string
	}{
		"nothing is wrong":                           {lives: []life{served("a", "s-1"), served("b", "s-2"), revised(2, 2)}},
		"nobody promised a revision":                 {lives: []life{revised(0, 1)}},
		"a newer revision than was promised is fine": {lives: []life{revised(2, 3)}},
		"a sandbox that two claims were told of is doubly held": {
			lives: []life{served("a", "s-1"), served("b", "s-1"), served("c", "s-2")}, want: Checks{DoubleHeld: 1},
			named: []string{"sandbox s-1 is held by claims a, b"},
		},
		"also when one of them was told of another before": {
			lives: []life{served("b", "s-2"), changed}, want: Checks{DoubleHeld: 1},
			named: []string{"sandbox s-2 is held by claims b, a"},
		},
		"a sandbox of the same name and another UID is another": {lives: []life{served("a", "s-1"), again}},
		"a claim made after the change with a pod from before it is stale": {
			lives: []life{revised(2, 1)}, want: Checks{StaleServed: 1},
			named: []string{"claim r was made after the template's revision 2 and got a pod of revision 1"},
		},
		"a claim that waits for ever is unbound": {
			lives: []life{{name: "w", asked: 1}}, want: Checks{Unbound: 1}, named: []string{"claim w was not served in time"},
		},
		"one that could not be made waits for nothing": {lives: []life{{name: "w", asked: 1, refused: "Forbidden"}}},
	} {
		t.Run(says, func(t *testing.T) {
			g := NewWithT(t)
			checks, violations := judge(c.lives)
			g.Expect(checks).To(Equal(c.want))
			g.Expect(violations).To(Equal(c.named))
			r := Report{Rounds: []Round{{Results: []Result{{Scenario: Burst, Checks: checks, Violations: violations}}}}}
			if c.named == nil {
				g.Expect(r.Broken()).To(Succeed())
				return
			}
			g.Expect(r.Broken()).To(MatchError(ContainSubstring(c.named[0])))
		})
	}
}

func TestTheJudgeCountsAllAndNamesAFew(t *testing.T) {
	g := NewWithT(t)
	var lives []life
	for range 3 * most {
		lives = append(lives, life{name: "w"})
	}
	checks, violations := judge(lives)
	g.Expect(checks.Unbound).To(Equal(3 * most))
	g.Expect(violations).To(HaveLen(most))
}
