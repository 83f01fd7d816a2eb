package states

import "testing"

func BenchmarkDecisions(b *testing.B) {
	for name, f := range map[string]ClaimFacts{
		"a claim that has come":           {State: Binding, Pool: PresenceShown, Template: PresenceShown},
		"a claim with a sandbox to take":  {State: Binding, Pool: PresenceShown, Template: PresenceShown, Offer: OfferTaken},
		"a strict claim with one to take": {State: Binding, Pool: PresenceShown, Template: PresenceShown, Offer: OfferTaken, Strict: true},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				StepClaim(f)
			}
		})
	}
	for name, f := range map[string]SandboxFacts{
		"a member that runs":       {Warm: true, Pod: PodReady, State: Ready, Readiness: ReasonPodReady, Reported: ReasonPodReady},
		"a member that has warmed": {Warm: true, Pod: PodReady, State: Warming, Readiness: ReasonPodReady, Reported: ReasonPodReady},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				StepSandbox(f)
			}
		})
	}
	b.Run("a pool to fill", func(b *testing.B) {
		f := PoolFacts{Replicas: 300}
		b.ReportAllocs()
		for b.Loop() {
			StepPool(f)
		}
	})
}
