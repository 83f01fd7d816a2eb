package claim

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func label(k, v string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) { c.Spec.AdditionalPodMetadata.Labels = map[string]string{k: v} }
}

func env(c *ext.SandboxClaim) { c.Spec.Env = []ext.EnvVar{{Name: "A", Value: "b"}} }

func volume(c *ext.SandboxClaim) {
	c.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{}}
}

// What a claim asks for is judged against what it would get it from: the template,
// or the sandbox that it has.
func TestAClaimsProblemIsFoundBeforeItGetsASandboxAndAfterwardsOfItsPodAlone(t *testing.T) {
	const k = "sandbox.users.io/tier"
	gold := func(t *ext.SandboxTemplate) { t.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{k: "gold"} }
	lenient := func(t *ext.SandboxTemplate) {
		t.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main"}]}`)
		t.Spec.EnvVarsInjectionPolicy = ext.EnvVarsAllowed
	}
	golden := func(b *agents.Sandbox) { b.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{k: "gold"} }
	for _, row := range []struct {
		name string
		has  []metav1.Object
		want states.Reason
	}{
		{"nothing asked for", []metav1.Object{aClaim(), aPool(), aTemplate(gold)}, ""},
		{"a label that is wrong, of a template that is not known", []metav1.Object{aClaim(label("who", "me")), aPool()}, states.ReasonInvalidMetadata},
		{"environment variables, of a template that is not known", []metav1.Object{aClaim(env), aPool()}, ""},
		{"another value than the template's", []metav1.Object{aClaim(label(k, "lead")), aPool(), aTemplate(gold)}, states.ReasonInvalidMetadata},
		{"environment variables that the template does not allow", []metav1.Object{aClaim(env), aPool(), aTemplate()}, states.ReasonEnvRejected},
		{"environment variables that the template allows", []metav1.Object{aClaim(env), aPool(), aTemplate(lenient)}, ""},
		{"storage that the template does not allow", []metav1.Object{aClaim(volume), aPool(), aTemplate(lenient)}, states.ReasonVolumesRejected},
		{"another value than the template's, of a claim whose sandbox has none", []metav1.Object{aClaim(label(k, "lead")), aPool(), aTemplate(gold), aSandbox(owned)}, ""},
		{"another value than its own pod's", []metav1.Object{aClaim(label(k, "lead")), aPool(), aTemplate(), aSandbox(owned, golden)}, states.ReasonInvalidMetadata},
		{"environment variables that come too late", []metav1.Object{aClaim(env), aPool(), aTemplate(), aSandbox(owned)}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			w.g.Expect(w.Observe(key, learned{}).Facts.Problem).To(Equal(row.want))
		})
	}
}
