package watch

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

func TestAClaimsSpecIsRefusedWithTheFieldAndTheFix(t *testing.T) {
	label := func(k, v string) func(*ext.SandboxClaim) {
		return func(c *ext.SandboxClaim) { c.Spec.AdditionalPodMetadata.Labels = map[string]string{k: v} }
	}
	note := func(k, v string) func(*ext.SandboxClaim) {
		return func(c *ext.SandboxClaim) { c.Spec.AdditionalPodMetadata.Annotations = map[string]string{k: v} }
	}
	for _, row := range []struct {
		name         string
		change       func(*ext.SandboxClaim)
		reason, says string
	}{
		{"nothing asked for", func(*ext.SandboxClaim) {}, "", ""},
		{"a label of an allowed domain", label("sandbox.users.io/who", "me"), "", ""},
		{"a label of a domain below it", label("team.sandbox.users.io/who", "me"), "", ""},
		{"the label the template gives, with the same value", label("sandbox.users.io/tier", "gold"), "", ""},
		{"an annotation", note("example.com/why", "because"), "", ""},
		{"the autoscaler's annotation", note("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), "", ""},
		{"a label without a domain", label("who", "me"), "InvalidMetadata", "such as sandbox.users.io/who"},
		{"a label of another domain", label("example.com/who", "me"), "InvalidMetadata", "sandbox.users.io"},
		{"a domain that only ends alike", label("notsandbox.users.io/who", "me"), "InvalidMetadata", "allowed"},
		{"a key that is none", label("sandbox.users.io/wh o", "me"), "InvalidMetadata", "labels[sandbox.users.io/wh o]"},
		{"a value that is too long", label("sandbox.users.io/who", strings.Repeat("x", 64)), "InvalidMetadata", "63"},
		{"the router's label", label("app", "Sandbox-Router"), "InvalidMetadata", "router"},
		{"another value than the template's", label("sandbox.users.io/tier", "lead"), "InvalidMetadata", `metadata override conflict: spec.additionalPodMetadata.labels[sandbox.users.io/tier] is "lead" and the template says "gold"`},
		{"an annotation of Kubernetes'", note("kubernetes.io/x", "y"), "InvalidMetadata", "reserved"},
		{"an annotation below Kubernetes'", note("a.k8s.io/x", "y"), "InvalidMetadata", "reserved"},
		{"environment variables the template does not allow", func(c *ext.SandboxClaim) {
			c.Spec.Env = []ext.EnvVar{{Name: "A", Value: "b"}}
		}, "EnvVarsInjectionRejected", "envVarsInjectionPolicy"},
		{"storage the template does not allow", func(c *ext.SandboxClaim) {
			c.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{}}
		}, "VolumeClaimTemplatesError", "failed to merge volume claim templates: volume claim templates are disallowed by the template"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			template := &ext.SandboxTemplate{}
			template.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{"sandbox.users.io/tier": "gold"}
			claim := &ext.SandboxClaim{}
			row.change(claim)
			got := claims{&world{opts: Options{}.filled()}}.check(claim, template)
			g.Expect(got.reason).To(Equal(row.reason))
			g.Expect(got.message).To(ContainSubstring(row.says))
		})
	}
}

func TestAMembersNameAlwaysFits(t *testing.T) {
	g := NewWithT(t)
	g.Expect(len(memberName(strings.Repeat("p", 253)))).To(Equal(253))
	g.Expect(memberName("python")).To(MatchRegexp("^python-[a-z0-9]{5}$"))
}
