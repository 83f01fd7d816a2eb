// Command prom runs queries and rules by Prometheus' own engine on what a controller told at
// a few scrapes. It is a module of its own because nothing else needs Prometheus; a test
// of the chart builds it, writes a Question to its standard input and reads an Answer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// A Question is what to run on what.
type Question struct {
	// Scrapes are what was told, one scrape after the other, as text.
	Scrapes []string
	// Queries are expressions, and Rules a file of rules.
	Queries []string
	Rules   string
}

// An Answer is what came of it.
type Answer struct {
	// Queries are the answers in the order of the queries, and Alerts those by alert.
	Queries []Result
	Alerts  map[string]Result
	// Wrong is what is wrong with the file of rules.
	Wrong []string
}

// A Result is what a query gives at the last scrape.
type Result struct {
	// Series are those that have a value, by their labels.
	Series map[string]float64
	// Unknown are metrics, or labels of metrics, that nobody told.
	Unknown []string
	// Wrong is why the query could not be run.
	Wrong string
}

// apart is the time between two scrapes.
const apart = 15 * time.Second

func main() {
	var q Question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fail(err)
	}
	a, err := answer(q)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "prom:", err)
	os.Exit(1)
}

func answer(q Question) (a Answer, err error) {
	told := memory{series: map[string]*series{}}
	for i, text := range q.Scrapes {
		if err := told.scrape(text, at(i)); err != nil {
			return a, fmt.Errorf("scrape %d: %w", i, err)
		}
	}
	now := at(len(q.Scrapes) - 1)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute})
	for _, expr := range q.Queries {
		a.Queries = append(a.Queries, told.run(engine, expr, now))
	}
	a.Alerts = map[string]Result{}
	groups, wrong := rulefmt.Parse([]byte(q.Rules), false, model.UTF8Validation)
	for _, one := range wrong {
		a.Wrong = append(a.Wrong, one.Error())
	}
	if groups == nil {
		return a, nil
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			a.Alerts[rule.Alert] = told.run(engine, rule.Expr, now)
		}
	}
	return a, nil
}

func at(scrape int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(scrape) * apart) }

// memory is what was told, by series.
type memory struct{ series map[string]*series }

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// A sample is a value at a time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

func (m memory) scrape(text string, now time.Time) error {
	p, err := textparse.New([]byte(text), "text/plain; version=0.0.4", nil, textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		p.Labels(&of)
		_, _, value := p.Series()
		key := of.String()
		if m.series[key] == nil {
			m.series[key] = &series{labels: of}
		}
		m.series[key].samples = append(m.series[key].samples, sample{now.UnixMilli(), value})
	}
}

// Querier makes memory a storage that can be asked.
func (m memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &set{at: -1}
		for _, one := range m.series {
			if !slices.ContainsFunc(matchers, func(x *labels.Matcher) bool { return !x.Matches(one.labels.Get(x.Name)) }) {
				found.all = append(found.all, storage.NewListSeries(one.labels, one.samples))
			}
		}
		slices.SortFunc(found.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
		return found
	}}, nil
}

func (m memory) run(engine *promql.Engine, expr string, now time.Time) (r Result) {
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return Result{Wrong: err.Error()}
	}
	r.Unknown = m.unknown(parsed)
	query, err := engine.NewInstantQuery(context.Background(), m, nil, expr, now)
	if err != nil {
		return Result{Wrong: err.Error()}
	}
	defer query.Close()
	result := query.Exec(context.Background())
	vector, err := result.Vector()
	if err != nil {
		return Result{Wrong: err.Error()}
	}
	r.Series = map[string]float64{}
	for _, one := range vector {
		if !math.IsNaN(one.F) && !math.IsInf(one.F, 0) {
			r.Series[one.Metric.String()] = one.F
		}
	}
	return r
}

// unknown are the metrics of an expression that nobody told, and the labels by which they
// are chosen, or that are asked of them, and that they have not.
func (m memory) unknown(expr parser.Expr) (all []string) {
	known := map[string]map[string]bool{}
	for _, one := range m.series {
		name := one.labels.Get(labels.MetricName)
		if known[name] == nil {
			known[name] = map[string]bool{labels.MetricName: true}
		}
		one.labels.Range(func(l labels.Label) { known[name][l.Name] = true })
	}
	var below func(node parser.Node, asked []string)
	below = func(node parser.Node, asked []string) {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			asked = append(slices.Clone(asked), node.Grouping...)
		case *parser.VectorSelector:
			if known[node.Name] == nil {
				all = append(all, node.Name)
				return
			}
			for _, x := range node.LabelMatchers {
				asked = append(asked, x.Name)
			}
			for _, label := range asked {
				if !known[node.Name][label] {
					all = append(all, node.Name+" has no label "+label)
				}
			}
		}
		for child := range parser.ChildrenIter(node) {
			below(child, asked)
		}
	}
	below(expr, nil)
	slices.Sort(all)
	return slices.Compact(all)
}

// A set is the series that were found.
type set struct {
	all []storage.Series
	at  int
}

// Next goes to the next series.
func (s *set) Next() bool { s.at++; return s.at < len(s.all) }

// At is the series that it has come to.
func (s *set) At() storage.Series { return s.all[s.at] }

// Err is always nil.
func (s *set) Err() error { return nil }

// Warnings are always none.
func (s *set) Warnings() annotations.Annotations { return nil }
