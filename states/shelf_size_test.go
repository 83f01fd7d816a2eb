package states

import (
	"fmt"
	"testing"
	"time"
)

// sizes are those of a shelf, from a small pool to more than a cluster can run.
var sizes = []int{10, 100, 1_000, 10_000, 100_000}

// stocked is a shelf with entries on fifty nodes, and a claim's whole business with it:
// it takes one and is done, and another is put in its place.
func stocked(size int) (business func() Offer) {
	s := NewShelf[int]()
	for i := range size {
		s.Put(Entry{Name: fmt.Sprint("p", i), Node: fmt.Sprint("n", i%50), Current: true, Since: at(i)}, time.Time{})
	}
	i := size
	return func() Offer {
		e, offer := s.Take(i, time.Time{})
		s.Done(i)
		e.Since = at(i)
		s.Put(e, time.Time{})
		i++
		return offer
	}
}

func TestAClaimCostsAsMuchOnALargeShelfAsOnASmallOne(t *testing.T) {
	small := 0.0
	for _, size := range sizes {
		business := stocked(size)
		each := testing.AllocsPerRun(1000, func() { business() })
		if small == 0 {
			small = each
		}
		if each > small+1 {
			t.Errorf("a claim costs %v allocations on a shelf of %d, and %v on one of %d", each, size, small, sizes[0])
		}
	}
}

func BenchmarkShelfOf(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			business := stocked(size)
			b.ReportAllocs()
			for b.Loop() {
				if offer := business(); offer != OfferTaken {
					b.Fatal(offer)
				}
			}
		})
	}
}
