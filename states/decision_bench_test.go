package states

import "testing"

// decisions are some of those that a claim's cycle takes, with what each may allocate.
var decisions = []struct {
	name        string
	allocations float64
	decide      func() Decision
}{
	{"a claim that has come", 0, func() Decision {
		return StepClaim(ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown})
	}},
	{"a claim with a sandbox to take", 0, func() Decision {
		return StepClaim(ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown, Offer: OfferTaken})
	}},
	{"a strict claim with one to take", 0, func() Decision {
		return StepClaim(ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown, Offer: OfferTaken, Strict: true})
	}},
	{"a member that runs", 0, func() Decision {
		return StepSandbox(SandboxFacts{Warm: true, Pod: PodReady, State: Ready, Readiness: ReasonPodReady, Reported: ReasonPodReady})
	}},
	{"a member that has warmed", 0, func() Decision {
		return StepSandbox(SandboxFacts{Warm: true, Pod: PodReady, State: Warming, Readiness: ReasonPodReady, Reported: ReasonPodReady})
	}},
	{"a pool to fill", 0, func() Decision { return StepPool(PoolFacts{Replicas: 300}) }},
}

func TestADecisionAllocatesNothingButWhatItSays(t *testing.T) {
	for _, one := range decisions {
		if n := testing.AllocsPerRun(1000, func() { one.decide() }); n > one.allocations {
			t.Errorf("%s: %v allocations, and %v are needed", one.name, n, one.allocations)
		}
	}
}

func BenchmarkDecisions(b *testing.B) {
	for _, one := range decisions {
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one.decide()
			}
		})
	}
}
