package claim

import (
	"testing"

	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A claim's whole way from its first sight to its answer allocates no more than a third
// more than it does today, and so does a look at it. To decide allocates nothing.
func TestAClaimsStepsAllocateLittle(t *testing.T) {
	const runs = 20
	worlds := make([]*world, 0, runs+1)
	for range runs + 1 { // the first one is not counted
		w, _ := lends(t, aClaim(), aPool())
		w.Annotate = func(view.Key) {}
		worlds = append(worlds, w)
	}
	last := worlds[runs]
	seen := last.Observe(key, learned{})
	observed := testing.AllocsPerRun(runs, func() { last.Observe(key, learned{}) })
	decided := testing.AllocsPerRun(runs, func() { last.Decide(seen) })
	i := 0
	served := testing.AllocsPerRun(runs, func() {
		loop.Step(t.Context(), worlds[i].Claims, key)
		i++
	})
	if observed > 24 || decided > 0 || served > 440 {
		t.Errorf("%v allocations to observe a claim, %v to decide and %v until it is told", observed, decided, served)
	}
}

// BenchmarkStep is a claim's steps without the server: whatever is written is answered
// at once.
func BenchmarkStep(b *testing.B) {
	b.Run("a warm claim from first sight to told", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			w, r := lends(b, aClaim(), aPool())
			w.Annotate = func(view.Key) {}
			b.StartTimer()
			loop.Step(b.Context(), w.Claims, key)
			if len(r.wrote) != 2 {
				b.Fatal(r.wrote)
			}
		}
	})
	b.Run("a claim that was told", func(b *testing.B) {
		w, _ := lends(b, aClaim(), aPool())
		w.Annotate = func(view.Key) {}
		loop.Step(b.Context(), w.Claims, key)
		b.ReportAllocs()
		for b.Loop() {
			loop.Step(b.Context(), w.Claims, key)
		}
	})
	b.Run("what is observed", func(b *testing.B) {
		w, _ := lends(b, aClaim(), aPool())
		b.ReportAllocs()
		for b.Loop() {
			w.Observe(key, learned{})
		}
	})
	b.Run("what is decided", func(b *testing.B) {
		w, _ := lends(b, aClaim(), aPool())
		seen := w.Observe(key, learned{})
		b.ReportAllocs()
		for b.Loop() {
			if w.Decide(seen).Ends() {
				b.Fatal("there is nothing to do")
			}
		}
	})
}
