package bench

import (
	"iter"
	"math/rand/v2"
	"time"
)

// arrivals are the times of a Poisson process of a rate, counted from its beginning,
// without an end. The same seed makes the same times.
func arrivals(seed uint64, rate float64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		for at := 0.0; ; {
			at += rnd.ExpFloat64() / rate
			if !yield(time.Duration(at * float64(time.Second))) {
				return
			}
		}
	}
}
