package apply

import (
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// lenient is a template with two containers, an init container and storage, and
// with policies.
func lenient(env ext.EnvVarsInjectionPolicy, volumes ext.VolumeClaimTemplatesPolicy) *ext.SandboxTemplate {
	t := aTemplate()
	t.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","env":[{"name":"A","value":"a"},{"name":"S","valueFrom":{}}]},{"name":"side","envFrom":[{}]}],"initContainers":[{"name":"init"}]}`)}
	t.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{storage("data", "1Gi")}
	t.Spec.EnvVarsInjectionPolicy, t.Spec.VolumeClaimTemplatesPolicy = env, volumes
	return t
}

func storage(name, size string) agents.PersistentVolumeClaimTemplate {
	return agents.PersistentVolumeClaimTemplate{
		ObjectMeta: agents.VolumeMetadata{Name: name}, Spec: runtime.RawExtension{Raw: []byte(`{"size":"` + size + `"}`)},
	}
}

func TestEnvironmentVariablesAreInjectedAsFarAsTheTemplateAllows(t *testing.T) {
	one := func(name, value, container string) []ext.EnvVar {
		return []ext.EnvVar{{Name: name, Value: value, ContainerName: container}}
	}
	const main = `{"name":"A","value":"a"},{"name":"S","valueFrom":{}}`
	for _, row := range []struct {
		name   string
		policy ext.EnvVarsInjectionPolicy
		env    []ext.EnvVar
		pod    string
		reason states.Reason
		says   string
	}{
		{"one that is new goes into the first container", ext.EnvVarsAllowed, one("B", "b", ""),
			`{"containers":[{"env":[` + main + `,{"name":"B","value":"b"}],"name":"main"},{"envFrom":[{}],"name":"side"}],"initContainers":[{"name":"init"}]}`, "", ""},
		{"one goes into the init container that it names", ext.EnvVarsAllowed, one("B", "", "init"),
			`{"containers":[{"env":[` + main + `],"name":"main"},{"envFrom":[{}],"name":"side"}],"initContainers":[{"env":[{"name":"B","value":""}],"name":"init"}]}`, "", ""},
		{"one that is there is replaced, where it stands", ext.EnvVarsOverrides, one("A", "z", "main"),
			`{"containers":[{"env":[{"name":"A","value":"z"},{"name":"S","valueFrom":{}}],"name":"main"},{"envFrom":[{}],"name":"side"}],"initContainers":[{"name":"init"}]}`, "", ""},
		{"one whose value came from elsewhere has a plain one then", ext.EnvVarsOverrides, one("S", "z", ""),
			`{"containers":[{"env":[{"name":"A","value":"a"},{"name":"S","value":"z"}],"name":"main"},{"envFrom":[{}],"name":"side"}],"initContainers":[{"name":"init"}]}`, "", ""},
		{"one beside envFrom, where it may override", ext.EnvVarsOverrides, one("B", "b", "side"),
			`{"containers":[{"env":[` + main + `],"name":"main"},{"env":[{"name":"B","value":"b"}],"envFrom":[{}],"name":"side"}],"initContainers":[{"name":"init"}]}`, "", ""},
		{"none is allowed", ext.EnvVarsDisallowed, one("B", "b", ""), "", states.ReasonEnvRejected,
			`spec.env: template "python" does not allow environment variables; set its envVarsInjectionPolicy to Allowed or Overrides, or remove spec.env`},
		{"none is allowed where nothing is said", "", one("B", "b", ""), "", states.ReasonEnvRejected, `spec.env: template "python" does not allow environment variables; ` +
			`set its envVarsInjectionPolicy to Allowed or Overrides, or remove spec.env`},
		{"one that is there may not be replaced", ext.EnvVarsAllowed, one("A", "z", ""), "", states.ReasonEnvInvalid,
			`environment variable override is not allowed by the template policy for variable "A"`},
		{"two of one name are one too many", ext.EnvVarsAllowed, append(one("B", "b", ""), one("B", "c", "")...), "", states.ReasonEnvInvalid,
			`environment variable override is not allowed by the template policy for variable "B"`},
		{"nobody knows what envFrom brings", ext.EnvVarsAllowed, one("B", "b", "side"), "", states.ReasonEnvRejected,
			`spec.env: container "side" of template "python" has envFrom, so nobody can tell whether "B" would override something; ` +
				`set envVarsInjectionPolicy of the template to Overrides, or remove the variable`},
		{"no such container", ext.EnvVarsOverrides, one("B", "b", "no"), "", states.ReasonEnvInvalid,
			`target container "no" not found in template for environment variable "B"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			template, claim := lenient(row.policy, ""), aClaim()
			template.Spec.NetworkPolicyManagement = ext.NetworkPolicyUnmanaged
			b, err := BlueprintOf(template)
			g.Expect(err).NotTo(HaveOccurred())
			claim.Spec.Env = row.env
			own, err := b.For(claim, domains)
			if row.reason != "" {
				var refusal *Refusal
				g.Expect(errors.As(err, &refusal)).To(BeTrue())
				g.Expect(*refusal).To(Equal(Refusal{row.reason, row.says}))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var pod map[string]any
			g.Expect(json.Unmarshal(own.podTemplate.Spec.Raw, &pod)).To(Succeed())
			delete(pod, "automountServiceAccountToken")
			g.Expect(json.Marshal(pod)).To(MatchJSON(row.pod))
			g.Expect(own.Revision).NotTo(Equal(b.Revision), "it is another blueprint")
			again, err := BlueprintOf(template)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b).To(Equal(again), "the template's own is as it was")
		})
	}
}

func TestStorageIsMergedAsFarAsTheTemplateAllows(t *testing.T) {
	const failed = "failed to merge volume claim templates: "
	for _, row := range []struct {
		name   string
		policy ext.VolumeClaimTemplatesPolicy
		more   []agents.PersistentVolumeClaimTemplate
		want   []agents.PersistentVolumeClaimTemplate
		says   string
	}{
		{"what is new comes behind", ext.VolumeClaimTemplatesAllowed, []agents.PersistentVolumeClaimTemplate{storage("more", "2Gi")},
			[]agents.PersistentVolumeClaimTemplate{storage("data", "1Gi"), storage("more", "2Gi")}, ""},
		{"what is there is replaced, and what is new comes behind", ext.VolumeClaimTemplatesOverrides, []agents.PersistentVolumeClaimTemplate{storage("more", "2Gi"), storage("data", "3Gi")},
			[]agents.PersistentVolumeClaimTemplate{storage("data", "3Gi"), storage("more", "2Gi")}, ""},
		{"none is allowed", ext.VolumeClaimTemplatesDisallowed, []agents.PersistentVolumeClaimTemplate{storage("more", "2Gi")}, nil,
			failed + `volume claim templates are disallowed by the template; set volumeClaimTemplatesPolicy of template "python" to Allowed or Overrides, or remove spec.volumeClaimTemplates`},
		{"what is there may not be replaced", ext.VolumeClaimTemplatesAllowed, []agents.PersistentVolumeClaimTemplate{storage("data", "2Gi")}, nil,
			failed + `overriding volume claim templates is forbidden by the template: spec.volumeClaimTemplates[0].metadata.name is "data", which template "python" has too; ` +
				`give it another name, or set volumeClaimTemplatesPolicy to Overrides`},
		{"a volume of the pod may not be replaced", ext.VolumeClaimTemplatesAllowed, []agents.PersistentVolumeClaimTemplate{storage("config", "2Gi")}, nil,
			failed + `overriding volume claim templates is forbidden by the template: spec.volumeClaimTemplates[0].metadata.name is "config", and the pod of template "python" has a volume of that name; ` +
				`give it another name, or set volumeClaimTemplatesPolicy to Overrides`},
		{"a volume of the pod is replaced", ext.VolumeClaimTemplatesOverrides, []agents.PersistentVolumeClaimTemplate{storage("config", "2Gi")},
			[]agents.PersistentVolumeClaimTemplate{storage("data", "1Gi"), storage("config", "2Gi")}, ""},
		{"one has no name", ext.VolumeClaimTemplatesAllowed, []agents.PersistentVolumeClaimTemplate{storage("", "2Gi")}, nil,
			failed + `invalid volume claim templates: spec.volumeClaimTemplates[0].metadata.name is empty; give it a name`},
		{"two have one name", ext.VolumeClaimTemplatesOverrides, []agents.PersistentVolumeClaimTemplate{storage("x", "2Gi"), storage("x", "2Gi")}, nil,
			failed + `invalid volume claim templates: spec.volumeClaimTemplates[1].metadata.name is "x", as that of another; give each its own name`},
		{"one has no spec", ext.VolumeClaimTemplatesAllowed, []agents.PersistentVolumeClaimTemplate{{ObjectMeta: agents.VolumeMetadata{Name: "x"}}}, nil,
			failed + `invalid volume claim templates: spec.volumeClaimTemplates[1].spec: EOF`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			template := lenient("", row.policy)
			template.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main"}],"volumes":[{"name":"config","configMap":{"name":"c"}}]}`)
			b, err := BlueprintOf(template)
			g.Expect(err).NotTo(HaveOccurred())
			claim := aClaim()
			claim.Spec.VolumeClaimTemplates = row.more
			own, err := b.For(claim, domains)
			if row.says != "" {
				var refusal *Refusal
				g.Expect(errors.As(err, &refusal)).To(BeTrue())
				g.Expect(*refusal).To(Equal(Refusal{states.ReasonVolumesRejected, row.says}))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(own.volumes).To(Equal(row.want))
			g.Expect(b.volumes).To(HaveLen(1), "the template's own are as they were")
		})
	}
}

func TestAClaimThatAddsNothingGetsTheTemplatesBlueprint(t *testing.T) {
	g := NewWithT(t)
	b := aBlueprint(t)
	claim := aClaim()
	claim.Spec.AdditionalPodMetadata = agents.PodMetadata{}
	g.Expect(b.For(claim, domains)).To(Equal(b))
}

// The label says it until a hand changes it; then what the sandbox runs tells.
func TestTheRevisionOfAClaimsSandboxIsKnownWithoutTheLabel(t *testing.T) {
	own, manages := aTemplate(), aTemplate()
	own.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"main","image":"i"}],"dnsPolicy":"None","dnsConfig":{"nameservers":["8.8.8.8","1.1.1.1"]}}`)
	manages.Spec.NetworkPolicyManagement = ext.NetworkPolicyUnmanaged
	rolls := aPool()
	rolls.Annotations = map[string]string{AnnotationRollOnMetadata: "true"}
	for name, row := range map[string]struct {
		template *ext.SandboxTemplate
		pool     *ext.SandboxWarmPool
		known    bool // the template says the same now
		exact    bool
	}{
		"as it was made":                       {aTemplate(), aPool(), true, true},
		"without a policy":                     {manages, aPool(), true, true},
		"whose template asks for public DNS":   {own, aPool(), false, false},
		"where labels and annotations count":   {aTemplate(), rolls, false, false},
		"whose template says something by now": {aTemplate(), aPool(), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b, err := BlueprintOf(row.template)
			g.Expect(err).NotTo(HaveOccurred())
			member := made[agents.Sandbox](t, memberConfig(row.pool, "warm-x", b), "sandbox")
			s := made[agents.Sandbox](t, adoptConfig(adopting(t, member, aClaim())), "sandbox")
			of := adopting(t, s, aClaim())
			if row.known {
				of.Says = b
			}
			was := s.Labels[LabelRevision]
			g.Expect(ClaimedDiffers(of)).To(BeFalse(), "nothing is to be healed")
			for _, forged := range []string{"x", "", "stale"} {
				s.Labels[LabelRevision] = forged
				g.Expect(ClaimedDiffers(of)).To(BeTrue())
				healed := made[agents.Sandbox](t, claimedConfig(of), "sandbox")
				if row.exact {
					g.Expect(healed.Labels).To(HaveKeyWithValue(LabelRevision, was))
				}
				of.Sandbox = healed
				g.Expect(ClaimedDiffers(of)).To(BeFalse(), "it comes to rest")
				of.Sandbox = s
			}
		})
	}
}
