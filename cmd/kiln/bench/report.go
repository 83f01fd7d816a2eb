package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Report is what was measured, on what and how.
type Report struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Server is the version of the API server, Cores the cores of this machine.
	Server string `json:"server"`
	Cores  int    `json:"cores"`
	// TemplateBytes is the size of the pod template's spec.
	TemplateBytes int `json:"template_bytes"`
	// Rounds are the same scenarios again and again.
	Rounds []Round `json:"rounds"`
}

// A Round is every scenario once.
type Round struct {
	Results []Result `json:"results"`
	// Notes say what could not be measured, and why.
	Notes []string `json:"notes,omitempty"`
}

// A Result is one scenario, measured once. Latencies are in milliseconds.
type Result struct {
	// Scenario is its name; a sweep and a scale have a result for each of their steps,
	// named such as sweep@10.
	Scenario string `json:"scenario"`
	// Pool is how many sandboxes were warm, Rate how many claims a second came.
	Pool int     `json:"pool"`
	Rate float64 `json:"rate,omitempty"`

	Claims int `json:"claims"`
	Ready  int `json:"ready"`
	// Latency is from asking for a claim until it can be used: it is Ready, and its pod says
	// that it is the claim's. ReadyLatency is until it is Ready.
	Latency      Latency `json:"latency_ms"`
	ReadyLatency Latency `json:"ready_latency_ms"`
	// Overtaken is the longest that a claim waited on after one was served that the watch
	// had shown later, in milliseconds: zero where the first that comes is served first.
	Overtaken float64 `json:"overtaken_ms"`

	SubmitQPS          float64 `json:"submit_qps"`
	CompletionQPS      float64 `json:"completion_qps"`
	PeakConcurrency    int     `json:"peak_concurrency"`
	WarmServedFraction float64 `json:"warm_served_fraction"`
	// AllReadySeconds is from the first claim that was asked for to the last that was
	// served, CycleSeconds until all was as it had been.
	AllReadySeconds float64 `json:"all_ready_seconds"`
	CycleSeconds    float64 `json:"cycle_seconds"`

	Errors map[string]int `json:"errors,omitempty"`
	// Throttled is how often the server said 429 and was asked again later.
	Throttled  int      `json:"throttled"`
	Checks     Checks   `json:"checks"`
	Violations []string `json:"violations,omitempty"`

	// Requests is what the API server was asked, for each claim.
	Requests []Requests `json:"requests_per_claim,omitempty"`
	// CPU is what the processes used, for each claim, in milliseconds.
	CPU *CPU `json:"cpu_ms_per_claim,omitempty"`
	// Memory is how much the processes had at the end, in MiB.
	Memory map[string]float64 `json:"memory_mib,omitempty"`
	// ToFloor is this result in floors: what it is of what the cluster itself costs.
	ToFloor *Ratios `json:"to_floor,omitempty"`

	// Fill is what it took to fill the pool for this scenario.
	Fill *Fill `json:"fill,omitempty"`

	Timeline []Claim `json:"timeline,omitempty"`
	Usage    []Usage `json:"usage,omitempty"`
}

// Ratios are figures of one result, divided by those of another. Zero means that one
// of the two does not have it.
type Ratios struct {
	P50      float64 `json:"p50,omitempty"`
	CPU      float64 `json:"cpu,omitempty"`
	Requests float64 `json:"requests,omitempty"`
	// By is the CPU of each group of processes.
	By map[string]float64 `json:"cpu_by,omitempty"`
}

// requests is how many requests a claim cost, reads or writes alone.
func (r Result) requests(of func(verb string) bool) float64 {
	sum := 0.0
	for _, one := range r.Requests {
		if of(one.Verb) {
			sum += one.PerClaim
		}
	}
	return sum
}

func isWrite(verb string) bool {
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb)
}

func isAny(string) bool { return true }

// noFloor is the note on a round that is divided by nothing.
const noFloor = "no floor: give the scenario floor beside the others, or --floor with a report that has one"

// Divide divides every result by the floor of its round, or by that of another report
// if the round has none. A round without any says so.
func (r *Report) Divide(other *Report) {
	for i := range r.Rounds {
		round := &r.Rounds[i]
		floor, burst := round.find(Floor), round.find(FloorBurst)
		if floor == nil && other != nil {
			for _, one := range other.Rounds {
				if f := one.find(Floor); f != nil {
					floor, burst = f, one.find(FloorBurst)
				}
			}
		}
		if floor == nil {
			if !slices.ContainsFunc(round.Notes, func(n string) bool { return strings.HasPrefix(n, "no floor: ") }) {
				round.Notes = append(round.Notes, noFloor)
			}
			continue
		}
		for i := range round.Results {
			one := &round.Results[i]
			one.ToFloor = one.over(floor)
			if burst != nil && (one.Scenario == Burst || one.Scenario == FloorBurst) {
				one.ToFloor.P50 = ratio(one.Latency.P50, burst.Latency.P50)
			}
		}
	}
}

// over is a result in floors. The controller has none: a floor is without one.
func (r Result) over(floor *Result) *Ratios {
	ratios := &Ratios{
		P50:      ratio(r.Latency.P50, floor.Latency.P50),
		CPU:      ratio(r.cycleCPU(), floor.cycleCPU()),
		Requests: ratio(r.requests(isAny), floor.requests(isAny)),
	}
	for _, group := range []string{apiServer, etcd, others} {
		if each := ratio(r.cpu(group), floor.cpu(group)); each > 0 {
			if ratios.By == nil {
				ratios.By = map[string]float64{}
			}
			ratios.By[group] = each
		}
	}
	return ratios
}

func ratio(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a / b
}

// cycleCPU is what a claim cost all processes but the load tool.
func (r Result) cycleCPU() float64 {
	if r.CPU == nil {
		return 0
	}
	return r.CPU.Sum
}

func (r Round) find(scenario string) *Result {
	for i := range r.Results {
		if r.Results[i].Scenario == scenario {
			return &r.Results[i]
		}
	}
	return nil
}

// Broken says which promises were broken, or nothing.
func (r *Report) Broken() error {
	var all []string
	for i, round := range r.Rounds {
		for _, one := range round.Results {
			if one.Checks.broken() {
				all = append(all, fmt.Sprintf("round %d, %s: %v: %s", i+1, one.Scenario, one.Checks, strings.Join(one.Violations, "; ")))
			}
		}
	}
	if len(all) > 0 {
		return errors.New("promises were broken:\n  " + strings.Join(all, "\n  "))
	}
	return nil
}

// ReadReport reads a report that WriteFile wrote.
func ReadReport(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s is no report of kiln bench: %w", path, err)
	}
	if len(r.Rounds) == 0 {
		return nil, fmt.Errorf("%s is no report of kiln bench: it has no rounds", path)
	}
	return &r, nil
}

// WriteFile writes the report as JSON.
func (r *Report) WriteFile(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return writeFile(path, append(text, '\n'))
}

// Join puts the rounds that a file holds before those of this report. A file that is
// not there holds none.
func (r *Report) Join(path string) error {
	before, err := ReadReport(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Rounds = append(before.Rounds, r.Rounds...)
	return nil
}

// writeFile makes the directory, too.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
