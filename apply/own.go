package apply

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Refusal is why a claim cannot have what it asks for. Its message is for the
// claim's user.
type Refusal struct {
	Reason  states.Reason
	Message string
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(why states.Reason, format string, args ...any) error {
	return &Refusal{why, fmt.Sprintf(format, args...)}
}

// For is the blueprint of a claim's own sandbox: what the claim adds to its pod's
// metadata is in it, and the environment variables and the storage that it adds, as far
// as the template allows them. Domains are those whose labels claims may give. The
// error is a Refusal.
func (b Blueprint) For(claim *ext.SandboxClaim, domains []string) (Blueprint, error) {
	more, template := claim.Spec.AdditionalPodMetadata, b.podTemplate.ObjectMeta
	if err := CheckPodMetadata(more, template, domains); err != nil {
		return b, err
	}
	b.claimed = ClaimMetadata{beside(more.Labels, template.Labels), beside(more.Annotations, template.Annotations)}
	b.podTemplate.ObjectMeta = b.claimed.with(template)
	if len(claim.Spec.Env) == 0 && len(claim.Spec.VolumeClaimTemplates) == 0 {
		return b, nil
	}
	pod, err := tree(b.podTemplate.Spec.Raw)
	if err != nil {
		return b, refuse(states.ReasonTemplateInvalid, "template %q: spec.podTemplate.spec: %v", b.Template, err)
	}
	for _, v := range claim.Spec.Env {
		if err := b.inject(pod, v); err != nil {
			return b, err
		}
	}
	if b.volumes, err = b.merge(pod, claim.Spec.VolumeClaimTemplates); err != nil {
		return b, err
	}
	what, err := b.identity(pod)
	if err != nil {
		return b, refuse(states.ReasonVolumesRejected, invalidVolumes+": %v", err)
	}
	b.podTemplate = *b.podTemplate.DeepCopy()
	b.podTemplate.Spec = runtime.RawExtension{Raw: canonical(pod)}
	b.Revision = revision(canonical(what))
	return b, nil
}

// inject puts an environment variable into a container of a pod.
func (b Blueprint) inject(pod map[string]any, v ext.EnvVar) error {
	if b.envPolicy != ext.EnvVarsAllowed && b.envPolicy != ext.EnvVarsOverrides {
		return refuse(states.ReasonEnvRejected,
			"spec.env: template %q does not allow environment variables; set its envVarsInjectionPolicy to Allowed or Overrides, or remove spec.env", b.Template)
	}
	into := target(pod, v.ContainerName)
	if into == nil {
		return refuse(states.ReasonEnvInvalid, "target container %q not found in template for environment variable %q", v.ContainerName, v.Name)
	}
	env, _ := into["env"].([]any)
	at := slices.IndexFunc(env, func(one any) bool { return nameOf(one) == v.Name })
	from, _ := into["envFrom"].([]any)
	value := map[string]any{"name": v.Name, "value": v.Value}
	switch {
	case b.envPolicy == ext.EnvVarsAllowed && len(from) > 0:
		return refuse(states.ReasonEnvRejected,
			"spec.env: container %q of template %q has envFrom, so nobody can tell whether %q would override something; "+
				"set envVarsInjectionPolicy of the template to Overrides, or remove the variable", nameOf(into), b.Template, v.Name)
	case at >= 0 && b.envPolicy == ext.EnvVarsAllowed:
		return refuse(states.ReasonEnvInvalid, "environment variable override is not allowed by the template policy for variable %q", v.Name)
	case at >= 0:
		env[at] = value
	default:
		env = append(env, value)
	}
	into["env"] = env
	return nil
}

// target finds the container of a name, which may be an init container; without a
// name it is the first regular one.
func target(pod map[string]any, name string) map[string]any {
	regular, _ := pod["containers"].([]any)
	initial, _ := pod["initContainers"].([]any)
	for _, one := range slices.Concat(regular, initial) {
		if c, ok := one.(map[string]any); ok && name != "" && nameOf(c) == name {
			return c
		}
	}
	if name != "" || len(regular) == 0 {
		return nil
	}
	first, _ := regular[0].(map[string]any)
	return first
}

func nameOf(o any) string {
	m, _ := o.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// What a claim's storage is refused for, as the users of the API know it.
const (
	mergeFailed      = "failed to merge volume claim templates: "
	disallowed       = mergeFailed + "volume claim templates are disallowed by the template"
	overrideRefused  = mergeFailed + "overriding volume claim templates is forbidden by the template"
	invalidVolumes   = mergeFailed + "invalid volume claim templates"
	volumeNamesField = "spec.volumeClaimTemplates[%d].metadata.name"
)

// merge puts a claim's storage beside the template's, or in the place of what has
// its name there: other storage, or a volume of the pod.
func (b Blueprint) merge(pod map[string]any, more []agents.PersistentVolumeClaimTemplate) ([]agents.PersistentVolumeClaimTemplate, error) {
	switch {
	case len(more) == 0:
		return b.volumes, nil
	case b.volumesPolicy != ext.VolumeClaimTemplatesAllowed && b.volumesPolicy != ext.VolumeClaimTemplatesOverrides:
		return nil, refuse(states.ReasonVolumesRejected,
			disallowed+"; set volumeClaimTemplatesPolicy of template %q to Allowed or Overrides, or remove spec.volumeClaimTemplates", b.Template)
	}
	merged := slices.Clone(b.volumes)
	mounted, _ := pod["volumes"].([]any)
	seen := map[string]bool{}
	for i, v := range more {
		name := v.ObjectMeta.Name
		at := slices.IndexFunc(merged, func(had agents.PersistentVolumeClaimTemplate) bool { return had.ObjectMeta.Name == name })
		switch {
		case name == "":
			return nil, refuse(states.ReasonVolumesRejected, invalidVolumes+": "+volumeNamesField+" is empty; give it a name", i)
		case seen[name]:
			return nil, refuse(states.ReasonVolumesRejected, invalidVolumes+": "+volumeNamesField+" is %q, as that of another; give each its own name", i, name)
		case at >= 0 && b.volumesPolicy == ext.VolumeClaimTemplatesAllowed:
			return nil, refuse(states.ReasonVolumesRejected, overrideRefused+": "+volumeNamesField+
				" is %q, which template %q has too; give it another name, or set volumeClaimTemplatesPolicy to Overrides", i, name, b.Template)
		case at >= 0:
			merged[at] = v
		case b.volumesPolicy == ext.VolumeClaimTemplatesAllowed && slices.ContainsFunc(mounted, func(one any) bool { return nameOf(one) == name }):
			return nil, refuse(states.ReasonVolumesRejected, overrideRefused+": "+volumeNamesField+
				" is %q, and the pod of template %q has a volume of that name; give it another name, or set volumeClaimTemplatesPolicy to Overrides", i, name, b.Template)
		default:
			merged = append(merged, v)
		}
		seen[name] = true
	}
	return merged, nil
}
