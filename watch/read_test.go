package watch

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kiln-sandbox/kiln/states"
)

// A server answers a question after something has happened.
type server struct {
	has  *corev1.Pod
	then func()
}

func (s server) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Pod, error) {
	s.then()
	if s.has == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	return s.has.DeepCopy(), nil
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
		{"one that the watch does not show yet", nil, pod("p", "u", "9"), func(hand) {}, states.Present, "9"},
		{"one that the watch shows and that is gone", pod("p", "u", "5"), nil, func(hand) {}, states.Missing, "none"},
		{"one that is nowhere", nil, nil, func(hand) {}, states.Missing, "none"},
		{"one that was made since", nil, nil, func(h hand) { h.shows(pod("p", "u", "9")) }, states.Present, "9"},
		{"one that is gone, and another that was made since", pod("p", "u", "5"), nil, func(h hand) { h.shows(pod("p", "v", "9")) }, states.Present, "9"},
		{"one that is gone, and another that we made since", pod("p", "u", "5"), nil, func(h hand) { h.put(pod("p", "v", "9")) }, states.Present, "9"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := byHand(t)
			if row.before != nil {
				h.shows(row.before)
			}
			p, err := ask(t.Context(), h.store, server{row.has, func() { row.since(h) }}, Key{Namespace: "ns", Name: "p"})
			h.g.Expect(err).NotTo(HaveOccurred())
			h.g.Expect(p).To(Equal(row.learns))
			h.g.Expect(h.version("p")).To(Equal(row.version))
		})
	}
}
