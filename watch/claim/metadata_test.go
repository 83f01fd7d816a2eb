package claim

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func label(k, v string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) { c.Spec.AdditionalPodMetadata.Labels = map[string]string{k: v} }
}

func note(k, v string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) { c.Spec.AdditionalPodMetadata.Annotations = map[string]string{k: v} }
}

func env(c *ext.SandboxClaim) { c.Spec.Env = []ext.EnvVar{{Name: "A", Value: "b"}} }

func volume(c *ext.SandboxClaim) {
	c.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{}}
}

func TestAClaimsSpecIsRefusedWithTheFieldAndTheFix(t *testing.T) {
	l := &Claims{LabelDomains: []string{"sandbox.users.io"}}
	template := &ext.SandboxTemplate{}
	template.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"sandbox.users.io/tier": "gold"}
	lenient := template.DeepCopy()
	lenient.Spec.EnvVarsInjectionPolicy, lenient.Spec.VolumeClaimTemplatesPolicy = ext.EnvVarsAllowed, ext.VolumeClaimTemplatesOverrides
	for _, row := range []struct {
		name     string
		change   func(*ext.SandboxClaim)
		template *ext.SandboxTemplate
		reason   states.Reason
		says     string
	}{
		{"nothing asked for", func(*ext.SandboxClaim) {}, template, "", ""},
		{"a label of an allowed domain", label("sandbox.users.io/who", "me"), template, "", ""},
		{"a label of a domain below it", label("team.sandbox.users.io/who", "me"), template, "", ""},
		{"the label the template gives, with the same value", label("sandbox.users.io/tier", "gold"), template, "", ""},
		{"an annotation", note("example.com/why", "because"), template, "", ""},
		{"the autoscaler's annotation", note("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), template, "", ""},
		{"a label without a domain", label("who", "me"), template, states.ReasonInvalidMetadata, "such as sandbox.users.io/who"},
		{"a label of another domain", label("example.com/who", "me"), template, states.ReasonInvalidMetadata, "sandbox.users.io"},
		{"a domain that only ends alike", label("notsandbox.users.io/who", "me"), template, states.ReasonInvalidMetadata, "allowed"},
		{"a key that is none", label("sandbox.users.io/wh o", "me"), template, states.ReasonInvalidMetadata, "labels[sandbox.users.io/wh o]"},
		{"a value that is too long", label("sandbox.users.io/who", strings.Repeat("x", 64)), template, states.ReasonInvalidMetadata, "63"},
		{"the router's label", label("app", "Sandbox-Router"), template, states.ReasonInvalidMetadata, "router"},
		{"another value than the template's", label("sandbox.users.io/tier", "lead"), template, states.ReasonInvalidMetadata,
			`metadata override conflict: spec.additionalPodMetadata.labels[sandbox.users.io/tier] is "lead" and the template says "gold"`},
		{"an annotation of Kubernetes'", note("kubernetes.io/x", "y"), template, states.ReasonInvalidMetadata, "reserved"},
		{"an annotation below Kubernetes'", note("a.k8s.io/x", "y"), template, states.ReasonInvalidMetadata, "reserved"},
		{"an annotation that is none", note("wh y", "y"), template, states.ReasonInvalidMetadata, "annotations[wh y]"},
		{"a label that is wrong, of a template that is not known", label("who", "me"), nil, states.ReasonInvalidMetadata, "a label needs a domain"},
		{"environment variables, of a template that is not known", env, nil, "", ""},
		{"environment variables the template does not allow", env, template, states.ReasonEnvRejected, "envVarsInjectionPolicy"},
		{"environment variables the template allows", env, lenient, states.ReasonEnvRejected, "this version does not inject"},
		{"storage the template does not allow", volume, template, states.ReasonVolumesRejected,
			"failed to merge volume claim templates: volume claim templates are disallowed by the template"},
		{"storage the template allows", volume, lenient, states.ReasonVolumesRejected, "failed to merge volume claim templates: this version does not add volumes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			claim := &ext.SandboxClaim{}
			row.change(claim)
			got := l.check(claim, row.template)
			g.Expect(got.Reason).To(Equal(row.reason))
			g.Expect(got.Message).To(ContainSubstring(row.says))
		})
	}
}

// A status that says now one thing and now the other would be written without end.
func TestAClaimWithTwoConflictsIsAlwaysToldOfTheSame(t *testing.T) {
	const k = "sandbox.users.io/tier"
	l := &Claims{LabelDomains: []string{"sandbox.users.io"}}
	template, claim := &ext.SandboxTemplate{}, aClaim(label(k, "lead"), note(k, "lead"))
	template.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{k: "gold"}
	template.Spec.PodTemplate.ObjectMeta.Annotations = map[string]string{k: "gold"}
	for range 100 {
		NewWithT(t).Expect(l.check(claim, template).Message).To(ContainSubstring("labels"))
	}
}
