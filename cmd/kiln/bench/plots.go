package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The size of a plot, and the room around it for axes.
const (
	plotWidth, plotHeight = 620.0, 260.0
	left, right           = 52.0, 12.0
	top, bottom           = 10.0, 34.0
)

// colors are those of the series of a plot, one after the other.
var colors = []string{"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#db2777", "#65a30d", "#475569", "#92400e"}

func color(i int) string { return colors[i%len(colors)] }

// A plot is a picture in the making, in SVG.
type plot struct {
	svg          strings.Builder
	xMin, xMax   float64
	yMax         float64
	logarithmic  bool // the x axis
	xName, yName string
	names        []string
}

func (p *plot) x(v float64) float64 {
	lo, hi := p.xMin, p.xMax
	if p.logarithmic {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(max(v, p.xMin))
	}
	return left + (v-lo)/(hi-lo)*(plotWidth-left-right)
}

func (p *plot) y(v float64) float64 {
	return plotHeight - bottom - v/p.yMax*(plotHeight-top-bottom)
}

// line draws a series through points that are given as x and y in turn.
func (p *plot) line(points []float64) {
	p.svg.WriteString(`<polyline fill="none" stroke-width="1.5" stroke="` + color(len(p.names)-1) + `" points="`)
	for i := 0; i+1 < len(points); i += 2 {
		fmt.Fprintf(&p.svg, "%.1f,%.1f ", p.x(points[i]), p.y(points[i+1]))
	}
	p.svg.WriteString(`"/>`)
}

// series begins a new one: what is drawn from here on has its color.
func (p *plot) series(name string) { p.names = append(p.names, name) }

// String is the whole picture: axes, series and legend.
func (p *plot) String() string { return p.colored(colors) }

// colored is the picture with a legend in some colors.
func (p *plot) colored(colors []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img">`, plotWidth, plotHeight+18*math.Ceil(float64(len(p.names))/4))
	for _, v := range ticks(p.yMax) {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			left, plotWidth-right, p.y(v), p.y(v), left-5, p.y(v)+4, figure(v))
	}
	for _, v := range p.xTicks() {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			p.x(v), p.x(v), top, plotHeight-bottom, p.x(v), plotHeight-bottom+14, figure(v))
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text><text x="4" y="9">%s</text>`,
		plotWidth-right, plotHeight-4, html.EscapeString(p.xName), html.EscapeString(p.yName))
	b.WriteString(p.svg.String())
	for i, name := range p.names {
		x, y := left+float64(i%4)*140, plotHeight+14+18*float64(i/4)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/><text x="%.1f" y="%.1f">%s</text>`,
			x, y-9, colors[i%len(colors)], x+14, y, html.EscapeString(name))
	}
	b.WriteString(`</svg>`)
	return b.String()
}

func (p *plot) xTicks() []float64 {
	if !p.logarithmic {
		return ticks(p.xMax)
	}
	var all []float64
	for v := math.Pow(10, math.Floor(math.Log10(p.xMin))); v <= p.xMax; v *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if v*k >= p.xMin && v*k <= p.xMax {
				all = append(all, v*k)
			}
		}
	}
	return all
}

// ticks are round numbers from 0 to about five steps on.
func ticks(most float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, k := range []float64{0.1, 0.2, 0.5, 1} {
		if most/(step*k) <= 6 {
			step *= k
			break
		}
	}
	var all []float64
	for v := 0.0; v <= most*1.001; v += step {
		all = append(all, v)
	}
	return all
}

// plotLatency draws for each result which share of claims was served within a time.
func plotLatency(results []Result) string {
	p := &plot{xMin: math.Inf(1), yMax: 1, logarithmic: true, xName: "milliseconds", yName: "share of claims"}
	all := map[int][]float64{}
	for i, r := range results {
		var took []float64
		for _, c := range r.Timeline {
			if c.Served > 0 {
				took = append(took, max(c.Served-c.Asked, 0.1))
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		p.xMin, p.xMax = min(p.xMin, took[0]), max(p.xMax, took[len(took)-1])
		all[i] = took
	}
	if len(all) == 0 {
		return ""
	}
	p.xMin, p.xMax = p.xMin*0.9, p.xMax*1.1
	for i, r := range results {
		took := all[i]
		if len(took) == 0 {
			continue
		}
		p.series(r.Scenario)
		var points []float64
		for n := range took {
			points = append(points, took[n], float64(n+1)/float64(len(took)))
		}
		p.line(points)
	}
	return p.String()
}

// mostLives is how many claims a timeline shows; of more, it shows every second, third
// and so on.
const mostLives = 800

// phases are the parts of a claim's life as a timeline shows them: from and to, in
// milliseconds, of a scenario that has ended at some time. What never was has no length.
var phases = []struct {
	name string
	of   func(c Claim, end float64) (from, to float64)
}{
	{"asked, not seen yet", func(c Claim, _ float64) (from, to float64) { return c.Asked, c.Seen }},
	{"binding", func(c Claim, _ float64) (from, to float64) { return c.Seen, c.Served }},
	{"bound", func(c Claim, _ float64) (from, to float64) {
		if c.Served == 0 {
			return 0, 0
		}
		return c.Served, c.Dropped
	}},
	{"never bound", func(c Claim, end float64) (from, to float64) {
		if c.Served > 0 {
			return 0, 0
		}
		return c.Asked, end
	}},
}

// plotTimeline draws a line for each claim, from asking to deleting.
func plotTimeline(r Result) string {
	p := &plot{xName: "seconds", yName: "claims", yMax: float64(len(r.Timeline))}
	for _, c := range r.Timeline {
		p.xMax = max(p.xMax, c.Asked/1000, c.Served/1000, c.Dropped/1000)
	}
	if p.xMax == 0 {
		return ""
	}
	each := len(r.Timeline)/mostLives + 1
	width := min(max((plotHeight-top-bottom)/float64(len(r.Timeline)), 0.6), 4)
	for n, phase := range phases {
		p.series(phase.name)
		for i := 0; i < len(r.Timeline); i += each {
			from, to := phase.of(r.Timeline[i], p.xMax*1000)
			if to <= from {
				continue
			}
			y := p.y(float64(i))
			fmt.Fprintf(&p.svg, `<line stroke="%s" stroke-width="%.1f" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`,
				stages[n], width, p.x(from/1000), max(p.x(to/1000), p.x(from/1000)+0.5), y, y)
		}
	}
	return p.colored(stages)
}

// stages are the colors of a claim's phases.
var stages = []string{"#94a3b8", "#d97706", "#86c5a4", "#dc2626"}

// plotThroughput draws how many claims came, and were served, in each second.
func plotThroughput(r Result) string {
	p := &plot{xName: "seconds", yName: "claims a second"}
	counts := map[string]map[int]float64{"asked": {}, "served": {}}
	for _, c := range r.Timeline {
		counts["asked"][int(c.Asked/1000)]++
		if c.Served > 0 {
			counts["served"][int(c.Served/1000)]++
		}
		p.xMax = max(p.xMax, math.Floor(c.Asked/1000)+1, math.Floor(c.Served/1000)+1)
	}
	for _, all := range counts {
		for _, n := range all {
			p.yMax = max(p.yMax, n)
		}
	}
	if p.yMax == 0 {
		return ""
	}
	for _, what := range []string{"asked", "served"} {
		p.series(what)
		var points []float64
		for s := range int(p.xMax) {
			n := counts[what][s]
			points = append(points, float64(s), n, float64(s+1), n)
		}
		p.line(points)
	}
	return p.String()
}

// plotCPU draws how many cores each group of processes used.
func plotCPU(r Result) string {
	p := &plot{xName: "seconds", yName: "cores"}
	for _, u := range r.Usage {
		p.xMax = max(p.xMax, u.At)
		for _, cores := range u.Cores {
			p.yMax = max(p.yMax, cores)
		}
	}
	if p.yMax == 0 {
		return ""
	}
	for _, group := range []string{apiServer, etcd, controller, others, loadTool} {
		var points []float64
		for _, u := range r.Usage {
			if cores, used := u.Cores[group]; used {
				points = append(points, u.At, cores)
			}
		}
		if len(points) > 0 {
			p.series(group)
			p.line(points)
		}
	}
	return p.String()
}
