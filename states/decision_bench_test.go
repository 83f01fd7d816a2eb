package states

import "testing"

// decisions are some of those that a claim's cycle takes.
var decisions = []struct {
	name   string
	decide func() Decision
}{
	{"a claim that has come", func() Decision {
		return StepClaim(ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown})
	}},
	{"a claim with a sandbox to take", func() Decision {
		return StepClaim(ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown, Offer: OfferTaken})
	}},
	{"a strict claim with one to take", func() Decision {
		return StepClaim(ClaimFacts{State: Binding, Pool: PresenceShown, Template: PresenceShown, Offer: OfferTaken, Strict: true})
	}},
	{"a member that runs", func() Decision {
		return StepSandbox(SandboxFacts{Warm: true, Pod: PodReady, State: Ready, Readiness: ReasonPodReady, Reported: ReasonPodReady})
	}},
	{"a member that has warmed", func() Decision {
		return StepSandbox(SandboxFacts{Warm: true, Pod: PodReady, State: Warming, Readiness: ReasonPodReady, Reported: ReasonPodReady})
	}},
	{"a pool to fill", func() Decision { return StepPool(PoolFacts{Replicas: 300}) }},
}

func TestADecisionAllocatesNothing(t *testing.T) {
	for _, one := range decisions {
		if n := testing.AllocsPerRun(1000, func() { one.decide() }); n > 0 {
			t.Errorf("%s: %v allocations", one.name, n)
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
