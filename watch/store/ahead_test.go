package store

import (
	"fmt"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// What an index finds costs what it finds, however much is ahead beside that.
func TestAnIndexLooksOnlyAtWhatItFinds(t *testing.T) {
	looks := func(ahead int) int {
		count := 0
		index := func(o any) ([]string, error) {
			count++
			return []string{o.(*corev1.Pod).Namespace + "/" + apply.OwnerOf(o.(*corev1.Pod)).UID}, nil
		}
		h := hand{newStore[*corev1.Pod](informer(&cache.ListWatch{}, &corev1.Pod{}, indexes{ByOwner: index}), nil), NewWithT(t)}
		h.puts(in("mine", pod("p", "u", "5")))
		for i := range ahead {
			h.puts(pod(fmt.Sprint("p", i), fmt.Sprint("u", i), fmt.Sprint(10+i)))
		}
		count = 0
		h.g.Expect(h.By(ByOwner, "mine/owner")).To(HaveLen(1))
		return count
	}
	NewWithT(t).Expect(looks(10000)).To(Equal(looks(10)))
}

// An object that is made and gone while the watch is broken has no event. The store
// does not remember it, and whoever counts it is told.
func TestWhatTheInformerPassesWithoutAWordIsForgotten(t *testing.T) {
	h := byHand(t)
	var told []string
	h.Touched(func(k view.Key) { told = append(told, k.Name) })
	h.puts(pod("p", "u", "9"))
	h.puts(pod("q", "v", "30"))
	h.g.Expect(told).To(Equal([]string{"p", "q"}))
	h.Sweep()
	h.g.Expect(told).To(HaveLen(2), "the informer has passed nothing")
	h.shows(pod("other", "w", "20"))
	h.resolve(view.Key{Namespace: "ns", Name: "other"})
	h.g.Expect(told).To(Equal([]string{"p", "q", "other", "p"}))
	h.g.Expect(h.Ahead()).To(Equal(1))
	h.shows(pod("q", "v", "30"))
	h.resolve(view.Key{Namespace: "ns", Name: "q"})
	h.g.Expect(told).To(Equal([]string{"p", "q", "other", "p", "q"}), "what the informer shows is told once")
	h.g.Expect(h.Ahead()).To(BeZero())
	h.g.Expect(h.ahead.by).To(BeEmpty())
	h.g.Expect(h.ahead.order).To(BeEmpty())
}

// An object that came and went over a gap of the watch has no event of its own. Whoever
// remembers anything of it has to hear of its end all the same.
func TestTheEndThatTheInformerNeverTellsIsTold(t *testing.T) {
	known := pod("p", "u", "9")
	for _, row := range []struct {
		name string
		end  func(hand)
		told bool
	}{
		{"swept at another's event", func(h hand) { h.shows(pod("other", "w", "20")); h.Sweep() }, true},
		{"found out by a look", func(h hand) { h.shows(pod("other", "w", "20")); h.version("p") }, true},
		{"found out by an index", func(h hand) { h.shows(pod("other", "w", "20")); h.By(ByOwner, "ns/owner") }, true},
		{"said by the API server", func(h hand) { h.MarkDeleted(known) }, true},
		{"shown, and then gone with an event", func(h hand) { h.shows(known); h.version("p"); h.drops(known); h.MarkDeleted(known) }, false},
		{"not over", func(h hand) { h.Sweep(); h.version("p") }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := byHand(t)
				var told []Change[*corev1.Pod]
				h.handlers = append(h.handlers, func(c Change[*corev1.Pod]) { told = append(told, c) })
				h.puts(known)
				row.end(h)
				synctest.Wait()
				if !row.told {
					h.g.Expect(told).To(BeEmpty())
					return
				}
				h.g.Expect(told).To(Equal([]Change[*corev1.Pod]{{Was: known, HadWas: true, Missed: true}}))
				h.g.Expect(h.missed).To(BeEmpty())
			})
		})
	}
}

func TestAnIndexFindsAnObjectAheadUnderItsNewValueAlone(t *testing.T) {
	h := byHand(t)
	moved := func(p *corev1.Pod) *corev1.Pod {
		p.OwnerReferences[0].UID = "owner-x"
		return p
	}
	h.puts(pod("p", "u", "5"))
	h.puts(moved(pod("p", "u", "6")))
	h.g.Expect(h.By(ByOwner, "ns/owner")).To(BeEmpty())
	h.g.Expect(h.By(ByOwner, "ns/owner-x")).To(HaveLen(1))
	h.MarkDeleted(pod("p", "u", "6"))
	h.g.Expect(h.By(ByOwner, "ns/owner-x")).To(BeEmpty())
	h.g.Expect(h.ahead.by).To(BeEmpty())
}

// The informer may have an object whose event nobody has heard yet. Whoever goes on
// after an answer must not count without it.
func TestAnAnswerIsToldAlsoWhenTheInformerHasItAlready(t *testing.T) {
	h := byHand(t)
	told := 0
	h.Touched(func(view.Key) { told++ })
	h.shows(pod("p", "u", "9"))
	h.puts(pod("p", "u", "9"))
	h.g.Expect(told).To(Equal(1))
	h.MarkDeleted(pod("p", "u", "9"))
	h.g.Expect(told).To(Equal(2))
}
