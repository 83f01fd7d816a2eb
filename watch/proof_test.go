package watch

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// shown is a store that has come to a version, and may show one pool.
type shown struct {
	version string
	pool    *ext.SandboxWarmPool
}

func (s shown) get(Key) (*ext.SandboxWarmPool, bool) { return s.pool, s.pool != nil }
func (s shown) reached(version string) bool          { return atLeast(s.version, version) }

func shows(uid types.UID, generation int64, version string) *ext.SandboxWarmPool {
	return &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid, Generation: generation, ResourceVersion: version}}
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
		{"the server shows another object of the name", said("v", 1, "15"), shown{"10", shows("u", 2, "9")}, true},
		{"the store has another object of the name that was made since", said("u", 2, "9"), shown{"10", shows("v", 1, "12")}, false},
		{"the server shows one that is new", said("u", 1, "15"), shown{"10", nil}, true},
		{"the store has passed the end of one that the server showed", said("u", 1, "15"), shown{"19", nil}, false},
		{"neither shows any", nil, shown{"10", nil}, false},
		{"the server says that it is gone", nil, shown{"10", shows("u", 2, "9")}, true},
		{"the store has one that was made since", nil, shown{"30", shows("u", 1, "25")}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(behind(row.store, Key{Name: "p"}, row.server, "20")).To(Equal(row.behind))
		})
	}
}

// Each claim gets a reading that was begun after the watch had come to it, and one
// reading serves all that the watch had come to.
func TestAReadingServesEveryClaimThatIsNotNewer(t *testing.T) {
	g := NewWithT(t)
	seen, reads := "10", 0
	p := &proofs{
		last: map[subject]reading{}, flights: map[subject]*flight{}, seen: func() string { return seen },
		read: func(context.Context, subject) (reading, error) { reads++; return reading{}, nil },
	}
	from := func(version string) {
		t.Helper()
		_, err := p.from(t.Context(), version, subject{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	from("8")
	from("10")
	g.Expect(reads).To(Equal(1), "both were seen before it")
	from("12")
	g.Expect(reads).To(Equal(2), "one that the watch shows later, as after a write of our own")
	seen = "20"
	from("12")
	from("20")
	g.Expect(reads).To(Equal(3), "and all others again")
	p.forget(Key{})
	from("8")
	g.Expect(reads).To(Equal(4), "nothing is remembered of a pool that is gone")
}

func TestWhoComesWhileAReadIsUnderWayWaitsForThatAndAsksAgainIfItWasBegunTooEarly(t *testing.T) {
	g := NewWithT(t)
	seen := make(chan string, 2)
	seen <- "10"
	seen <- "20"
	begun, answer := make(chan struct{}), make(chan struct{})
	p := &proofs{
		last: map[subject]reading{}, flights: map[subject]*flight{}, seen: func() string { return <-seen },
		read: func(context.Context, subject) (reading, error) { begun <- struct{}{}; <-answer; return reading{}, nil },
	}
	got := make(chan string)
	ask := func(version string) {
		r, err := p.from(t.Context(), version, subject{})
		g.Expect(err).NotTo(HaveOccurred())
		got <- r.seen
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
	p := &proofs{
		last: map[subject]reading{}, flights: map[subject]*flight{}, seen: func() string { return "10" },
		read: func(context.Context, subject) (reading, error) {
			if fails {
				return reading{}, errors.New("no")
			}
			return reading{}, nil
		},
	}
	_, err := p.from(t.Context(), "5", subject{})
	g.Expect(err).To(MatchError("no"))
	fails = false
	_, err = p.from(t.Context(), "5", subject{})
	g.Expect(err).NotTo(HaveOccurred())
}

// A pool may be pointed at another template in the middle of a step.
func TestAProofIsOfOnePoolAndOneTemplate(t *testing.T) {
	g := NewWithT(t)
	quiet := func(kind runtime.Object) cache.SharedIndexInformer { return informer(&cache.ListWatch{}, kind, nil) }
	l := claims{&world{stores: &stores{
		pools:     newStore[*ext.SandboxWarmPool](quiet(&ext.SandboxWarmPool{})),
		templates: newStore[*ext.SandboxTemplate](quiet(&ext.SandboxTemplate{})),
	}}}
	sight := claimSight{claim: &ext.SandboxClaim{}, pool: &ext.SandboxWarmPool{}}
	sight.pool.Spec.TemplateRef.Name = "t"
	for _, view := range states.Views {
		known := &inquiry{view: view, proof: proofOf(sight), version: "5"}
		g.Expect(l.view(sight, known)).To(Equal(view))
		other := sight
		other.pool = sight.pool.DeepCopy()
		other.pool.Spec.TemplateRef.Name = "u"
		g.Expect(l.view(other, known)).To(Equal(states.Unproven))
	}
}
