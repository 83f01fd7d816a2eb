package claim

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// shown is a store that has come to a version, and may show one pool.
type shown struct {
	version string
	pool    *ext.SandboxWarmPool
}

func shows(uid types.UID, generation int64, version string) *ext.SandboxWarmPool {
	return &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: uid, Generation: generation, ResourceVersion: version}}
}

// asking has a pool roll on metadata.
func asking[T metav1.Object](o T) T {
	o.SetAnnotations(map[string]string{apply.AnnotationRollOnMetadata: "true"})
	return o
}

func TestAStoreIsBehindOnlyWhereTheServerShowsSomethingLaterThatMatters(t *testing.T) {
	said := func(uid types.UID, generation int64, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: shows(uid, generation, version).ObjectMeta}
	}
	for _, row := range []struct { // the claim is of version 20
		name   string
		server *metav1.PartialObjectMetadata
		store  shown
		behind bool
	}{
		{"both show the same", said("u", 2, "9"), shown{"10", shows("u", 2, "9")}, false},
		{"the same spec, and a later status", said("u", 2, "15"), shown{"10", shows("u", 2, "9")}, false},
		{"the server shows a later spec", said("u", 3, "15"), shown{"10", shows("u", 2, "9")}, true},
		{"the server shows a later spec, and the store one that is later than the claim", said("u", 4, "26"), shown{"25", shows("u", 3, "25")}, false},
		{"the store has a later spec from a write of our own", said("u", 2, "9"), shown{"10", shows("u", 3, "12")}, false},
		{"labels make members old since", asking(said("u", 2, "15")), shown{"10", shows("u", 2, "9")}, true},
		{"labels make no member old since", said("u", 2, "15"), shown{"10", asking(shows("u", 2, "9"))}, true},
		{"labels make members old, as the store knows", said("u", 2, "9"), shown{"10", asking(shows("u", 2, "12"))}, false},
		{"the server shows another object of the name", said("v", 1, "15"), shown{"10", shows("u", 2, "9")}, true},
		{"the store has another object of the name that was made since", said("u", 2, "9"), shown{"10", shows("v", 1, "12")}, false},
		{"the server shows one that is new", said("u", 1, "15"), shown{"10", nil}, true},
		{"the store has passed the end of one that the server showed", said("u", 1, "15"), shown{"19", nil}, false},
		{"neither shows any", nil, shown{"10", nil}, false},
		{"the server says that it is gone", nil, shown{"10", shows("u", 2, "9")}, true},
		{"the store has one that was made since", nil, shown{"30", shows("u", 1, "25")}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t)
			informer, passed := w.Stores.Informers()[3].GetIndexer(), row.store.pool != nil && store.AtLeast(row.store.version, row.store.pool.ResourceVersion)
			if passed {
				w.g.Expect(informer.Add(row.store.pool)).To(Succeed())
			}
			w.g.Expect(informer.Add(&ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "z", Name: "other", ResourceVersion: row.store.version}})).To(Succeed())
			if row.store.pool != nil && !passed {
				w.put(row.store.pool)
			}
			w.g.Expect(behind(w.Stores.Pools, view.Key{Namespace: "a", Name: "p"}, row.server, "20")).To(Equal(row.behind))
		})
	}
}

// reads is a freshness over a function that reads.
func reads(t *testing.T, version func() string, read func() (reading, error)) *Freshness {
	t.Helper()
	w := aWorld(t, &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}})
	return &Freshness{
		stores: w.Stores, last: map[Subject]reading{}, inflight: map[Subject]*call{}, version: version,
		read: func(context.Context, Subject) (reading, error) { return read() },
	}
}

// Each claim gets a reading that was begun after the watch had come to it, and one
// reading serves all that the watch had come to.
func TestAReadingServesEveryClaimThatIsNotNewer(t *testing.T) {
	g := NewWithT(t)
	seen, read := "10", 0
	f := reads(t, func() string { return seen }, func() (reading, error) { read++; return reading{}, nil })
	from := func(version string) {
		t.Helper()
		_, err := f.from(t.Context(), version, Subject{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	from("8")
	from("10")
	g.Expect(read).To(Equal(1), "both were seen before it")
	from("12")
	g.Expect(read).To(Equal(2), "one that the watch shows later, as after a write of our own")
	seen = "20"
	from("12")
	from("20")
	g.Expect(read).To(Equal(3), "and all others again")
	f.Forget(view.Key{})
	from("8")
	g.Expect(read).To(Equal(4), "nothing is remembered of a pool that has changed")
	f.stores.Pools.MarkDeleted(&ext.SandboxWarmPool{})
	f.Forget(view.Key{})
	from("8")
	g.Expect(f.Len()).To(BeZero(), "nor of one that ended while it was read")
}

func TestWhoComesWhileAReadIsUnderWayWaitsForThatAndAsksAgainIfItWasBegunTooEarly(t *testing.T) {
	g := NewWithT(t)
	seen := make(chan string, 2)
	seen <- "10"
	seen <- "20"
	begun, answer := make(chan struct{}), make(chan struct{})
	f := reads(t, func() string { return <-seen }, func() (reading, error) { begun <- struct{}{}; <-answer; return reading{}, nil })
	got := make(chan string)
	ask := func(version string) {
		r, err := f.from(t.Context(), version, Subject{})
		g.Expect(err).NotTo(HaveOccurred())
		got <- r.version
	}
	go ask("5")
	<-begun
	go ask("15")
	answer <- struct{}{}
	g.Expect(<-got).To(Equal("10"))
	<-begun // whether it came while the first was under way or after it, it asks again
	answer <- struct{}{}
	g.Expect(<-got).To(Equal("20"))
}

func TestAReadThatFailsIsAskedAgain(t *testing.T) {
	g := NewWithT(t)
	fails := true
	f := reads(t, func() string { return "10" }, func() (reading, error) {
		if fails {
			return reading{}, errors.New("no")
		}
		return reading{}, nil
	})
	_, err := f.from(t.Context(), "5", Subject{})
	g.Expect(err).To(MatchError("no"))
	fails = false
	_, err = f.from(t.Context(), "5", Subject{})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestWhoWaitsForAReadDoesNotWaitLongerThanItsStep(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan struct{})
	defer close(answer)
	f := reads(t, func() string { return "10" }, func() (reading, error) { <-answer; return reading{}, nil })
	over := errors.New("over")
	cancel(over)
	_, err := f.from(ctx, "5", Subject{})
	NewWithT(t).Expect(err).To(MatchError(over))
}

func TestAProofSaysWhetherEitherStoreIsBehind(t *testing.T) {
	newer := &metav1.PartialObjectMetadata{ObjectMeta: made("x", "new")}
	newer.ResourceVersion = "9"
	for _, row := range []struct {
		name string
		said reading
		err  error
		want states.Freshness
	}{
		{"neither", reading{}, nil, states.FreshnessProven},
		{"the pool's", reading{pool: newer}, nil, states.FreshnessBehind},
		{"the template's", reading{template: newer}, nil, states.FreshnessBehind},
		{"nobody can say", reading{}, errors.New("no"), states.FreshnessUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t)
			f := reads(t, func() string { return "20" }, func() (reading, error) { return row.said, row.err })
			f.stores = w.Stores
			got, err := f.Prove(t.Context(), "20", Subject{})
			w.g.Expect(got).To(Equal(row.want))
			w.g.Expect(err != nil).To(Equal(row.err != nil))
		})
	}
}

// A pool may be pointed at another template in the middle of a step.
func TestAProofIsOfOnePoolAndOneTemplate(t *testing.T) {
	for _, freshness := range states.Freshnesses {
		w := aWorld(t, aClaim(), aPool(strict))
		known := learned{uid: "c-uid", version: "5", freshness: freshness}
		known.proven = w.Observe(key, known).subject()
		w.g.Expect(w.Observe(key, known).Facts.Freshness).To(Equal(freshness))
		w.put(aPool(strict, func(p *ext.SandboxWarmPool) { p.Spec.TemplateRef.Name, p.ResourceVersion = "u", "6" }))
		w.g.Expect(w.Observe(key, known).Facts.Freshness).To(Equal(states.FreshnessUnknown))
	}
}
