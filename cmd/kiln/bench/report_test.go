package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const limit = 500 * time.Millisecond

// sample is a report with everything in it.
func sample() *Report {
	result := func(scenario string, p50, cpu float64) Result {
		return Result{
			Scenario: scenario, Pool: 100, Rate: 10, Claims: 3, Ready: 3,
			Latency: Latency{P50: p50, P90: 2 * p50, P99: 3 * p50, Max: 3 * p50, Mean: p50}, Overtaken: 7,
			ReadyLatency: Latency{P50: p50 - 1, P99: 3*p50 - 1},
			SubmitQPS:    10, CompletionQPS: 9, PeakConcurrency: 2, WarmServedFraction: 1, AllReadySeconds: 1.5, CycleSeconds: 3,
			Requests: []Requests{{"POST", "sandboxclaims", "201", 1}, {"APPLY", "sandboxes", "200", cpu / 10}, {"GET", "pods", "200", 0.5}},
			CPU:      &CPU{By: map[string]float64{apiServer: cpu / 2, etcd: cpu / 4, controller: cpu / 8, others: cpu / 8}, Sum: cpu, LoadTool: 3},
			Memory:   map[string]float64{controller: 123},
			Timeline: []Claim{{0, 2, p50, p50, 900, false}, {100, 103, 100 + 2*p50, 100 + 2*p50, 900, false}, {200, 0, 200 + 3*p50, 200 + 3*p50, 0, true}},
			Usage:    []Usage{{0.5, map[string]float64{apiServer: 0.4, loadTool: 0.1}}, {1, map[string]float64{apiServer: 0.6}}},
		}
	}
	r := &Report{
		Version: "v1", At: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Server: "v1.36.3", Cores: 2, TemplateBytes: 4300,
		Rounds: []Round{{Results: []Result{result(Floor, 10, 40), result(Sustained, 20, 60), result(Sweep+"@10", 30, 60), result(Sweep+"@20", 300, 60)}}},
	}
	r.Rounds[0].Results[1].Errors = map[string]int{"create: Forbidden": 2, "<b>": 1}
	r.Divide(nil)
	return r
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "new", "report.json")
	g.Expect(sample().WriteFile(path)).To(Succeed())
	g.Expect(ReadReport(path)).To(Equal(sample()))

	more := sample()
	g.Expect(more.Join(path)).To(Succeed())
	g.Expect(more.Rounds).To(HaveLen(2), "the rounds of the file come first")
	g.Expect(more.Join(filepath.Join(t.TempDir(), "none.json"))).To(Succeed())

	other := filepath.Join(t.TempDir(), "other.json")
	for _, text := range []string{"{}", "[]", "no JSON"} {
		g.Expect(os.WriteFile(other, []byte(text), 0o600)).To(Succeed())
		_, err := ReadReport(other)
		g.Expect(err).To(MatchError(ContainSubstring("is no report of kiln bench")))
		g.Expect(more.Join(other)).NotTo(Succeed(), "what is no report is not overwritten")
	}
}

func TestEveryResultIsDividedByTheFloorOfItsRound(t *testing.T) {
	g := NewWithT(t)
	by := func(n float64) map[string]float64 { return map[string]float64{apiServer: n, etcd: n, others: n} }
	r := sample()
	g.Expect(*r.Rounds[0].Results[0].ToFloor).To(Equal(Ratios{P50: 1, CPU: 1, Requests: 1, By: by(1)}))
	g.Expect(*r.Rounds[0].Results[1].ToFloor).To(Equal(Ratios{P50: 2, CPU: 1.5, Requests: 7.5 / 5.5, By: by(1.5)}))

	without := sample()
	without.Rounds[0].Results = without.Rounds[0].Results[1:]
	without.Rounds[0].Results[0].ToFloor = nil
	without.Divide(nil)
	without.Divide(nil)
	g.Expect(without.Rounds[0].Results[0].ToFloor).To(BeNil(), "there is no floor")
	g.Expect(without.Rounds[0].Notes).To(Equal([]string{noFloor}), "and the report says so once")
	without.Rounds[0].Notes = nil
	without.Divide(r)
	g.Expect(without.Rounds[0].Notes).To(BeEmpty())
	g.Expect(without.Rounds[0].Results[0].ToFloor.CPU).To(Equal(1.5), "the floor of another report")
}

func TestABurstIsDividedByTheFloorOfABurst(t *testing.T) {
	g := NewWithT(t)
	result := func(scenario string, p50, cpu float64) Result {
		return Result{Scenario: scenario, Latency: Latency{P50: p50}, CPU: &CPU{Sum: cpu}}
	}
	r := &Report{Rounds: []Round{{Results: []Result{
		result(Floor, 10, 40), {Scenario: FloorBurst, Latency: Latency{P50: 400}}, result(Sustained, 20, 60), result(Burst, 600, 60),
	}}}}
	r.Divide(nil)
	var p50, cpu []float64
	for _, one := range r.Rounds[0].Results {
		p50, cpu = append(p50, one.ToFloor.P50), append(cpu, one.ToFloor.CPU)
	}
	g.Expect(p50).To(Equal([]float64{1, 1, 2, 1.5}))
	g.Expect(cpu).To(Equal([]float64{1, 0, 1.5, 1.5}), "the cycle is that of any claim")
	alone := &Report{Rounds: []Round{{Results: []Result{result(Burst, 800, 60)}}}}
	alone.Divide(r)
	g.Expect(alone.Rounds[0].Results[0].ToFloor.P50).To(Equal(2.0), "the floor of another report")
}

func TestATableSaysWhatWasMeasured(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	r := sample()
	r.Rounds[0].Notes = []string{"no requests per claim: forbidden"}
	g.Expect(r.Print(&out, limit)).To(Succeed())
	text := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
	for _, line := range []string{
		"API server v1.36.3, 2 cores here, pod template 4.3 KB, 2026-11-21T00:00:00Z",
		"SCENARIO POOL CLAIMS P50 ms P90 P99 MAX OVERTAKEN P50/FLOOR READY P50 P99 ALL SERVED s",
		"sustained 100 3 20.0 40.0 60.0 60.0 7.00 2.00 19.0 59.0 1.50 10.0 9.00 2 1.00 0 1 <b>, 2 create: Forbidden",
		"sustained 60.0 30.0 (x1.50) 15.0 (x1.50) 7.50 7.50 (x1.50) 1.50 3.00 7.50 7.00 1.36 123",
		"sweep: 10.0 claims a second is the highest rate that was tried with p99 <= 500ms",
		"checks: double_held 0, stale_served 0, unbound 0, unreachable_at_ready 0",
		"note: no requests per claim: forbidden",
	} {
		g.Expect(text).To(ContainSubstring(line))
	}
}

func TestAPageNeedsNoOtherAndItsPlotsAreWellFormed(t *testing.T) {
	g := NewWithT(t)
	r := sample()
	r.Rounds[0].Results[1].Checks.DoubleHeld = 1
	r.Rounds[0].Results[1].Violations = []string{"sandbox <s> is held by claims a, b"}
	text, err := r.Page(limit)
	g.Expect(err).NotTo(HaveOccurred())
	page := string(text)
	g.Expect(regexp.MustCompile(`(src|href)=|@import|url\(|<script`).FindString(page)).To(BeEmpty())
	g.Expect(page).To(ContainSubstring("promises were broken"))
	g.Expect(page).NotTo(ContainSubstring("<s>"), "text is escaped")
	g.Expect(page).To(ContainSubstring("<td>POST<td>sandboxclaims<td>201<td>1.00"))
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	g.Expect(pictures).To(HaveLen(1+4*3), "the latency of all, and three of each")
	for _, picture := range pictures {
		g.Expect(picture).NotTo(MatchRegexp(`NaN|Inf`))
		d := xml.NewDecoder(strings.NewReader(picture))
		for err = nil; err == nil; _, err = d.Token() {
		}
		g.Expect(err).To(Equal(io.EOF))
	}
}

func TestAPageShowsAResultOfNothing(t *testing.T) {
	g := NewWithT(t)
	r := &Report{Rounds: []Round{{Results: []Result{{Scenario: Serial}, {Scenario: Burst, Claims: 1, Timeline: []Claim{{Asked: 1}}}}}}}
	text, err := r.Page(limit)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).NotTo(MatchRegexp(`NaN|Inf`))
}
