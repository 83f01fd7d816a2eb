package sandbox

import (
	"testing"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// promised is made from the template t, which shall have a policy.
func promised(b *agents.Sandbox) {
	ofPool(b)
	b.Annotations = map[string]string{apply.AnnotationTemplate: "t", apply.AnnotationPolicy: "t-network-policy"}
}

// theTemplate is t, before a row changes it.
func theTemplate(changes ...func(*ext.SandboxTemplate)) *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: made("t", "t-uid")}
	for _, change := range changes {
		change(t)
	}
	return t
}

func openToAll(t *ext.SandboxTemplate) {
	t.Spec.NetworkPolicyManagement = ext.NetworkPolicyUnmanaged
}

func aPolicy(changes ...func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: made("t-network-policy", "n-uid")}
	p.Labels, p.Annotations = map[string]string{apply.LabelTemplate: apply.Hash("t")}, map[string]string{
		apply.AnnotationTemplate: "t", apply.AnnotationTemplateUID: string(theTemplate().UID),
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func TestAPodWaitsForThePolicyOfItsTemplate(t *testing.T) {
	for _, row := range []struct {
		name string
		has  []metav1.Object
		want bool
		help bool
	}{
		{"the policy is there", []metav1.Object{aSandbox(promised), theTemplate(), aPolicy()}, false, false},
		{"it is not there yet", []metav1.Object{aSandbox(promised), theTemplate()}, true, false},
		{"it is somebody else's", []metav1.Object{aSandbox(promised), theTemplate(), aPolicy(func(p *networkingv1.NetworkPolicy) { p.Labels = nil })}, true, false},
		{"it is of an earlier template", []metav1.Object{aSandbox(promised), theTemplate(), aPolicy(func(p *networkingv1.NetworkPolicy) {
			p.Annotations[apply.AnnotationTemplateUID] = "earlier"
		})}, true, false},
		{"it is going", []metav1.Object{aSandbox(promised), theTemplate(), aPolicy(func(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = &noon })}, true, false},
		{"it is in another namespace", []metav1.Object{aSandbox(promised), theTemplate(), aPolicy(func(p *networkingv1.NetworkPolicy) { p.Namespace = "b" })}, true, false},
		{"the template wants none", []metav1.Object{aSandbox(promised), theTemplate(openToAll)}, false, false},
		{"the template is gone, and the policy is not", []metav1.Object{aSandbox(promised), aPolicy()}, false, false},
		{"both are gone", []metav1.Object{aSandbox(promised)}, true, true},
		{"both are gone, and it was made before there were policies", []metav1.Object{aSandbox(promised, func(b *agents.Sandbox) { delete(b.Annotations, apply.AnnotationPolicy) })}, false, false},
		{"it was made before there were policies, and now there shall be one", []metav1.Object{aSandbox(promised, func(b *agents.Sandbox) { delete(b.Annotations, apply.AnnotationPolicy) }), theTemplate()}, true, false},
		{"it has its pod already", []metav1.Object{aSandbox(promised), theTemplate(), running()}, false, false},
		{"it shall have no pod", []metav1.Object{aSandbox(promised, suspend), theTemplate()}, false, false},
		{"a user made it", []metav1.Object{aSandbox(func(b *agents.Sandbox) { b.Annotations = map[string]string{apply.AnnotationTemplate: "t"} }), theTemplate()}, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			f := w.Observe(key, learned{}).Facts
			w.g.Expect(f.Unprotected).To(Equal(row.want))
			w.g.Expect(f.Readiness == states.ReasonPodProblem).To(Equal(row.help), "there is something for a person to do")
			if row.want {
				f.Reported = f.Readiness
				d := states.StepSandbox(f)
				w.g.Expect([]any{d.Act, d.Reason}).To(Equal([]any{states.Wait, states.ReasonUnprotected}))
			}
		})
	}
}

func TestAPodIsNotStartedUnderAPolicyThatIsBeingDeleted(t *testing.T) {
	w := aWorld(t, aSandbox(promised), aPolicy())
	templateKey := view.Key{Namespace: key.Namespace, Name: "t"}
	w.Deletions.Begin(templateKey)
	w.g.Expect(w.Observe(key, learned{}).Facts.Unprotected).To(BeTrue())
	w.Deletions.End(templateKey)
	w.g.Expect(w.Observe(key, learned{}).Facts.Unprotected).To(BeFalse())
}

func TestASandboxSaysWhyItsPodMustNotStart(t *testing.T) {
	says := func(w *world) string {
		s := w.Observe(key, learned{})
		w.g.Expect(s.Facts.Unprotected).To(BeTrue())
		w.g.Expect(states.StepSandbox(s.Facts)).To(Equal(states.Decision{Act: states.Report, Reason: states.ReasonPodProblem}))
		for _, c := range w.status(s, s.Facts.Readiness).Conditions {
			if c.Type == view.Ready {
				return c.Reason + ": " + c.Message
			}
		}
		return ""
	}
	w := aWorld(t, aSandbox(promised), theTemplate(), aPolicy())
	w.Problems.Set(view.Key{Namespace: "a", Name: "t"}, memory.PolicyProblem{Reason: states.ReasonPolicyRefused, Message: "what is wrong"})
	w.g.Expect(says(w)).To(Equal("ReconcilerError: Error seen: what is wrong"), "it has other rules than it should have")

	w = aWorld(t, aSandbox(promised))
	w.g.Expect(says(w)).To(Equal(`ReconcilerError: Error seen: SandboxTemplate "t" is gone, and so is its NetworkPolicy "t-network-policy", ` +
		`without which no pod is made; create the template again, or delete the sandbox`))
}

// The watch of templates may be behind what was read of one.
func TestWhoWaitsForAPolicyHasItsTemplateLookAfterIt(t *testing.T) {
	w := aWorld(t, aSandbox(promised, young), theTemplate())
	w.Shelves = shelf.New(w.Stores, w.Retirements, func(view.Key) {}, func(view.Key) {})
	loop.Step(t.Context(), w.Sandboxes, key)
	w.g.Expect(w.woken).To(Equal([]string{"template a/t"}))
	w.woken = nil
	w.Problems.Set(view.Key{Namespace: "a", Name: "t"}, memory.PolicyProblem{Reason: states.ReasonPolicyRefused, Message: "no"})
	_, err := w.Do(t.Context(), w.Observe(key, learned{}), states.Decision{Act: states.Wait, Reason: states.ReasonUnprotected})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(w.woken).To(BeEmpty(), "what is refused is tried again at its own pace")
}
