package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A Counter is the label set of kiln_writes_total.
type Counter struct{ Manager, Kind, Edge, Result string }

// Counts are the controller's own counts of its writes.
type Counts map[Counter]int

// Metric is the name of the product's counter of its writes.
const Metric = "kiln_writes_total"

// CountsIn reads the counter out of the product's metrics.
func CountsIn(families []*dto.MetricFamily) Counts {
	counts := Counts{}
	for _, f := range families {
		if f.GetName() != Metric {
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

// CountsAt reads the counter where a process shows its metrics.
func CountsAt(ctx context.Context, url string) (Counts, error) {
	families, err := familiesAt(ctx, url)
	return CountsIn(families), err
}

// GaugesAt reads the gauges that have no labels where a process shows its metrics.
func GaugesAt(ctx context.Context, url string) (map[string]float64, error) {
	families, err := familiesAt(ctx, url)
	gauges := map[string]float64{}
	for _, f := range families {
		if m := f.GetMetric(); len(m) == 1 && len(m[0].GetLabel()) == 0 && m[0].GetGauge() != nil {
			gauges[f.GetName()] = m[0].GetGauge().GetValue()
		}
	}
	return gauges, err
}

// GaugeAt reads a gauge by its only label where a process shows its metrics.
func GaugeAt(ctx context.Context, url, name string) (map[string]float64, error) {
	families, err := familiesAt(ctx, url)
	by := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) == 1 {
				by[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return by, err
}

func familiesAt(ctx context.Context, url string) ([]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return slices.Collect(maps.Values(families)), nil
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

// Of returns the counts that are meant.
func (c Counts) Of(meant func(Counter) bool) Counts {
	of := maps.Clone(c)
	maps.DeleteFunc(of, func(k Counter, _ int) bool { return !meant(k) })
	return of
}

// Sum adds up the counts that are meant.
func (c Counts) Sum(meant func(Counter) bool) int {
	sum := 0
	for _, n := range c.Of(meant) {
		sum += n
	}
	return sum
}

// Sent means the requests, and leaves out those that were not needed.
func Sent(k Counter) bool { return k.Result != "skipped" }

// Keys are the label sets that were counted, in order.
func (c Counts) Keys() []Counter {
	return slices.SortedFunc(maps.Keys(c), func(a, b Counter) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Edge, b.Edge), cmp.Compare(a.Result, b.Result))
	})
}

// Result means the counts of one result.
func Result(result string) func(Counter) bool {
	return func(k Counter) bool { return k.Result == result }
}

// String is a table of what was written.
func (c Counts) String() string {
	var b strings.Builder
	for _, k := range c.Keys() {
		fmt.Fprintf(&b, "  %-13s %-14s %-15s %-8s %6d\n", k.Manager, k.Kind, k.Edge, k.Result, c[k])
	}
	return b.String()
}
