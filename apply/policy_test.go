package apply

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

func closed(t *ext.SandboxTemplate) { t.Spec.NetworkPolicy = &ext.NetworkPolicySpec{} }
func unmanaged(t *ext.SandboxTemplate) {
	t.Spec.NetworkPolicyManagement = ext.NetworkPolicyUnmanaged
}

func runs(pod string) func(*ext.SandboxTemplate) {
	return func(t *ext.SandboxTemplate) { t.Spec.PodTemplate.Spec.Raw = []byte(pod) }
}

func withRules(ingress, egress string) func(*ext.SandboxTemplate) {
	return func(t *ext.SandboxTemplate) {
		t.Spec.NetworkPolicy = &ext.NetworkPolicySpec{}
		for to, raw := range map[*[]runtime.RawExtension]string{&t.Spec.NetworkPolicy.Ingress: ingress, &t.Spec.NetworkPolicy.Egress: egress} {
			if raw != "" {
				*to = []runtime.RawExtension{{Raw: []byte(raw)}}
			}
		}
	}
}

func aPolicy(t *testing.T, of *ext.SandboxTemplate) Policy {
	t.Helper()
	p, err := PolicyOf(of)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

func ownedBy(kind, name string, blocks *bool) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: ext.SchemeGroupVersion.String(), Kind: kind, Name: name, UID: types.UID(name + "-uid"), Controller: &yes, BlockOwnerDeletion: blocks,
	}
}

// theirPolicy is a policy as the controller before us has made it.
func theirPolicy() *networkingv1.NetworkPolicy {
	yes := true
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "python-network-policy", Namespace: "ns", UID: "policy-uid",
		OwnerReferences: []metav1.OwnerReference{ownedBy(ext.KindTemplate, "python", &yes)},
	}}
}

// The default, to the letter: it is what the users of the API rely on.
func TestTheDefaultPolicyLetsTheRouterInAndTheInternetOut(t *testing.T) {
	raw, err := json.Marshal(aPolicy(t, aTemplate()).createConfig().Spec)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(raw).To(MatchJSON(`{
		"podSelector": {"matchLabels": {"agents.x-k8s.io/sandbox-template-ref-hash": "` + Hash("python") + `"}},
		"policyTypes": ["Ingress", "Egress"],
		"ingress": [{"from": [{
			"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agent-sandbox-system"}},
			"podSelector": {"matchLabels": {"app": "sandbox-router"}}
		}]}],
		"egress": [{"to": [
			{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]}},
			{"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}}
		]}]
	}`))
}

func TestOwnRulesAreSentAsTheyAreWritten(t *testing.T) {
	for _, row := range []struct {
		name     string
		template *ext.SandboxTemplate
		in, out  string
	}{
		{"none, which lets nothing pass", aTemplate(closed), `[]`, `[]`},
		{"one way in", aTemplate(withRules(`{"ports":[{"port":80}]}`, "")), `[{"ports":[{"port":80}]}]`, `[]`},
		{"everywhere out", aTemplate(withRules("", `{}`)), `[]`, `[{}]`},
		{"a name, a range and a block", aTemplate(withRules(`{"ports":[{"port":"web"}]}`, `{"ports":[{"port":1,"endPort":9,"protocol":"UDP"}],"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}`)),
			`[{"ports":[{"port":"web"}]}]`, `[{"ports":[{"port":1,"endPort":9,"protocol":"UDP"}],"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}]`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			spec := aPolicy(t, row.template).createConfig().Spec
			g.Expect(json.Marshal(spec.Ingress)).To(MatchJSON(row.in))
			g.Expect(json.Marshal(spec.Egress)).To(MatchJSON(row.out))
		})
	}
}

func TestARuleThatCannotBeReadNamesItsField(t *testing.T) {
	for rule, says := range map[string]string{
		`{"ports":[{"port":3000000000}]}`: "spec.networkPolicy.egress[0].ports[0].port: ",
		`{"to":{"podSelector":{}}}`:       "spec.networkPolicy.egress[0].to: ",
		`{"from":[]}`:                     `spec.networkPolicy.egress[0]: unknown field "from"`,
	} {
		_, err := PolicyOf(aTemplate(withRules("", rule)))
		NewWithT(t).Expect(err).To(MatchError(HavePrefix(says)))
	}
	_, err := PolicyOf(aTemplate(withRules(`{"from":7}`, "")))
	NewWithT(t).Expect(err).To(MatchError(HavePrefix("spec.networkPolicy.ingress[0].from: ")))
}

// Warm and cold start from one blueprint.
func TestAPodGetsTheSecureDefaultsUnlessItsAuthorSaysOtherwise(t *testing.T) {
	const public = `"dnsPolicy":"None","dnsConfig":{"nameservers":["8.8.8.8","1.1.1.1"]}`
	for _, row := range []struct {
		name string
		with []func(*ext.SandboxTemplate)
		want string
	}{
		{"both", []func(*ext.SandboxTemplate){runs(`{"containers":[]}`)}, `{"containers":[],"automountServiceAccountToken":false,` + public + `}`},
		{"a token on purpose", []func(*ext.SandboxTemplate){runs(`{"automountServiceAccountToken":true}`)}, `{"automountServiceAccountToken":true,` + public + `}`},
		{"a token that is null", []func(*ext.SandboxTemplate){runs(`{"automountServiceAccountToken":null}`)}, `{"automountServiceAccountToken":false,` + public + `}`},
		{"DNS of its own", []func(*ext.SandboxTemplate){runs(`{"dnsPolicy":"ClusterFirst"}`)}, `{"automountServiceAccountToken":false,"dnsPolicy":"ClusterFirst"}`},
		{"DNS that is empty", []func(*ext.SandboxTemplate){runs(`{"dnsPolicy":""}`)}, `{"automountServiceAccountToken":false,` + public + `}`},
		{"rules of its own", []func(*ext.SandboxTemplate){runs(`{}`), closed}, `{"automountServiceAccountToken":false}`},
		{"no policy", []func(*ext.SandboxTemplate){runs(`{}`), unmanaged}, `{"automountServiceAccountToken":false}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			b, err := BlueprintOf(aTemplate(row.with...))
			g.Expect(err).NotTo(HaveOccurred())
			warm, cold := memberConfig(aPool(), "x", b), ownConfig(aClaim(), b)
			g.Expect(warm.Spec.PodTemplate.Spec.Raw).To(MatchJSON(row.want))
			g.Expect(cold.Spec.PodTemplate.Spec.Raw).To(MatchJSON(row.want))
		})
	}
}

func TestASandboxRemembersThePolicyThatItsPodsWereToHave(t *testing.T) {
	g := NewWithT(t)
	for want, template := range map[string]*ext.SandboxTemplate{"python-network-policy": aTemplate(), "": aTemplate(unmanaged)} {
		b, err := BlueprintOf(template)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(memberConfig(aPool(), "x", b).Annotations[AnnotationPolicy]).To(Equal(want))
		g.Expect(ownConfig(aClaim(), b).Annotations[AnnotationPolicy]).To(Equal(want))
	}
}

// live is the policy of a template as the server has it.
func live(t *testing.T, of *ext.SandboxTemplate, changes ...func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{}
	raw, err := json.Marshal(aPolicy(t, of).createConfig())
	if err == nil {
		err = json.Unmarshal(raw, p)
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, change := range changes {
		change(p)
	}
	return p
}

func TestAPolicyHasDriftedWhenAnythingOfItIsNotAsWanted(t *testing.T) {
	own := aTemplate(withRules(`{"ports":[{"port":80}]}`, ""))
	tcp := func(p *networkingv1.NetworkPolicy) {
		protocol := corev1.ProtocolTCP
		p.Spec.Ingress[0].Ports[0].Protocol = &protocol
	}
	for _, row := range []struct {
		name    string
		change  func(*networkingv1.NetworkPolicy)
		matches bool
	}{
		{"as it was sent", func(*networkingv1.NetworkPolicy) {}, true},
		{"with what the server fills in", tcp, true},
		{"with an empty list left out", func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = nil }, true},
		{"with somebody's label", func(p *networkingv1.NetworkPolicy) { p.Labels["a"] = "b" }, true},
		{"with somebody's owner", func(p *networkingv1.NetworkPolicy) {
			p.OwnerReferences = []metav1.OwnerReference{ownedBy("Release", "x", nil)}
		}, true},
		{"another port", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].Port.IntVal = 81 }, false},
		{"one more way out", func(p *networkingv1.NetworkPolicy) {
			p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
		}, false},
		{"no egress any more", func(p *networkingv1.NetworkPolicy) { p.Spec.PolicyTypes = p.Spec.PolicyTypes[:1] }, false},
		{"other pods", func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector.MatchLabels = nil }, false},
		{"without its label", func(p *networkingv1.NetworkPolicy) { p.Labels = nil }, false},
		{"without its annotation", func(p *networkingv1.NetworkPolicy) { p.Annotations = nil }, false},
		{"owned by the template", func(p *networkingv1.NetworkPolicy) {
			p.OwnerReferences = []metav1.OwnerReference{ownedBy(ext.KindTemplate, "python", nil)}
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(aPolicy(t, own).Matches(live(t, own, row.change))).To(Equal(row.matches))
		})
	}
}

func TestWhoseAPolicyIs(t *testing.T) {
	wrote := func(manager string, op metav1.ManagedFieldsOperationType) func(*networkingv1.NetworkPolicy) {
		return func(p *networkingv1.NetworkPolicy) {
			p.Labels, p.Annotations = nil, nil
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "other"}, {Manager: manager, Operation: op}}
		}
	}
	owner := func(o metav1.OwnerReference) func(*networkingv1.NetworkPolicy) {
		return func(p *networkingv1.NetworkPolicy) {
			p.Labels, p.Annotations, p.OwnerReferences = nil, nil, []metav1.OwnerReference{o}
		}
	}
	old := ownedBy(ext.KindTemplate, "python", nil)
	old.APIVersion = "extensions.agents.x-k8s.io/v1alpha1"
	loose := ownedBy(ext.KindTemplate, "python", nil)
	loose.Controller = nil
	for _, row := range []struct {
		name   string
		change func(*networkingv1.NetworkPolicy)
		ours   bool
	}{
		{"it says so, as one that was restored from a backup does", func(*networkingv1.NetworkPolicy) {}, true},
		{"we wrote it, whatever a hand took from it", wrote("kiln-template", metav1.ManagedFieldsOperationApply), true},
		{"the controller before us made the template its owner", owner(old), true},
		{"somebody made the template an owner, and not its controller", owner(loose), false},
		{"it belongs to another template", owner(ownedBy(ext.KindTemplate, "other", nil)), false},
		{"it belongs to a pool of the name", owner(ownedBy(ext.KindPool, "python", nil)), false},
		{"somebody of our name updated it", wrote("kiln-template", metav1.ManagedFieldsOperationUpdate), false},
		{"a hand wrote it", wrote("kubectl", metav1.ManagedFieldsOperationApply), false},
		{"it has the label alone", func(p *networkingv1.NetworkPolicy) { p.Annotations = nil }, false},
		{"it says that it is another template's", func(p *networkingv1.NetworkPolicy) { p.Annotations[AnnotationTemplate] = "other" }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			p := live(t, aTemplate(), row.change)
			g.Expect(OwnsPolicy("python", p)).To(Equal(row.ours))
			for range 2 { // what is trimmed may be trimmed again
				TrimPolicy(p)
				g.Expect(OwnsPolicy("python", p)).To(Equal(row.ours), "trimmed")
				g.Expect(len(p.Spec.PolicyTypes) > 0).To(Equal(row.ours), "somebody else's rules are not kept")
			}
		})
	}
}

func TestThePolicyOfATemplateIsFoundByItsName(t *testing.T) {
	g := NewWithT(t)
	named := func(name string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	template, ok := PolicyTemplate(named(PolicyName("a-network-policy")))
	g.Expect(ok).To(BeTrue())
	g.Expect(template).To(Equal("a-network-policy"))
	for _, name := range []string{"-network-policy", "a", "network-policy"} {
		_, ok := PolicyTemplate(named(name))
		g.Expect(ok).To(BeFalse(), name)
	}
}

// A template's name may be as long as a name can be.
func TestThePolicyOfATemplateWithALongNameHasANameOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("n", longestName)
	name := PolicyName(long)
	g.Expect(name).To(HaveLen(longestName))
	g.Expect(PolicyName(long[:longestName-1])).NotTo(Equal(name))
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{AnnotationTemplate: long}}}
	template, ok := PolicyTemplate(p)
	g.Expect(ok).To(BeTrue())
	g.Expect(template).To(Equal(long))
}

// The first write makes the reference ours, the second leaves it out.
func TestAnOwnerReferenceToATemplateTakesTwoWritesToGo(t *testing.T) {
	g := NewWithT(t)
	p, is := aPolicy(t, aTemplate()), theirPolicy()
	first := p.syncConfig(is).Metadata.OwnerReferences
	g.Expect(first).To(HaveLen(1))
	g.Expect(*first[0].BlockOwnerDeletion).To(BeFalse())
	g.Expect(*first[0].UID).To(Equal(is.OwnerReferences[0].UID))
	is.OwnerReferences[0].BlockOwnerDeletion = first[0].BlockOwnerDeletion
	g.Expect(p.Matches(is)).To(BeFalse())
	g.Expect(p.syncConfig(is).Metadata.OwnerReferences).To(BeEmpty())
	is.OwnerReferences = []metav1.OwnerReference{ownedBy("Release", "x", nil)}
	g.Expect(p.syncConfig(is).Metadata.OwnerReferences).To(BeEmpty(), "somebody else's is none of ours")
}

func TestAPolicyIsMadeOnlyWhereThereIsNoneAndChangedOnlyAsItWasSeen(t *testing.T) {
	g := NewWithT(t)
	p := aPolicy(t, aTemplate())
	g.Expect(*p.createConfig().Metadata.ResourceVersion).To(Equal(mustNotExist))
	g.Expect(*p.syncConfig(theirPolicy()).Metadata.UID).To(Equal(types.UID("policy-uid")))
	raw, err := json.Marshal(aPolicy(t, aTemplate(closed)).createConfig())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Contains(string(raw), `"ingress":[],"egress":[]`)).To(BeTrue(), "an empty list is sent: %s", raw)
}
