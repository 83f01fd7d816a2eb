package store

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

func TestSandboxesOfTheSameSpecShareIt(t *testing.T) {
	g := NewWithT(t)
	s := &Stores{specs: newSpecs(2)}
	keep := func(spec string) *byte {
		b := &agents.Sandbox{}
		b.Spec.PodTemplate.Spec.Raw = []byte(spec)
		_, err := s.keep(b)
		g.Expect(err).NotTo(HaveOccurred())
		kept := b.Spec.PodTemplate.Spec.Raw
		g.Expect(string(kept)).To(Equal(spec))
		return &kept[0]
	}
	first := keep("a")
	g.Expect(keep("a")).To(BeIdenticalTo(first))
	g.Expect(keep("b")).NotTo(BeIdenticalTo(first))
	keep("c")
	g.Expect(keep("a")).NotTo(BeIdenticalTo(first), "only two are known")
	b := &agents.Sandbox{}
	_, err := s.keep(b)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.Spec.PodTemplate.Spec.Raw).To(BeEmpty())
}

func TestSandboxesOfTheSameTemplateShareItsLabelsAndAnnotations(t *testing.T) {
	g := NewWithT(t)
	s := &Stores{specs: newSpecs(2)}
	keep := func(label, annotation string) *agents.PodMetadata {
		b := &agents.Sandbox{}
		b.Spec.PodTemplate.Spec.Raw = []byte("a")
		b.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"k": label}
		b.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{"k": annotation}
		want := b.DeepCopy()
		_, err := s.keep(b)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b).To(Equal(want))
		return &b.Spec.PodTemplate.ObjectMeta
	}
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	first, second, other := keep("x", "y"), keep("x", "y"), keep("z", "y")
	g.Expect(same(first.Labels, second.Labels)).To(BeTrue())
	g.Expect(same(first.Annotations, second.Annotations)).To(BeTrue())
	g.Expect(same(first.Labels, other.Labels)).To(BeFalse(), "its claim has added one")
	g.Expect(same(first.Annotations, other.Annotations)).To(BeTrue())
}
