package apply

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func label(k, v string) agents.PodMetadata {
	return agents.PodMetadata{Labels: map[string]string{k: v}}
}
func note(k, v string) agents.PodMetadata {
	return agents.PodMetadata{Annotations: map[string]string{k: v}}
}

var domains = []string{"sandbox.users.io"}

func TestPodMetadataIsRefusedWithTheFieldAndTheFix(t *testing.T) {
	template := agents.PodMetadata{
		Labels: map[string]string{"sandbox.users.io/tier": "gold"}, Annotations: map[string]string{"example.com/tier": "gold"},
	}
	for _, row := range []struct {
		name string
		more agents.PodMetadata
		says string
	}{
		{"nothing", agents.PodMetadata{}, ""},
		{"a label of an allowed domain", label("sandbox.users.io/who", "me"), ""},
		{"a label of a domain below it", label("team.sandbox.users.io/who", "me"), ""},
		{"the label the template gives, with the same value", label("sandbox.users.io/tier", "gold"), ""},
		{"an annotation", note("example.com/why", "because"), ""},
		{"an annotation without a domain", note("why", "because"), ""},
		{"the autoscaler's annotation", note("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), ""},
		{"a label without a domain", label("who", "me"), "spec.additionalPodMetadata.labels[who]: a label needs a domain, one of: sandbox.users.io"},
		{"a label of another domain", label("example.com/who", "me"), "spec.additionalPodMetadata.labels[example.com/who]: the domain is not one of the allowed ones: sandbox.users.io"},
		{"a domain that only ends alike", label("notsandbox.users.io/who", "me"), "the domain is not one of the allowed ones"},
		{"a key that is none", label("sandbox.users.io/wh o", "me"), "labels[sandbox.users.io/wh o]"},
		{"a value that is too long", label("sandbox.users.io/who", strings.Repeat("x", 64)), "63"},
		{"the router's label", label("app", "Sandbox-Router"), "spec.additionalPodMetadata.labels[app]: the router's label is not a claim's to give"},
		{"the state", label(LabelState, "ready"), "the domain is not one of the allowed ones"},
		{"another value than the template's", label("sandbox.users.io/tier", "lead"),
			`metadata override conflict: spec.additionalPodMetadata.labels[sandbox.users.io/tier] is "lead" and the template says "gold"`},
		{"another annotation than the template's", note("example.com/tier", "lead"),
			`metadata override conflict: spec.additionalPodMetadata.annotations[example.com/tier] is "lead" and the template says "gold"`},
		{"an annotation of Kubernetes'", note("kubernetes.io/x", "y"), "spec.additionalPodMetadata.annotations[kubernetes.io/x]: the domain kubernetes.io is reserved"},
		{"an annotation below Kubernetes'", note("a.k8s.io/x", "y"), "the domain k8s.io is reserved"},
		{"an annotation of ours", note(AnnotationPoolUID, "y"), "is reserved"},
		{"the trace of another", note(AnnotationTrace, "y"), "the key is reserved"},
		{"an annotation that is none", note("wh y", "y"), "annotations[wh y]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			err := CheckPodMetadata(row.more, template, domains)
			if row.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			var refusal *Refusal
			g.Expect(errors.As(err, &refusal)).To(BeTrue())
			g.Expect(refusal.Reason).To(Equal(states.ReasonInvalidMetadata))
			g.Expect(refusal.Message).To(ContainSubstring(row.says))
		})
	}
}

// An administrator may allow any domain; the API's own keys are none of them.
func TestNoDomainAllowsALabelOfOurs(t *testing.T) {
	for _, k := range []string{LabelState, LabelNameHash, LabelClaimUID, LabelTemplate, LabelPool, LabelCreatedBy, "extensions.agents.x-k8s.io/x"} {
		NewWithT(t).Expect(CheckPodMetadata(label(k, "x"), agents.PodMetadata{}, []string{"x-k8s.io", "agents.x-k8s.io"})).NotTo(Succeed(), k)
	}
}

// A status that says now one thing and now the other would be written without end.
func TestOfTwoConflictsTheSameIsAlwaysTold(t *testing.T) {
	const k = "sandbox.users.io/tier"
	both := func(v string) agents.PodMetadata {
		return agents.PodMetadata{Labels: map[string]string{k: v}, Annotations: map[string]string{k: v}}
	}
	for range 100 {
		NewWithT(t).Expect(CheckPodMetadata(both("lead"), both("gold"), domains)).To(MatchError(ContainSubstring("labels")))
	}
}

// claimedSandbox is the sandbox of a claim that has added what a list says, and a label
// of its own.
func claimedSandbox(t *testing.T) *agents.Sandbox {
	t.Helper()
	s := made[agents.Sandbox](t, adoptConfig(adopting(t, aMember(t), aClaim())), "sandbox")
	s.Spec.PodTemplate.ObjectMeta.Labels["sandbox.users.io/own"] = "x"
	return s
}

func TestAClaimsMetadataIsInThePodTemplateOfItsSandbox(t *testing.T) {
	g := NewWithT(t)
	claim := aClaim()
	adopted := claimedSandbox(t)
	own, err := aBlueprint(t).For(claim, domains)
	g.Expect(err).NotTo(HaveOccurred())
	for name, s := range map[string]*agents.Sandbox{"adopted": adopted, "own": made[agents.Sandbox](t, ownConfig(claim, own), "sandbox")} {
		g.Expect(s.Spec.PodTemplate.ObjectMeta.Labels).To(And(HaveKeyWithValue("sandbox.users.io/who", "me"), HaveKeyWithValue("team", "a")), name)
		g.Expect(s.Spec.PodTemplate.ObjectMeta.Annotations).To(And(HaveKeyWithValue("example.com/why", "because"), HaveKeyWithValue("note", "kept")), name)
		g.Expect(s.Annotations).To(HaveKeyWithValue(AnnotationClaimKeys, "annotation:example.com/why,label:sandbox.users.io/who"), name)
		g.Expect(ClaimedDiffers(adopting(t, s, claim))).To(BeFalse(), name)
	}
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: map[string]string{"sandbox.users.io/who": "you"}}
	of := adopting(t, adopted, claim)
	g.Expect(ClaimedDiffers(of)).To(BeTrue())
	synced := made[agents.Sandbox](t, claimedConfig(of), "sandbox")
	g.Expect(unreserved(synced.Spec.PodTemplate.ObjectMeta.Labels)).To(Equal(map[string]string{"team": "a", "sandbox.users.io/own": "x", "sandbox.users.io/who": "you"}))
	g.Expect(unreserved(synced.Spec.PodTemplate.ObjectMeta.Annotations)).To(Equal(map[string]string{"note": "kept"}))
	g.Expect(synced.Annotations).To(HaveKeyWithValue(AnnotationClaimKeys, "label:sandbox.users.io/who"))
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{}
	synced = made[agents.Sandbox](t, claimedConfig(adopting(t, synced, claim)), "sandbox")
	g.Expect(unreserved(synced.Spec.PodTemplate.ObjectMeta.Labels)).To(Equal(map[string]string{"team": "a", "sandbox.users.io/own": "x"}))
	g.Expect(synced.Annotations).NotTo(HaveKey(AnnotationClaimKeys))
}

func TestASandboxKeepsWhatItHasOfItsClaimWhileThatSaysSomethingInvalid(t *testing.T) {
	g := NewWithT(t)
	claim := aClaim()
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: map[string]string{LabelState: "ready", "sandbox.users.io/new": "x"}}
	got, err := ClaimMetadataOf(Claimed{Sandbox: claimedSandbox(t), Claim: claim}, domains)
	g.Expect(err).To(HaveOccurred())
	g.Expect(got).To(Equal(ClaimMetadata{map[string]string{"sandbox.users.io/who": "me"}, map[string]string{"example.com/why": "because"}}))
}

// The list of the keys is an annotation, and a user may write into it.
func TestAForgedListOfKeysKeepsNothingThatAClaimMayNotGive(t *testing.T) {
	g := NewWithT(t)
	claim, s := aClaim(), claimedSandbox(t)
	claim.Spec.AdditionalPodMetadata = label("bad", "x")
	s.Spec.PodTemplate.ObjectMeta.Labels["bad"] = "x"
	s.Annotations[AnnotationClaimKeys] = "label:" + LabelTemplate + ",,label:sandbox.users.io/who, ,label:bad,x,annotation:" + AnnotationLabels
	got, _ := ClaimMetadataOf(Claimed{Sandbox: s, Claim: claim}, domains)
	g.Expect(got.labels).To(Equal(map[string]string{"sandbox.users.io/who": "me"}))
	g.Expect(got.annotations).To(BeEmpty())
}

// A member is nobody's yet, whatever a hand has written on it.
func TestAForgedListOfKeysOnAMemberLetsNoClaimOverrideTheTemplate(t *testing.T) {
	g := NewWithT(t)
	claim, s := aClaim(), aMember(t)
	s.Spec.PodTemplate.ObjectMeta.Labels["sandbox.users.io/who"] = "nobody"
	s.Annotations[AnnotationClaimKeys] = "label:sandbox.users.io/who"
	_, err := ClaimMetadataOf(Claimed{Sandbox: s, Claim: claim}, domains)
	g.Expect(err).To(MatchError(ContainSubstring("metadata override conflict")))
}

// The agent-sandbox controller writes no list, and a hand may take it away.
func TestWhatAClaimHasAddedIsKnownWithoutTheList(t *testing.T) {
	g := NewWithT(t)
	claim, s := aClaim(), claimedSandbox(t)
	delete(s.Annotations, AnnotationClaimKeys)
	of := Claimed{Sandbox: s, Claim: claim, Template: "code", Now: aTemplate()}
	of.Added, _ = ClaimMetadataOf(of, domains)
	g.Expect(ClaimedDiffers(of)).To(BeTrue())
	synced := made[agents.Sandbox](t, claimedConfig(of), "sandbox")
	g.Expect(synced.Annotations).To(HaveKeyWithValue(AnnotationClaimKeys, "annotation:example.com/why,label:sandbox.users.io/who"))
	g.Expect(synced.Spec.PodTemplate).To(Equal(s.Spec.PodTemplate))
}

func TestWhatASandboxHasFromItsTemplateIsNotItsClaims(t *testing.T) {
	g := NewWithT(t)
	claim := aClaim()
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: map[string]string{"sandbox.users.io/own": "x"}}
	got, err := ClaimMetadataOf(Claimed{Sandbox: claimedSandbox(t), Claim: claim}, domains)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.labels).To(BeEmpty())
}

// mended is a pod after the writes that mend it, and how many they are. Whoever has
// put a value there owns it, and an apply that leaves it out removes nothing.
func mended(t *testing.T, m PodMove, is states.State) (*corev1.Pod, int) {
	t.Helper()
	owned := map[string]bool{}
	for writes := range 5 {
		m.Seize = writes > 0
		if !(&Applier{}).Drifted(m, is) {
			return m.Pod, writes
		}
		config := (&Applier{}).stateConfig(m, is)
		for k, v := range config.Labels {
			owned[k] = owned[k] || m.Pod.Labels[k] != v
			m.Pod.Labels[k] = v
		}
		for k := range m.Pod.Labels {
			if _, sent := config.Labels[k]; !sent && owned[k] {
				delete(m.Pod.Labels, k)
			}
		}
		m.Pod.Annotations = map[string]string{}
		for k, v := range config.Annotations {
			m.Pod.Annotations[k] = v
		}
	}
	t.Fatal("it is mended for ever")
	return nil, 0
}

func TestWhatSomebodyDidToThePodOfAClaimIsMendedInAFewWrites(t *testing.T) {
	for _, row := range []struct {
		name   string
		labels map[string]string
		writes int
	}{
		{"nothing", nil, 0},
		{"another state", map[string]string{LabelState: "stale"}, 1},
		{"another claim", map[string]string{LabelClaimUID: "x"}, 1},
		{"another creator", map[string]string{LabelCreatedBy: "x"}, 1},
		{"a pool, which it is not to have: it is left out, seized, and then it goes", map[string]string{LabelPool: "x"}, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			claim := aClaim()
			claim.Spec.AdditionalPodMetadata = label("sandbox.users.io/who", "me")
			adopted := made[agents.Sandbox](t, adoptConfig(adopting(t, aMember(t), claim)), "sandbox")
			m := PodMove{Pod: &corev1.Pod{}, Sandbox: adopted, Claim: claim}
			bound := (&Applier{}).stateConfig(m, states.Bound)
			m.Pod.Labels, m.Pod.Annotations = map[string]string{}, bound.Annotations
			for _, from := range []map[string]string{bound.Labels, row.labels} {
				for k, v := range from {
					m.Pod.Labels[k] = v
				}
			}
			pod, writes := mended(t, m, states.Bound)
			g.Expect(writes).To(Equal(row.writes))
			g.Expect(pod.Labels).To(Equal(bound.Labels))
		})
	}
}
