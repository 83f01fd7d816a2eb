package apply

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// BenchmarkConfigurations builds what the writes of a warm claim send, to the last byte.
func BenchmarkConfigurations(b *testing.B) {
	member, claim, blueprint := aMember(b), aClaim(), aBlueprint(b)
	adopted := made[agents.Sandbox](b, adoptConfig(adopting(b, member, claim)), "sandbox")
	created, err := podConfig(member)
	if err != nil {
		b.Fatal(err)
	}
	move := PodMove{Pod: made[corev1.Pod](b, created, "pod"), Sandbox: adopted, Claim: claim}
	a := &Applier{opts: Options{SafeToEvict: true}}
	for _, one := range []struct {
		name  string
		build func() any
	}{
		{"1 the sandbox is adopted", func() any { return adoptConfig(adopting(b, member, claim)) }},
		{"2 the claim is told", func() any { return claimStatusConfig(claim, claim.Status) }},
		{"3 the pod is bound", func() any { return a.stateConfig(move, states.Bound) }},
		{"4 the claim is annotated", func() any { return claimAnnotationsConfig(claim, "warm-x", noon) }},
		{"6 a member is made", func() any { return memberConfig(aPool(), "warm-x", blueprint) }},
		{"6 a member's pod is made", func() any { c, _ := podConfig(member); return c }},
	} {
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := json.Marshal(one.build()); err != nil {
					b.Fatal(err)
				}
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
