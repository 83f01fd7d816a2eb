package loop

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// k is a key as tests write it: a/1.
func k(s string) view.Key { return view.Key{Namespace: s[:1], Name: s[2:]} }

func pushed(q *fairQueue, keys ...string) {
	for _, one := range keys {
		q.Push(k(one))
	}
}

func popped(q *fairQueue) (keys []string) {
	for q.Len() > 0 {
		keys = append(keys, q.Pop().String())
	}
	return keys
}

func TestNamespacesTakeTurnsAndEachKeepsItsOrder(t *testing.T) {
	g, q := NewWithT(t), newFairQueue(nil)
	pushed(q, "a/1", "a/2", "a/3", "b/1", "c/1", "b/2")
	g.Expect(popped(q)).To(Equal([]string{"a/1", "b/1", "c/1", "a/2", "b/2", "a/3"}))
	g.Expect(q.live.keys).To(BeEmpty())
	g.Expect(q.live.turns).To(BeEmpty())
}

func TestABurstOfOneNamespaceDelaysAKeyOfAnotherByOneStep(t *testing.T) {
	g, q := NewWithT(t), newFairQueue(nil)
	for i := range 5000 {
		q.Push(view.Key{Namespace: "a", Name: fmt.Sprint(i)})
	}
	q.Pop()
	q.Push(k("b/1"))
	before := slices.Index(popped(q), "b/1")
	t.Logf("%d of 5000 keys were taken before the one of another namespace", before)
	g.Expect(before).To(BeNumerically("<=", 1))
}

func TestWhatRestsIsSteppedBehindWhatIsWaitedForAndNeverForgotten(t *testing.T) {
	g := NewWithT(t)
	q := newFairQueue(func(key view.Key) bool { return key.Namespace == "r" })
	pushed(q, "r/1", "r/2", "r/3")
	for i := range 20 {
		q.Push(view.Key{Namespace: "a", Name: fmt.Sprint(i)})
	}
	order := popped(q)
	g.Expect(order).To(HaveLen(23))
	g.Expect([]int{slices.Index(order, "r/1"), slices.Index(order, "r/2")}).To(Equal([]int{restingTurn - 1, 2*restingTurn - 1}))
	g.Expect(order[22]).To(Equal("r/3"))
}

func TestAKeyThatRestsNoLongerGetsAnEarlierTurnAndOnlyOne(t *testing.T) {
	g, rests := NewWithT(t), true
	q := newFairQueue(func(key view.Key) bool { return rests && key.Namespace == "r" })
	pushed(q, "r/1", "r/2", "r/3", "a/1")
	q.Touch(k("r/2"))
	g.Expect(q.Len()).To(Equal(4))
	rests = false
	q.Touch(k("r/2"))
	q.Touch(k("r/2"))
	g.Expect(q.Len()).To(Equal(4))
	rests = true
	g.Expect(popped(q)).To(Equal([]string{"a/1", "r/2", "r/1", "r/3"}))
	pushed(q, "r/2")
	g.Expect(popped(q)).To(Equal([]string{"r/2"}))
	g.Expect(q.at).To(BeEmpty())
	g.Expect(q.resting.keys).To(BeEmpty())
}
