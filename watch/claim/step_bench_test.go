package claim

import (
	"testing"

	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/view"
)

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
