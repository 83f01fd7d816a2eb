package apply

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A body is what a write of a warm claim's cycle sends, and what it may allocate to the
// last byte: a third more than it does today.
type body struct {
	name        string
	allocations float64
	build       func() any
}

func bodies(t testing.TB) []body {
	t.Helper()
	member, claim, blueprint := aMember(t), aClaim(), aBlueprint(t)
	adopted := made[agents.Sandbox](t, adoptConfig(adopting(t, member, claim)), "sandbox")
	created, err := podConfig(member)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	move := PodMove{Pod: made[corev1.Pod](t, created, "pod"), Sandbox: adopted, Claim: claim}
	a := &Applier{opts: Options{SafeToEvict: true}}
	of := adopting(t, member, claim)
	return []body{
		{"1 the sandbox is adopted", 120, func() any { return adoptConfig(of) }},
		{"2 the claim is told", 40, func() any { return claimStatusConfig(claim, claim.Status) }},
		{"3 the pod is bound", 110, func() any { return a.stateConfig(move, states.Bound) }},
		{"4 the claim is annotated", 24, func() any { return claimAnnotationsConfig(claim, "warm-x", seenAt(noon)) }},
		{"6 a member is made", 92, func() any { return memberConfig(aPool(), "warm-x", blueprint) }},
		{"6 a member's pod is made", 110, func() any { c, _ := podConfig(member); return c }},
	}
}

func (b body) send(t testing.TB) {
	t.Helper()
	if _, err := json.Marshal(b.build()); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsSentIsBuiltWithFewAllocations(t *testing.T) {
	for _, one := range bodies(t) {
		if n := testing.AllocsPerRun(100, func() { one.send(t) }); n > one.allocations {
			t.Errorf("%s: %v allocations, and no more than %v were expected", one.name, n, one.allocations)
		}
	}
}

// BenchmarkConfigurations builds what the writes of a warm claim send, to the last byte.
func BenchmarkConfigurations(b *testing.B) {
	for _, one := range bodies(b) {
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one.send(b)
			}
		})
	}
	b.Run("the blueprint of a template", func(b *testing.B) {
		template := aTemplate()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := BlueprintOf(template); err != nil {
				b.Fatal(err)
			}
		}
	})
}
