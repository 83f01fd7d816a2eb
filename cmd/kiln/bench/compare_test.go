package bench

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

// rounds is a report of one scenario, with a median for each round.
func rounds(scenario string, p50s ...float64) *Report {
	r := &Report{}
	for _, p50 := range p50s {
		r.Rounds = append(r.Rounds, Round{Results: []Result{{Scenario: scenario, Latency: Latency{P50: p50}}}})
	}
	return r
}

func TestRoundsAreComparedInPairs(t *testing.T) {
	g := NewWithT(t)
	// The machine is three times slower in the second round, and five times in the third,
	// and both meet that.
	a, b := rounds(Burst, 10, 30, 50, 99), rounds(Burst, 5, 18, 20)
	all := Compare(a, b)
	g.Expect(all).To(Equal([]Comparison{{
		Scenario: Burst, Figure: "p50 ms", A: 30, B: 18, Ratio: 0.5, Least: 0.4, Most: 0.6, Pairs: 3,
	}}))
	var out bytes.Buffer
	g.Expect(PrintComparison(&out, all)).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`burst +p50 ms +30.0 +18.0 +0.50 +0.40-0.60 +3\n`))
}

func TestOnlyWhatBothHaveIsCompared(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Compare(rounds(Burst, 1), rounds(Serial, 1))).To(BeEmpty())
	a, b := rounds(Burst, 10, 10), rounds(Burst, 20, 20)
	b.Rounds[0].Results = nil
	g.Expect(Compare(a, b)[0].Pairs).To(Equal(1), "a round that one lacks is no pair")
	g.Expect(Compare(rounds(Burst, 0), rounds(Burst, 1))).To(BeEmpty(), "there is no ratio to nothing")
	g.Expect(median([]float64{4, 1, 3, 2})).To(Equal(2.5))
}
