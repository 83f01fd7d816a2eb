package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Latency is the distribution of the time that claims took, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// A Claim is one claim on the timeline, in milliseconds from the scenario's beginning;
// zero means never.
type Claim struct {
	Asked   float64 `json:"asked"`
	Seen    float64 `json:"seen"`
	Bound   float64 `json:"bound"`
	Served  float64 `json:"served"`
	Dropped float64 `json:"dropped"`
	Cold    bool    `json:"cold,omitempty"`
}

// summarize works out every figure that the lives of claims hold.
func summarize(lives []life) Result {
	var r Result
	var took, ready []float64
	var first, asked, answered, served time.Duration
	warm := 0
	for i, one := range lives {
		if i == 0 || one.asked < first {
			first = one.asked
		}
		asked, answered, served = max(asked, one.asked), max(answered, one.answered), max(served, one.served)
		cold := one.sandbox == one.name
		r.Timeline = append(r.Timeline, Claim{
			Asked: ms(one.asked), Seen: ms(one.seen), Bound: ms(one.bound), Served: ms(one.served), Dropped: ms(one.dropped), Cold: cold && one.bound > 0,
		})
		if one.bound > 0 {
			ready = append(ready, ms(one.bound-one.asked))
		}
		if one.served == 0 {
			continue
		}
		took = append(took, ms(one.served-one.asked))
		if !cold {
			warm++
		}
	}
	slices.SortFunc(r.Timeline, func(a, b Claim) int { return cmp.Compare(a.Asked, b.Asked) })
	r.Claims, r.Ready, r.Latency, r.ReadyLatency = len(lives), len(took), distribution(took), distribution(ready)
	if r.Ready == 0 {
		return r
	}
	r.WarmServedFraction = float64(warm) / float64(r.Ready)
	r.AllReadySeconds = (served - first).Seconds()
	r.SubmitQPS = per(len(lives), max(asked, answered)-first)
	r.CompletionQPS = per(r.Ready, served-first)
	r.PeakConcurrency, r.Overtaken = peak(lives), ms(overtaken(lives))
	return r
}

// overtaken is the longest that a claim waited on after a later one was served.
func overtaken(lives []life) (most time.Duration) {
	served := slices.DeleteFunc(slices.Clone(lives), func(one life) bool { return one.served == 0 })
	slices.SortFunc(served, func(a, b life) int { return cmp.Compare(b.seen, a.seen) })
	first := time.Duration(math.MaxInt64) // when the first was served of those that came later
	for _, one := range served {
		most = max(most, one.served-first)
		first = min(first, one.served)
	}
	return most
}

func ms(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }

// per is how many a second.
func per(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// distribution sorts what it is given.
func distribution(took []float64) Latency {
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	sum := 0.0
	for _, t := range took {
		sum += t
	}
	return Latency{
		P50: percentile(took, 50), P90: percentile(took, 90), P99: percentile(took, 99),
		Max: took[len(took)-1], Mean: sum / float64(len(took)),
	}
}

// percentile is the smallest of sorted values that at least p of a hundred do not
// exceed.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// peak is the largest number of claims that waited at one time.
func peak(lives []life) int {
	type step struct {
		at time.Duration
		by int
	}
	var steps []step
	for _, one := range lives {
		steps = append(steps, step{one.asked, 1})
		if one.served > 0 {
			steps = append(steps, step{one.served, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by))
	})
	now, most := 0, 0
	for _, s := range steps {
		now += s.by
		most = max(most, now)
	}
	return most
}
