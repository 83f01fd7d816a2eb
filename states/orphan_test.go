package states

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestOnlyAFreeMemberThatLostItsPoolIsAnOrphan(t *testing.T) {
	left := Sandbox{Name: "s", UID: "u", Warm: true, Pool: "hash"}
	but := func(change func(*Sandbox)) Sandbox { s := left; change(&s); return s }
	for _, row := range []struct {
		name string
		of   Sandbox
		pod  State
		want bool
	}{
		{"a free one", left, Ready, true},
		{"one that is starting", left, Warming, true},
		{"one whose pod a claim was getting", left, Binding, false},
		{"one whose pod was a claim's", left, Bound, false},
		{"one that leaves", left, Stale, false},
		{"one that a claim had", but(func(s *Sandbox) { s.ClaimUID = "c" }), Ready, false},
		{"one that has a pool", but(func(s *Sandbox) { s.Owner.Kind = OwnerPool }), Ready, false},
		{"one of somebody else's", but(func(s *Sandbox) { s.Owner.Kind = OwnerOther }), Ready, false},
		{"one that a user made", but(func(s *Sandbox) { s.Warm = false }), Ready, false},
		{"one that names no pool", but(func(s *Sandbox) { s.Pool = "" }), Ready, false},
		{"one that is retired", but(func(s *Sandbox) { s.Retired = true }), Ready, false},
		{"one that is being deleted", but(func(s *Sandbox) { s.Terminating = true }), Ready, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(Orphaned(row.of, row.pod)).To(Equal(row.want))
		})
	}
}

func TestEveryStepOfAnOrphanEnds(t *testing.T) {
	s := newSteps(StepSandbox, afterSandbox)
	for _, orphan := range orphans {
		for _, pod := range PodViews {
			for _, state := range []State{Warming, Ready} {
				s.check(t, SandboxFacts{Warm: true, Orphan: orphan, Pod: pod, State: state, Readiness: ReadinessOf(PodFacts{View: pod})}, mostEffects)
			}
		}
	}
}

func TestAnOrphanIsTakenInOrGoes(t *testing.T) {
	for orphan, want := range map[Orphan]Decision{
		OrphanUnsure:   act(ReadPool, ReasonPoolUnseen),
		OrphanCurrent:  act(Adopt, ReasonOrphaned),
		OrphanOutdated: act(Retire, ReasonOutdated),
		OrphanNone:     rest(ReasonPodReady),
	} {
		f := SandboxFacts{Warm: true, Orphan: orphan, Pod: PodReady, State: Ready, Readiness: ReasonPodReady, Reported: ReasonPodReady}
		NewWithT(t).Expect(StepSandbox(f)).To(Equal(want))
		f.Retired = true
		NewWithT(t).Expect(StepSandbox(f)).To(Equal(move(EventRetired, ReasonRetired)), "what leaves stays leaving")
	}
	starts := SandboxFacts{Warm: true, Pod: PodReady, State: Warming, Readiness: ReasonPodReady, Reported: ReasonPodReady}
	NewWithT(t).Expect(StepSandbox(starts)).To(Equal(rest(ReasonPodReady)), "it is no user's, and may get a pool again")
}
