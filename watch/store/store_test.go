package store

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// hand is a store whose informer never runs: the test is its watch.
type hand struct {
	*Store[*corev1.Pod]
	g Gomega
}

func byHand(t *testing.T) hand {
	i := informer(&cache.ListWatch{}, &corev1.Pod{}, indexes{ByOwner: ownerIndex})
	return hand{newStore[*corev1.Pod](i, nil), NewWithT(t)}
}

func (h hand) shows(p *corev1.Pod) { h.g.Expect(h.informer.GetIndexer().Add(p)).To(Succeed()) }

func (h hand) drops(p *corev1.Pod) { h.g.Expect(h.informer.GetIndexer().Delete(p)).To(Succeed()) }

func (h hand) puts(p *corev1.Pod) { h.g.Expect(h.Put(p)).To(Succeed()) }

func (h hand) version(name string) string {
	p, ok := h.Get(view.Key{Namespace: "ns", Name: name})
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

func in(ns string, p *corev1.Pod) *corev1.Pod { p.Namespace = ns; return p }

func TestAStoreShowsTheNewestItKnows(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(hand)
		want string
	}{
		{"what the informer has", func(h hand) { h.shows(pod("p", "u", "5")) }, "5"},
		{"a write the informer has not shown", func(h hand) { h.puts(pod("p", "u", "9")) }, "9"},
		{"a write newer than the informer", func(h hand) { h.shows(pod("p", "u", "5")); h.puts(pod("p", "u", "9")) }, "9"},
		{"the informer, once it has passed the write", func(h hand) {
			h.puts(pod("p", "u", "9"))
			h.shows(pod("p", "u", "12"))
		}, "12"},
		{"the informer, when the answer of a write came late", func(h hand) {
			h.shows(pod("p", "u", "12"))
			h.puts(pod("p", "u", "9"))
		}, "12"},
		{"the later of two writes whose answers crossed", func(h hand) {
			h.puts(pod("p", "u", "12"))
			h.puts(pod("p", "u", "9"))
		}, "12"},
		{"nothing, when the object was made and deleted before the answer came", func(h hand) {
			h.shows(pod("other", "v", "20"))
			h.puts(pod("p", "u", "9"))
		}, "none"},
		{"nothing, when the informer saw the end of what was ahead", func(h hand) {
			h.puts(pod("p", "u", "9"))
			h.shows(pod("p", "u", "9"))
			h.drops(pod("p", "u", "14"))
		}, "none"},
		{"nothing, when the server says it is gone and the informer does not know", func(h hand) {
			h.shows(pod("p", "u", "5"))
			h.MarkDeleted(pod("p", "u", "5"))
		}, "none"},
		{"the next object of the name, after one that is gone", func(h hand) {
			h.shows(pod("p", "u", "5"))
			h.MarkDeleted(pod("p", "u", "5"))
			h.shows(pod("p", "new", "8"))
		}, "8"},
		{"the next object of the name, when the end of the one before is told late", func(h hand) {
			h.shows(pod("p", "new", "8"))
			h.MarkDeleted(pod("p", "u", "5"))
		}, "8"},
		{"nothing of another namespace", func(h hand) { h.puts(in("other", pod("p", "u", "5"))) }, "none"},
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
	h.puts(pod("b", "2", "9"))
	h.puts(pod("c", "3", "10"))
	h.MarkDeleted(pod("a", "1", "5"))
	var names []string
	for _, p := range h.By(ByOwner, "ns/owner") {
		names = append(names, p.Name+p.ResourceVersion)
	}
	h.g.Expect(names).To(ConsistOf("b9", "c10"))
	h.g.Expect(h.All()).To(HaveLen(2))
	h.g.Expect(h.By(ByOwner, "ns/nobody")).To(BeEmpty())
}

// Owner references are free text: a pod of another namespace may name any UID.
func TestAnIndexNeverFindsWhatIsInAnotherNamespace(t *testing.T) {
	h := byHand(t)
	h.shows(pod("a", "1", "5"))
	h.shows(in("other", pod("b", "2", "6")))
	h.puts(in("other", pod("c", "3", "9")))
	h.g.Expect(h.By(ByOwner, "ns/owner")).To(HaveLen(1))
	h.g.Expect(h.By(ByOwner, "other/owner")).To(HaveLen(2))
	h.g.Expect(h.By(ByOwner, "owner")).To(BeEmpty())
}

func TestAStoreForgetsWhatIsNotAheadAnyMore(t *testing.T) {
	h := byHand(t)
	h.puts(pod("p", "u", "9"))
	h.shows(pod("p", "u", "9"))
	h.version("p")
	h.g.Expect(h.Ahead()).To(BeZero())
}

func TestAStoreThatHasPassedAVersionKnowsWhatDoesNotExist(t *testing.T) {
	h := byHand(t)
	h.g.Expect(h.Passed("1")).To(BeFalse(), "it has seen nothing yet")
	h.shows(pod("p", "u", "5"))
	h.g.Expect(h.Passed("5")).To(BeTrue())
	h.g.Expect(h.Passed("6")).To(BeFalse())
	h.g.Expect(h.Passed("")).To(BeFalse(), "what cannot be read is passed by nothing")
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
	h.puts(pod("p", "u", "9"))
	inner := h.informer.GetIndexer()
	h.informer = passing{h.informer, func() { h.g.Expect(inner.Add(pod("p", "u", "9"))).To(Succeed()) }}
	h.g.Expect(h.By(ByOwner, "ns/owner")).To(HaveLen(1))
}

// answers has a store's questions answered after something has happened.
func (h hand) answers(has *corev1.Pod, err error, since func()) {
	h.get = func(_ context.Context, k view.Key) (*corev1.Pod, error) {
		since()
		switch {
		case err != nil:
			return nil, err
		case has == nil:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, k.Name)
		}
		return has.DeepCopy(), nil
	}
}

func TestAQuestionIsAnsweredForItsOwnTime(t *testing.T) {
	for _, row := range []struct {
		name    string
		before  *corev1.Pod
		has     *corev1.Pod
		since   func(hand)
		learns  states.Presence
		version string
	}{
		{"one that the watch does not show yet", nil, pod("p", "u", "9"), func(hand) {}, states.PresenceShown, "9"},
		{"one that the watch shows and that is gone", pod("p", "u", "5"), nil, func(hand) {}, states.PresenceMissing, "none"},
		{"one that is nowhere", nil, nil, func(hand) {}, states.PresenceMissing, "none"},
		{"one that was made since", nil, nil, func(h hand) { h.shows(pod("p", "u", "9")) }, states.PresenceShown, "9"},
		{"one that is gone, and another that was made since", pod("p", "u", "5"), nil, func(h hand) { h.shows(pod("p", "v", "9")) }, states.PresenceShown, "9"},
		{"one that is gone, and another that we made since", pod("p", "u", "5"), nil, func(h hand) { h.puts(pod("p", "v", "9")) }, states.PresenceShown, "9"},
		{"one that the watch has seen the end of since", nil, pod("p", "u", "9"), func(h hand) { h.shows(pod("q", "v", "12")) }, states.PresenceHidden, "none"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := byHand(t)
			if row.before != nil {
				h.shows(row.before)
			}
			h.answers(row.has, nil, func() { row.since(h) })
			p, err := h.Read(t.Context(), view.Key{Namespace: "ns", Name: "p"})
			h.g.Expect(err).NotTo(HaveOccurred())
			h.g.Expect(p).To(Equal(row.learns))
			h.g.Expect(h.version("p")).To(Equal(row.version))
		})
	}
}

func TestAQuestionThatFailsTeachesNothing(t *testing.T) {
	h := byHand(t)
	h.shows(pod("p", "u", "5"))
	h.answers(nil, errors.New("no"), func() {})
	p, err := h.Read(t.Context(), view.Key{Namespace: "ns", Name: "p"})
	h.g.Expect(err).To(MatchError("no"))
	h.g.Expect(p).To(Equal(states.PresenceUnseen))
	h.g.Expect(h.version("p")).To(Equal("5"))
}

func TestTheAnswerToAWriteIsTakenIn(t *testing.T) {
	no := errors.New("no")
	for _, row := range []struct {
		name    string
		got     *corev1.Pod
		err     error
		has     *corev1.Pod
		fails   error
		version string
	}{
		{"one that went well shows what was written", pod("p", "u", "9"), nil, nil, nil, "9"},
		{"one that lost a race shows what the winner wrote", nil, apply.ErrLost, pod("p", "u", "8"), nil, "8"},
		{"one on what is gone shows nothing", nil, apply.ErrGone, nil, nil, "none"},
		{"one that was not sent asks nobody", nil, errors.Join(apply.ErrLost, apply.ErrOutdated), pod("p", "u", "8"), nil, "5"},
		{"one that failed is an error and shows what there was", nil, no, pod("p", "u", "8"), no, "5"},
		{"one that was refused is an error and shows what there was", nil, apply.ErrRefused, pod("p", "u", "8"), apply.ErrRefused, "5"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := byHand(t)
			h.shows(pod("p", "u", "5"))
			h.answers(row.has, nil, func() {})
			err := h.Settle(t.Context(), pod("p", "u", "5"), row.got, row.err)
			if row.fails != nil {
				h.g.Expect(err).To(MatchError(row.fails))
			} else {
				h.g.Expect(err).NotTo(HaveOccurred())
			}
			h.g.Expect(h.version("p")).To(Equal(row.version))
		})
	}
}

func TestAnObjectIsAsItWasSeenUntilSomethingElseIsKnown(t *testing.T) {
	for _, row := range []struct {
		name    string
		happens func(hand)
		still   bool
	}{
		{"nothing", func(hand) {}, true},
		{"an older answer", func(h hand) { h.puts(pod("p", "u", "4")) }, true},
		{"a write of ours", func(h hand) { h.puts(pod("p", "u", "9")) }, false},
		{"a write of others", func(h hand) { h.shows(pod("p", "u", "9")) }, false},
		{"its end", func(h hand) { h.drops(pod("p", "u", "5")) }, false},
		{"its end, by a write of ours", func(h hand) { h.MarkDeleted(pod("p", "u", "5")) }, false},
		{"another one of its name", func(h hand) { h.drops(pod("p", "u", "5")); h.shows(pod("p", "v", "9")) }, false},
		{"that it is only followed", func(h hand) {
			h.drops(pod("p", "u", "5"))
			h.beyond[view.Key{Namespace: "ns", Name: "p"}] = followed[*corev1.Pod]{object: pod("p", "u", "5")}
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := byHand(t)
			h.shows(pod("p", "u", "5"))
			still := h.Still(pod("p", "u", "5"))
			row.happens(h)
			h.g.Expect(still()).To(Equal(row.still))
		})
	}
}

// A write that is skipped returns the object that it was asked with, and that is the
// informer's own.
func TestWhatIsNoNewsIsNotChanged(t *testing.T) {
	h := byHand(t)
	shown := pod("p", "u", "5")
	shown.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	h.shows(shown)
	h.puts(shown)
	h.g.Expect(shown.ManagedFields).NotTo(BeEmpty())
	h.g.Expect(h.ahead.all).To(BeEmpty())
}

func TestAStoreThatCaughtUpKnowsAllThatWasThere(t *testing.T) {
	h := byHand(t)
	h.shows(pod("old", "u", "5"))
	h.shows(pod("gone", "v", "6"))
	h.shows(pod("since", "w", "40"))
	h.list = func(context.Context) ([]*corev1.Pod, string, error) {
		return []*corev1.Pod{pod("old", "u", "50"), pod("new", "x", "20")}, "30", nil
	}
	h.g.Expect(h.CatchUp(t.Context())).To(Succeed())
	var versions []string
	for _, name := range []string{"old", "gone", "since", "new"} {
		versions = append(versions, h.version(name))
	}
	h.g.Expect(versions).To(Equal([]string{"50", "none", "40", "none"}), "the informer has passed 20 and shows no new one")
	h.list = func(context.Context) ([]*corev1.Pod, string, error) { return nil, "", errors.New("no") }
	h.g.Expect(h.CatchUp(t.Context())).To(MatchError("no"))
}
