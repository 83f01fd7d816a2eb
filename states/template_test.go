package states

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestWhatATemplateDoesNext(t *testing.T) {
	well := TemplateFacts{Labelled: true, Managed: true, Policy: PolicyCurrent, Told: true}
	but := func(change func(*TemplateFacts)) TemplateFacts {
		f := well
		change(&f)
		return f
	}
	for _, row := range []struct {
		name  string
		facts TemplateFacts
		want  Decision
	}{
		{"all is well", well, rest(ReasonLabelled)},
		{"a new one gets its policy before its label", TemplateFacts{Managed: true, Told: true}, part(Create, PartPolicy, ReasonPolicyMissing)},
		{"then its label", but(func(f *TemplateFacts) { f.Labelled = false }), act(Label, ReasonUnlabelled)},
		{"a policy that somebody deleted is made again", but(func(f *TemplateFacts) { f.Policy = PolicyNone }), part(Create, PartPolicy, ReasonPolicyMissing)},
		{"one that is being deleted is waited for", but(func(f *TemplateFacts) { f.Policy = PolicyTerminating }), rest(ReasonLabelled)},
		{"one that was changed is mended", but(func(f *TemplateFacts) { f.Policy = PolicyDrifted }), part(Sync, PartPolicy, ReasonPolicyDrifted)},
		{"one of an earlier template is taken over", but(func(f *TemplateFacts) { f.Policy = PolicyEarlier }), part(Sync, PartPolicy, ReasonPolicyDrifted)},
		{"unmanaged, with one of an earlier template", but(func(f *TemplateFacts) { f.Managed, f.Policy = false, PolicyEarlier }), part(Delete, PartPolicy, ReasonPolicyUnwanted)},
		{"once a step", but(func(f *TemplateFacts) { f.Policy, f.Synced = PolicyDrifted, true }), rest(ReasonLabelled)},
		{"somebody else's is told", but(func(f *TemplateFacts) { f.Policy, f.Told = PolicyForeign, false }), act(Report, ReasonPolicyForeign)},
		{"and left alone", but(func(f *TemplateFacts) { f.Policy = PolicyForeign }), rest(ReasonPolicyForeign)},
		{"that it is not any more is told too", but(func(f *TemplateFacts) { f.Told = false }), act(Report, ReasonPolicyCurrent)},
		{"rules of which no policy can be made", but(func(f *TemplateFacts) { f.Invalid, f.Policy, f.Told = true, PolicyNone, false }), act(Report, ReasonPolicyInvalid)},
		{"keep the policy as it was", but(func(f *TemplateFacts) { f.Invalid, f.Policy = true, PolicyDrifted }), rest(ReasonPolicyInvalid)},
		{"a policy that the server refuses is told", but(func(f *TemplateFacts) { f.Refused, f.Policy, f.Told = true, PolicyNone, false }), act(Report, ReasonPolicyRefused)},
		{"and tried again", but(func(f *TemplateFacts) { f.Refused, f.Policy = true, PolicyNone }), act(Retry, ReasonPolicyRefused)},
		{"the label does not wait for that", but(func(f *TemplateFacts) { f.Refused, f.Labelled = true, false }), act(Label, ReasonUnlabelled)},
		{"unmanaged, with a policy of ours", but(func(f *TemplateFacts) { f.Managed = false }), part(Delete, PartPolicy, ReasonPolicyUnwanted)},
		{"unmanaged, with one that was changed", but(func(f *TemplateFacts) { f.Managed, f.Policy = false, PolicyDrifted }), part(Delete, PartPolicy, ReasonPolicyUnwanted)},
		{"unmanaged, with somebody else's", but(func(f *TemplateFacts) { f.Managed, f.Policy = false, PolicyForeign }), rest(ReasonLabelled)},
		{"unmanaged, with none", but(func(f *TemplateFacts) { f.Managed, f.Policy = false, PolicyNone }), rest(ReasonLabelled)},
		{"being deleted, it keeps its policy", but(func(f *TemplateFacts) { f.Terminating, f.Labelled = true, false }), rest(ReasonTerminating)},
		{"being deleted, it makes it again", but(func(f *TemplateFacts) { f.Terminating, f.Policy = true, PolicyNone }), part(Create, PartPolicy, ReasonPolicyMissing)},
		{"gone, and in use", TemplateFacts{Gone: true, Policy: PolicyCurrent, Used: true}, rest(ReasonPolicyUsed)},
		{"gone, and not in use", TemplateFacts{Gone: true, Policy: PolicyCurrent}, part(Delete, PartPolicy, ReasonPolicyUnused)},
		{"gone, with somebody else's policy", TemplateFacts{Gone: true, Policy: PolicyForeign}, rest(ReasonGone)},
		{"gone without a policy", TemplateFacts{Gone: true}, rest(ReasonGone)},
		{"gone, and the policy is going", TemplateFacts{Gone: true, Policy: PolicyTerminating}, rest(ReasonGone)},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(StepTemplate(row.facts)).To(Equal(row.want))
		})
	}
}

func TestOnlyAPolicyOfOursIsEverChanged(t *testing.T) {
	eachTemplate(func(f TemplateFacts) {
		g, d := NewWithT(t), StepTemplate(f)
		switch d.Act {
		case Create:
			g.Expect(f.Policy == PolicyNone && f.Managed && !f.Gone && !f.Invalid).To(BeTrue(), "%+v", f)
		case Sync:
			g.Expect((f.Policy == PolicyDrifted || f.Policy == PolicyEarlier) && f.Managed && !f.Gone && !f.Invalid).To(BeTrue(), "%+v", f)
		case Delete:
			g.Expect(f.Policy.ours()).To(BeTrue(), "%+v", f)
			g.Expect(f.Gone && !f.Used || !f.Gone && !f.Managed).To(BeTrue(), "%+v", f)
		}
	})
}

func TestAPodIsUnprotectedWithoutThePolicyThatItsTemplateWantsOrWanted(t *testing.T) {
	for flags := range 1 << 4 {
		for _, policy := range policyViews {
			on := func(bit int) bool { return flags&(1<<bit) != 0 }
			f := ProtectionFacts{Shown: on(0), Managed: on(1), Promised: on(2), Refused: on(3), Policy: policy}
			wanted := f.Shown && f.Managed || !f.Shown && f.Promised
			stands := policy == PolicyCurrent || policy == PolicyDrifted
			NewWithT(t).Expect(f.Unprotected()).To(Equal(wanted && (f.Refused || !stands)), "%+v", f)
		}
	}
}

func TestAnUnprotectedPodWaitsAndItsSandboxSaysSo(t *testing.T) {
	g := NewWithT(t)
	f := SandboxFacts{Holder: HolderPool, Unprotected: true, Readiness: ReasonPodMissing, StatusDelay: MemberDelay}
	g.Expect(StepSandbox(f)).To(Equal(act(Wait, ReasonUnprotected).in(MemberDelay)), "a launch that goes well is not talked about")
	f.Readiness, f.StatusDelay = ReasonPodProblem, 0
	g.Expect(StepSandbox(f)).To(Equal(act(Report, ReasonPodProblem)), "what a person can mend is")
	f.Reported = ReasonPodProblem
	g.Expect(StepSandbox(f)).To(Equal(act(Wait, ReasonUnprotected)))
	f.Unprotected = false
	g.Expect(StepSandbox(f)).To(Equal(part(Create, PartPod, ReasonPodMissing)))
}
