package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// A Comparison is one figure of one scenario in two reports: the second divided by the
// first, over all rounds that both have.
type Comparison struct {
	Scenario, Figure string
	// A and B are the medians in the two reports.
	A, B float64
	// Ratio is the median of the rounds' ratios, Least and Most the ends of their spread.
	Ratio, Least, Most float64
	// Pairs is how many rounds both have.
	Pairs int
}

// figures are what is compared, in the order in which it is printed.
var figures = []struct {
	name string
	of   func(Result) float64
}{
	{"p50 ms", func(r Result) float64 { return r.Latency.P50 }},
	{"p90 ms", func(r Result) float64 { return r.Latency.P90 }},
	{"p99 ms", func(r Result) float64 { return r.Latency.P99 }},
	{"max ms", func(r Result) float64 { return r.Latency.Max }},
	{"ready p50 ms", func(r Result) float64 { return r.ReadyLatency.P50 }},
	{"ready p99 ms", func(r Result) float64 { return r.ReadyLatency.P99 }},
	{"overtaken ms", func(r Result) float64 { return r.Overtaken }},
	{"all served s", func(r Result) float64 { return r.AllReadySeconds }},
	{"served/s", func(r Result) float64 { return r.CompletionQPS }},
	{"warm", func(r Result) float64 { return r.WarmServedFraction }},
	{"requests", func(r Result) float64 { return r.requests(isAny) }},
	{"writes", func(r Result) float64 { return r.requests(isWrite) }},
	{"CPU ms", Result.cycleCPU},
	{"API server ms", func(r Result) float64 { return r.cpu(apiServer) }},
	{"etcd ms", func(r Result) float64 { return r.cpu(etcd) }},
	{"controller ms", func(r Result) float64 { return r.cpu(controller) }},
	{"controller MiB", func(r Result) float64 { return r.Memory[controller] }},
}

// Compare pairs the rounds of two reports, first with first and so on: rounds that were
// run in turns met the same machine.
func Compare(a, b *Report) []Comparison {
	rounds := min(len(a.Rounds), len(b.Rounds))
	var all []Comparison
	for _, scenario := range scenariosOf(a.Rounds[:rounds]) {
		for _, f := range figures {
			var as, bs, ratios []float64
			for i := range rounds {
				one, other := a.Rounds[i].find(scenario), b.Rounds[i].find(scenario)
				if one == nil || other == nil {
					continue
				}
				if r := ratio(f.of(*other), f.of(*one)); r > 0 {
					as, bs, ratios = append(as, f.of(*one)), append(bs, f.of(*other)), append(ratios, r)
				}
			}
			if len(ratios) == 0 {
				continue
			}
			all = append(all, Comparison{
				Scenario: scenario, Figure: f.name, A: median(as), B: median(bs),
				Ratio: median(ratios), Least: slices.Min(ratios), Most: slices.Max(ratios), Pairs: len(ratios),
			})
		}
	}
	return all
}

// scenariosOf are the scenarios of all rounds, in the order in which they first come.
func scenariosOf(rounds []Round) (names []string) {
	for _, round := range rounds {
		for _, one := range round.Results {
			if !slices.Contains(names, one.Scenario) {
				names = append(names, one.Scenario)
			}
		}
	}
	return names
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// PrintComparison prints ratios with their spread.
func PrintComparison(out io.Writer, all []Comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tFIGURE\tA\tB\tB/A\tSPREAD\tROUNDS")
	for i, c := range all {
		scenario := c.Scenario
		if i > 0 && all[i-1].Scenario == scenario {
			scenario = ""
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%.2f-%.2f\t%d\n", scenario, c.Figure, figure(c.A), figure(c.B), c.Ratio, c.Least, c.Most, c.Pairs)
	}
	return w.Flush()
}
