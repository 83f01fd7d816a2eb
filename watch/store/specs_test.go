package store

import (
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
