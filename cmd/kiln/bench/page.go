package bench

import (
	"bytes"
	_ "embed"
	"html/template"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A view is what a page shows of a report.
type view struct {
	At, Table string
	Broken    error
	Rounds    []viewRound
}

type viewRound struct {
	Number  int
	Latency template.HTML
	Results []viewResult
}

type viewResult struct {
	Result
	Plots []viewPlot
}

type viewPlot struct {
	Name string
	SVG  template.HTML
}

// The plots of a result, in their order.
var plotsOf = []struct {
	name string
	draw func(Result) string
}{
	{"Every claim, from asking to deleting", plotTimeline},
	{"Throughput", plotThroughput},
	{"CPU by process", plotCPU},
}

// Page is the report as one HTML file that needs no other.
func (r *Report) Page(limit time.Duration) ([]byte, error) {
	var table bytes.Buffer
	if err := r.Print(&table, limit); err != nil {
		return nil, err
	}
	v := view{At: r.At.Format(time.RFC3339), Table: table.String(), Broken: r.Broken()}
	for i, round := range r.Rounds {
		shown := viewRound{Number: i + 1, Latency: svg(plotLatency(round.Results))}
		for _, one := range round.Results {
			result := viewResult{Result: one}
			for _, plot := range plotsOf {
				if drawn := plot.draw(one); drawn != "" {
					result.Plots = append(result.Plots, viewPlot{plot.name, svg(drawn)})
				}
			}
			shown.Results = append(shown.Results, result)
		}
		v.Rounds = append(v.Rounds, shown)
	}
	var out bytes.Buffer
	err := page.Execute(&out, v)
	return out.Bytes(), err
}

// svg marks a picture of ours as one: whatever text is in it has been escaped.
func svg(picture string) template.HTML { return template.HTML(picture) }

// WritePage writes the report as HTML.
func (r *Report) WritePage(path string, limit time.Duration) error {
	text, err := r.Page(limit)
	if err != nil {
		return err
	}
	return writeFile(path, text)
}
