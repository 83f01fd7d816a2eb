package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// figure prints a number as a person reads it: three digits, or all before the point.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// orDash is a number that may not be known.
func orDash(v float64) string {
	if v == 0 {
		return "-"
	}
	return figure(v)
}

// Print prints the tables of a report.
func (r *Report) Print(out io.Writer, limit time.Duration) error {
	fmt.Fprintf(out, "API server %s, %d cores here, pod template %.1f KB, %s\n", r.Server, r.Cores, float64(r.TemplateBytes)/1000, r.At.Format(time.RFC3339))
	for i, round := range r.Rounds {
		if len(r.Rounds) > 1 {
			fmt.Fprintf(out, "\nRound %d\n", i+1)
		}
		fmt.Fprintln(out)
		if err := round.print(out, limit); err != nil {
			return err
		}
	}
	return nil
}

func (r Round) print(out io.Writer, limit time.Duration) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SCENARIO\tPOOL\tCLAIMS\tP50 ms\tP90\tP99\tMAX\tOVERTAKEN\tP50/FLOOR\tREADY P50\tP99\tALL SERVED s\tSUBMIT/s\tSERVED/s\tPEAK\tWARM\t429\tERRORS\t")
	for _, one := range r.Results {
		l, floors := one.Latency, Ratios{}
		if one.ToFloor != nil {
			floors = *one.ToFloor
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%.2f\t%d\t%s\t\n", one.Scenario, one.Pool, one.Claims,
			figure(l.P50), figure(l.P90), figure(l.P99), figure(l.Max), figure(one.Overtaken), orDash(floors.P50), figure(one.ReadyLatency.P50), figure(one.ReadyLatency.P99), figure(one.AllReadySeconds),
			figure(one.SubmitQPS), figure(one.CompletionQPS), one.PeakConcurrency, one.WarmServedFraction, one.Throttled, tally(one.Errors))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.printCosts(out); err != nil {
		return err
	}
	for _, line := range r.sentences(limit) {
		fmt.Fprintln(out, line)
	}
	return nil
}

// tally prints errors by kind.
func tally(errors map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(errors)) {
		parts = append(parts, fmt.Sprintf("%d %s", errors[kind], kind))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// inFloors is the CPU of a group of processes, and in parentheses what it is of theirs
// in the floor.
func (r Result) inFloors(group string) string {
	text := orDash(r.cpu(group))
	if r.ToFloor != nil && r.ToFloor.By[group] > 0 && r.Scenario != Floor {
		text += " (x" + figure(r.ToFloor.By[group]) + ")"
	}
	return text
}

// printCosts prints what a claim costs, as far as it is known.
func (r Round) printCosts(out io.Writer) error {
	if !slices.ContainsFunc(r.Results, func(one Result) bool { return one.CPU != nil || one.Requests != nil }) {
		return nil
	}
	fmt.Fprintln(out, "\nA claim's whole cycle, from its creation until its pod is gone and the pool is full:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SCENARIO\tCPU ms\tAPI SERVER\tETCD\tCONTROLLER\tREST\tCPU/FLOOR\tLOAD TOOL\tREQUESTS\tWRITES\tREQUESTS/FLOOR\tCONTROLLER MiB\t")
	for _, one := range r.Results {
		floors, tool := Ratios{}, 0.0
		if one.ToFloor != nil {
			floors = *one.ToFloor
		}
		if one.CPU != nil {
			tool = one.CPU.LoadTool
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", one.Scenario, orDash(one.cycleCPU()),
			one.inFloors(apiServer), one.inFloors(etcd), one.inFloors(controller), one.inFloors(others),
			orDash(floors.CPU), orDash(tool), orDash(one.requests(isAny)), orDash(one.requests(isWrite)), orDash(floors.Requests), orDash(one.Memory[controller]))
	}
	return w.Flush()
}

// sentences say what a sweep and a scale found, what was not measured, and what was
// checked.
func (r Round) sentences(limit time.Duration) (lines []string) {
	var best, first, last *Result
	swept := false
	var checks Checks
	for i := range r.Results {
		one := &r.Results[i]
		checks.DoubleHeld += one.Checks.DoubleHeld
		checks.StaleServed += one.Checks.StaleServed
		checks.Unbound += one.Checks.Unbound
		checks.UnreachableAtReady += one.Checks.UnreachableAtReady
		switch kind, _, _ := strings.Cut(one.Scenario, "@"); kind {
		case Sweep:
			swept = true
			if one.Ready == one.Claims && one.Latency.P99 <= ms(limit) {
				best = one
			}
		case Scale:
			if first == nil {
				first = one
			}
			last = one
		}
	}
	switch {
	case best != nil:
		lines = append(lines, fmt.Sprintf("sweep: %s claims a second is the highest rate that was tried with p99 <= %v", figure(best.Rate), limit))
	case swept:
		lines = append(lines, fmt.Sprintf("sweep: no rate that was tried has p99 <= %v", limit))
	}
	if last != first {
		lines = append(lines, fmt.Sprintf("scale: a claim on a pool of %d, against one on %d: p50 x%s, CPU x%s", last.Pool, first.Pool,
			orDash(ratio(last.Latency.P50, first.Latency.P50)), orDash(ratio(last.cycleCPU(), first.cycleCPU()))))
	}
	lines = append(lines, fmt.Sprintf("checks: %v", checks))
	for _, one := range r.Results {
		for _, v := range one.Violations {
			lines = append(lines, "  "+one.Scenario+": "+v)
		}
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+n)
	}
	return append([]string{""}, lines...)
}
