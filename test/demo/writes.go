package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A write is a kind of request to the API server, as Kiln's own counter has it.
type write struct{ manager, kind, edge, result string }

// Writes are requests counted.
type writes map[write]float64

// The results of a request that did not do its work because the object had
// changed, or was not there.
const (
	conflict = "lost"
	notFound = "gone"
	unsent   = "skipped" // not a request: there was nothing to change
)

// readWrites reads Kiln's counters from its metrics.
func readWrites(ctx context.Context, url string) (writes, error) {
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
	counted := writes{}
	for _, m := range families["kiln_writes_total"].GetMetric() {
		label := labels(m)
		w := write{label["manager"], label["kind"], label["edge"], label["result"]}
		if w.result != unsent {
			counted[w] = m.GetCounter().GetValue()
		}
	}
	return counted, nil
}

func labels(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// minus returns what was written since an earlier count.
func (w writes) minus(earlier writes) writes {
	rest := writes{}
	for k, n := range w {
		if n > earlier[k] {
			rest[k] = n - earlier[k]
		}
	}
	return rest
}

// sum counts the writes with one of the results, or all of them if none is given.
func (w writes) sum(results ...string) float64 {
	total := 0.0
	for k, n := range w {
		if len(results) == 0 || slices.Contains(results, k.result) {
			total += n
		}
	}
	return total
}

// of returns the writes of a manager, and rest those of all the others.
func (w writes) of(manager string) (its, rest writes) {
	its, rest = writes{}, writes{}
	for k, n := range w {
		if k.manager == manager {
			its[k] = n
		} else {
			rest[k] = n
		}
	}
	return its, rest
}

// table prints the writes by manager and edge, and what that makes per claim.
func (w writes) table(claims int) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "  MANAGER\tKIND\tEDGE\tRESULT\tWRITES\tPER CLAIM")
	for _, k := range slices.SortedFunc(maps.Keys(w), func(a, b write) int {
		return cmp.Or(cmp.Compare(a.manager, b.manager), cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.edge, b.edge), cmp.Compare(a.result, b.result))
	}) {
		fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%.0f\t%.1f\n", k.manager, k.kind, k.edge, k.result, w[k], w[k]/float64(claims))
	}
	fmt.Fprintf(out, "  all\t\t\t\t%.0f\t%.1f\n", w.sum(), w.sum()/float64(claims))
	out.Flush()
}
