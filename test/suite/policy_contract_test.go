package suite

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

func TestATemplateGetsTheDefaultPolicyToTheLetter(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"))
	w.Await(policyAsWanted("t"), c.Wrote("template", "label", 1))
	g, p := NewWithT(t), policyNow(t, w)
	hash := apply.Hash("t")
	template, err := w.Templates().Get(w.Context(), "t", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.OwnerReferences).To(BeEmpty(), "the garbage collector would take it from under what still runs")
	g.Expect(p.Labels).To(Equal(map[string]string{"agents.x-k8s.io/sandbox-template-ref-hash": hash}))
	g.Expect(p.Annotations).To(Equal(map[string]string{
		"agents.x-k8s.io/sandbox-template-ref": "t", "agents.x-k8s.io/sandbox-template-uid": string(template.UID),
	}))
	g.Expect(json.Marshal(p.Spec)).To(MatchJSON(`{
		"podSelector": {"matchLabels": {"agents.x-k8s.io/sandbox-template-ref-hash": "` + hash + `"}},
		"ingress": [{"from": [{
			"podSelector": {"matchLabels": {"app": "sandbox-router"}},
			"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agent-sandbox-system"}}
		}]}],
		"egress": [{"to": [
			{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]}},
			{"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}}
		]}],
		"policyTypes": ["Ingress", "Egress"]
	}`))
	g.Expect(template.Labels).To(HaveKeyWithValue(apply.LabelTemplate, hash))
	g.Expect(c.Wire.Count("policy", "create")).To(Equal(1))
	g.Expect(c.Wire.Writes()).To(HaveLen(2), "the policy and the label")
}

func TestATemplatesOwnRulesAreThePolicyAndItsEditsAreFollowed(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(withRules(world.Template("t"), `{"ports":[{"port":8080},{"port":"web","protocol":"UDP"}]}`, ""))
	w.Await(policyAsWanted("t"))
	g := NewWithT(t)
	spec := func() string {
		raw, err := json.Marshal(policyNow(t, w).Spec)
		g.Expect(err).NotTo(HaveOccurred())
		return string(raw)
	}
	selector := `"podSelector":{"matchLabels":{"agents.x-k8s.io/sandbox-template-ref-hash":"` + apply.Hash("t") + `"}},"policyTypes":["Ingress","Egress"]`
	g.Expect(spec()).To(MatchJSON(`{` + selector + `,"ingress":[{"ports":[{"port":8080,"protocol":"TCP"},{"port":"web","protocol":"UDP"}]}]}`))
	w.PatchTemplate("t", `{"networkPolicy":{"ingress":null,"egress":[{"to":[{"ipBlock":{"cidr":"10.1.0.0/16"}}]}]}}`)
	w.Await(policyAsWanted("t"))
	g.Expect(spec()).To(MatchJSON(`{` + selector + `,"egress":[{"to":[{"ipBlock":{"cidr":"10.1.0.0/16"}}]}]}`))
	w.PatchTemplate("t", `{"networkPolicy":{"ingress":[],"egress":[]}}`)
	w.Await(policyAsWanted("t"))
	g.Expect(spec()).To(MatchJSON(`{`+selector+`}`), "nothing passes")
	w.PatchTemplate("t", `{"networkPolicy":null}`)
	w.Await(policyAsWanted("t"), c.Settled())
	g.Expect(spec()).To(ContainSubstring("sandbox-router"))
	g.Expect(c.Wire.Count("policy", "sync")).To(Equal(3), "one for each edit; what the server fills in is no drift")
}

func TestAPolicyThatAHandChangesIsMended(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"))
	w.Await(policyAsWanted("t"))
	was := policyNow(t, w).UID
	for i, patch := range []string{
		`{"spec":{"egress":[{}]}}`,
		`{"spec":{"ingress":[{}],"podSelector":{"matchLabels":{"app":"x"}}}}`,
		`{"spec":{"policyTypes":["Ingress"],"egress":null}}`,
		`{"metadata":{"labels":null,"annotations":null}}`,
		`{"metadata":{"labels":{"agents.x-k8s.io/sandbox-template-ref-hash":"00000000"}},"spec":{"ingress":null}}`,
	} {
		changePolicy(t, w, patch)
		w.Await(c.Wrote("policy", "sync", i+1), policyAsWanted("t"))
	}
	same(t, []string{string(policyNow(t, w).UID)}, string(was))
	w.Delete(w.Policies(), policyOfT)
	w.Await(c.Wrote("policy", "create", 2), policyAsWanted("t"))
	if n := c.Wire.Count("policy", "delete"); n != 0 {
		t.Errorf("%d deletes were sent", n)
	}
}

func TestAPolicyOfThatNameThatSomebodyMadeIsLeftAloneAndNoPodStarts(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(somebodys(), world.Template("t"), world.Pool("p", 2), world.Pool("empty", 0), world.Claim("a", "empty"))
	const says = `refusing to update NetworkPolicy "t-network-policy": it was not made for SandboxTemplate "t"; delete it or give it another name, ` +
		`or set spec.networkPolicyManagement of the template to Unmanaged; no pod is made from the template until then`
	w.Await(world.All(
		world.PoolSays("p", "Degraded", "NetworkPolicyRefused", says),
		world.PoolSays("p", "Ready", "NetworkPolicyRefused", says),
		members("p", 2), world.SandboxSays("a", "ReconcilerError", says),
		world.ClaimSays("a", "ReconcilerError", says),
	))
	for _, member := range w.Members("p") {
		w.Await(world.SandboxSays(member, "ReconcilerError", says))
	}
	w.Await(c.Settled())
	g := NewWithT(t)
	g.Expect(w.Pods().List(w.Context(), metav1.ListOptions{})).To(HaveField("Items", BeEmpty()))
	g.Expect(policyNow(t, w).Spec).To(Equal(somebodys().Spec))
	g.Eventually(func() []string { return warnings(t, w, "t") }).WithTimeout(patience).Should(Equal([]string{"NetworkPolicyRefused: " + says}))
	for _, verb := range []string{"create", "sync", "delete"} {
		g.Expect(c.Wire.Count("policy", verb)).To(BeZero(), verb)
	}
	w.Delete(w.Policies(), policyOfT)
	w.Await(policyAsWanted("t"), world.Converged("p", 2, "a"), world.PoolSays("p", "Degraded", "AsExpected", ""))
}

// warnings are the Warnings about an object, by its name.
func warnings(t *testing.T, w *kit.World, name string) (all []string) {
	t.Helper()
	for _, e := range about(t, w, name) {
		if e.Type == corev1.EventTypeWarning {
			all = append(all, e.Reason+": "+e.Note)
		}
	}
	return all
}

func TestAPolicyThatTheServerRefusesIsToldInItsWordsUntilItIsAllowed(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	lift := forbid(t, w, "networking.k8s.io", "networkpolicies")
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 2))
	w.Await(world.PoolSays("p", "Degraded", "NetworkPolicyRefused", `the API server refuses NetworkPolicy "t-network-policy"`))
	w.Await(world.PoolSays("p", "Degraded", "NetworkPolicyRefused", "no room at the inn"))
	NewWithT(t).Expect(c.Wire.Count("pod", "create")).To(BeZero())
	lift()
	w.PatchTemplate("t", `{"networkPolicy":{}}`) // nobody waits for the back-off
	w.Await(policyAsWanted("t"), world.Converged("p", 2), world.PoolSays("p", "Degraded", "AsExpected", ""))
	NewWithT(t).Expect(warnings(t, w, "t")).To(HaveLen(1), "what is refused again is not told again")
}

func TestAnUnmanagedTemplateGivesUpItsOwnPolicyAndNoOther(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), world.Pool("p", 1))
	w.Await(world.Full("p", 1))
	before := w.Members("p")
	w.PatchTemplate("t", `{"networkPolicyManagement":"Unmanaged"}`)
	w.Await(noPolicy)
	NewWithT(t).Eventually(func() int { return w.Events("t", "NetworkPolicyDeleted") }).WithTimeout(patience).Should(Equal(1))
	w.Create(somebodys())
	w.PatchTemplate("t", `{"service":false}`)
	w.Await(world.Full("p", 1))
	w.PatchTemplate("t", `{"networkPolicyManagement":"Managed"}`)
	w.Await(world.PoolSays("p", "Degraded", "NetworkPolicyRefused", "t-network-policy"))
	w.PatchTemplate("t", `{"networkPolicyManagement":"Unmanaged"}`)
	w.Await(world.PoolSays("p", "Degraded", "AsExpected", ""), c.Settled())
	g := NewWithT(t)
	g.Expect(policyNow(t, w).Spec).To(Equal(somebodys().Spec))
	g.Expect(c.Wire.Count("policy", "delete")).To(Equal(1))
	same(t, w.Members("p"), before...)
}

func TestATemplateThatNeverWantedAPolicyCausesNoWriteOfOne(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(unmanagedTemplate("t"), world.Pool("p", 1), world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	w.Delete(w.Templates(), "t")
	w.Delete(w.Claims(), "a")
	w.Delete(w.Pools(), "p")
	w.Await(world.Empty, c.Settled())
	for _, one := range c.Wire.Writes() {
		if one.Kind == "policy" {
			t.Errorf("policy %s", one.Verb)
		}
	}
}
