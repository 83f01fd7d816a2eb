package kit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Counter is the label set of kiln_writes_total.
type Counter struct{ Manager, Kind, Edge, Result string }

// Counts are the controller's own counts of its writes.
type Counts map[Counter]int

// Counts reads the product's metric.
func (c *Controller) Counts() Counts {
	c.w.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.w.t.Fatal(err)
	}
	counts := Counts{}
	for _, f := range families {
		if f.GetName() != "kiln_writes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			counts[Counter{labels["manager"], labels["kind"], labels["edge"], labels["result"]}] = int(m.GetCounter().GetValue())
		}
	}
	return counts
}

// Less is what has been counted beside what is known.
func (c Counts) Less(known Counts) Counts {
	rest := Counts{}
	for k, n := range c {
		if n != known[k] {
			rest[k] = n - known[k]
		}
	}
	return rest
}

// Sum adds up the counts that a test means.
func (c Counts) Sum(means func(Counter) bool) int {
	sum := 0
	for k, n := range c {
		if means(k) {
			sum += n
		}
	}
	return sum
}

// Result means the counts of one result.
func Result(result string) func(Counter) bool {
	return func(k Counter) bool { return k.Result == result }
}

// String is a table of what was written.
func (c Counts) String() string {
	var b strings.Builder
	keys := slices.SortedFunc(maps.Keys(c), func(a, b Counter) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, k := range keys {
		fmt.Fprintf(&b, "  %-13s %-14s %-15s %-8s %6d\n", k.Manager, k.Kind, k.Edge, k.Result, c[k])
	}
	return b.String()
}
