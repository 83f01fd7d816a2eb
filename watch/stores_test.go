package watch

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// hand is a store whose informer never runs: the test is its watch.
type hand struct {
	*store[*corev1.Pod]
	g Gomega
}

func byHand(t *testing.T) hand {
	i := informer(&cache.ListWatch{}, &corev1.Pod{}, cache.Indexers{byOwner: ownerIndex})
	return hand{newStore[*corev1.Pod](i), NewWithT(t)}
}

func (h hand) shows(p *corev1.Pod) { h.g.Expect(h.informer.GetIndexer().Add(p)).To(Succeed()) }

func (h hand) drops(p *corev1.Pod) { h.g.Expect(h.informer.GetIndexer().Delete(p)).To(Succeed()) }

func (h hand) version(name string) string {
	p, ok := h.get(Key{Namespace: "ns", Name: name})
	if !ok {
		return "none"
	}
	return p.ResourceVersion
}

func pod(name, uid, version string) *corev1.Pod {
	yes := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: types.UID(uid), ResourceVersion: version,
		OwnerReferences: []metav1.OwnerReference{{Kind: "Sandbox", Name: name, UID: "owner", Controller: &yes}},
	}}
}

func TestAStoreShowsTheNewestItKnows(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(hand)
		want string
	}{
		{"what the informer has", func(h hand) { h.shows(pod("p", "u", "5")) }, "5"},
		{"a write the informer has not shown", func(h hand) { h.put(pod("p", "u", "9")) }, "9"},
		{"a write newer than the informer", func(h hand) { h.shows(pod("p", "u", "5")); h.put(pod("p", "u", "9")) }, "9"},
		{"the informer, once it has passed the write", func(h hand) {
			h.put(pod("p", "u", "9"))
			h.shows(pod("p", "u", "12"))
		}, "12"},
		{"the informer, when the answer of a write came late", func(h hand) {
			h.shows(pod("p", "u", "12"))
			h.put(pod("p", "u", "9"))
		}, "12"},
		{"nothing, when the object was made and deleted before the answer came", func(h hand) {
			h.shows(pod("other", "v", "20"))
			h.put(pod("p", "u", "9"))
		}, "none"},
		{"nothing, when the informer saw the end of what was ahead", func(h hand) {
			h.put(pod("p", "u", "9"))
			h.shows(pod("p", "u", "9"))
			h.drops(pod("p", "u", "14"))
		}, "none"},
		{"nothing, when the server says it is gone and the informer does not know", func(h hand) {
			h.shows(pod("p", "u", "5"))
			h.bury(pod("p", "u", "5"))
		}, "none"},
		{"the next object of the name, after one that is gone", func(h hand) {
			h.shows(pod("p", "u", "5"))
			h.bury(pod("p", "u", "5"))
			h.shows(pod("p", "new", "8"))
		}, "8"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := byHand(t)
			row.do(h)
			h.g.Expect(h.version("p")).To(Equal(row.want))
			h.g.Expect(h.version("p")).To(Equal(row.want), "looking again changes nothing")
		})
	}
}

func TestAnIndexCountsWhatIsAheadOnce(t *testing.T) {
	h := byHand(t)
	h.shows(pod("a", "1", "5"))
	h.shows(pod("b", "2", "6"))
	h.put(pod("b", "2", "9"))
	h.put(pod("c", "3", "10"))
	h.bury(pod("a", "1", "5"))
	var names []string
	for _, p := range h.by(byOwner, "owner") {
		names = append(names, p.Name+p.ResourceVersion)
	}
	h.g.Expect(names).To(ConsistOf("b9", "c10"))
	h.g.Expect(h.all()).To(HaveLen(2))
	h.g.Expect(h.by(byOwner, "nobody")).To(BeEmpty())
}

func TestAStoreForgetsWhatIsNotAheadAnyMore(t *testing.T) {
	h := byHand(t)
	h.put(pod("p", "u", "9"))
	h.shows(pod("p", "u", "9"))
	h.version("p")
	h.g.Expect(h.ahead).To(BeEmpty())
}

func TestAStoreThatHasPassedAVersionKnowsWhatDoesNotExist(t *testing.T) {
	h := byHand(t)
	h.g.Expect(h.reached("1")).To(BeFalse(), "it has seen nothing yet")
	h.shows(pod("p", "u", "5"))
	h.g.Expect(h.reached("5")).To(BeTrue())
	h.g.Expect(h.reached("6")).To(BeFalse())
}

// passing is an informer that moves on right after a look at it.
type passing struct {
	cache.SharedIndexInformer
	then func()
}

func (p passing) GetIndexer() cache.Indexer {
	return looks{p.SharedIndexInformer.GetIndexer(), p.then}
}

type looks struct {
	cache.Indexer
	then func()
}

func (l looks) GetByKey(key string) (any, bool, error) {
	o, shown, err := l.Indexer.GetByKey(key)
	l.then()
	return o, shown, err
}

func TestWhatIsThereIsNotGoneWhileTheInformerPassesIt(t *testing.T) {
	h := byHand(t)
	h.put(pod("p", "u", "9"))
	inner := h.informer.GetIndexer()
	h.informer = passing{h.informer, func() { h.g.Expect(inner.Add(pod("p", "u", "9"))).To(Succeed()) }}
	h.g.Expect(h.by(byOwner, "owner")).To(HaveLen(1))
}
