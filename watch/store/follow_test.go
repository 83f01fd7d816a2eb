package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/kiln-sandbox/kiln/watch/view"
)

// A follower is a store whose watches of one name the test feeds.
type follower struct {
	hand
	shown   *apiwatch.FakeWatcher
	asked   chan string
	changes chan string
}

func aFollower(t *testing.T, err error) *follower {
	f := &follower{hand: byHand(t), shown: apiwatch.NewFake(), asked: make(chan string, 1), changes: make(chan string, 9)}
	f.watch = func(_ context.Context, ns string, o metav1.ListOptions) (apiwatch.Interface, error) {
		f.asked <- ns + " " + o.FieldSelector + " " + o.ResourceVersion
		return f.shown, err
	}
	_, failed := f.On(func(c Change[*corev1.Pod]) {
		f.changes <- fmt.Sprintf("%s %s there=%t", c.Newest().Name, c.Newest().ResourceVersion, c.HasIs)
	})
	f.g.Expect(failed).NotTo(HaveOccurred())
	return f
}

func (f *follower) beyondIs(name string) string {
	p, ok := f.Beyond(view.Key{Namespace: "ns", Name: name})
	if !ok {
		return "none"
	}
	return p.ResourceVersion
}

func TestAnObjectThatNoInformerShowsIsFollowedUntilItIsGone(t *testing.T) {
	f := aFollower(t, nil)
	f.g.Expect(f.Follow(t.Context(), pod("p", "u", "5"))).To(BeTrue())
	f.g.Expect(<-f.asked).To(Equal("ns metadata.name=p 5"))
	f.g.Expect(f.beyondIs("p")).To(Equal("5"))
	f.g.Expect(f.version("p")).To(Equal("none"), "it is none of the informer's")
	f.shown.Modify(pod("p", "u", "6"))
	f.g.Expect(<-f.changes).To(Equal("p 6 there=true"))
	f.g.Expect(f.beyondIs("p")).To(Equal("6"))
	f.g.Expect(f.Follow(t.Context(), pod("p", "u", "5"))).To(BeTrue(), "it is followed already")
	f.g.Expect(f.beyondIs("p")).To(Equal("6"))
	f.shown.Delete(pod("p", "u", "7"))
	f.g.Expect(<-f.changes).To(Equal("p 6 there=false"))
	f.g.Expect(f.beyondIs("p")).To(Equal("none"))
	f.g.Expect(f.asked).To(BeEmpty())
}

func TestAWatchThatEndsHasWhoeverWaitsLookAgain(t *testing.T) {
	f := aFollower(t, nil)
	f.Follow(t.Context(), pod("p", "u", "5"))
	f.shown.Stop()
	f.g.Expect(<-f.changes).To(Equal("p 5 there=false"))
	f.g.Expect(f.beyondIs("p")).To(Equal("none"))
}

func TestWhatNobodyWaitsForIsFollowedNoMore(t *testing.T) {
	f := aFollower(t, nil)
	f.Follow(t.Context(), pod("p", "u", "5"))
	<-f.asked
	f.Unfollow(view.Key{Namespace: "ns", Name: "p"})
	f.g.Expect(f.beyondIs("p")).To(Equal("none"))
	f.shown.Stop()
	f.g.Eventually(f.shown.IsStopped).Should(BeTrue())
	f.g.Expect(f.changes).To(BeEmpty())
}

func TestNotMoreObjectsAreFollowedThanAnybodyNeeds(t *testing.T) {
	f := aFollower(t, errors.New("no"))
	f.asked = make(chan string, 2*mostFollowed)
	for i := range mostFollowed {
		f.g.Expect(f.Follow(t.Context(), pod(fmt.Sprint("p", i), "u", "5"))).To(BeTrue())
	}
	f.g.Expect(f.Follow(t.Context(), pod("another", "u", "5"))).To(BeFalse())
	f.Unfollow(view.Key{Namespace: "ns", Name: "p0"})
	f.g.Expect(f.Follow(t.Context(), pod("another", "u", "5"))).To(BeTrue())
}
