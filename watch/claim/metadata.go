package claim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// check judges a claim's spec against the rules of the API and the template, if
// that is known.
func (l *Claims) check(c *ext.SandboxClaim, template *ext.SandboxTemplate) view.Problem {
	if f := l.checkLabels(c); f.Reason != "" {
		return f
	}
	if f := checkAnnotations(c); f.Reason != "" {
		return f
	}
	if template == nil {
		return view.Problem{}
	}
	more, meta := c.Spec.AdditionalPodMetadata, template.Spec.PodTemplate.ObjectMeta
	for _, of := range []struct {
		field          string
		more, template map[string]string
	}{{"labels", more.Labels, meta.Labels}, {"annotations", more.Annotations, meta.Annotations}} {
		for _, k := range slices.Sorted(maps.Keys(of.more)) {
			if was, has := of.template[k]; has && was != of.more[k] {
				return invalid("metadata override conflict: spec.additionalPodMetadata.%s[%s] is %q and the template says %q", of.field, k, of.more[k], was)
			}
		}
	}
	return checkOwn(c, template)
}

// checkOwn judges what would make the claim's sandbox differ from the template.
func checkOwn(c *ext.SandboxClaim, template *ext.SandboxTemplate) view.Problem {
	switch {
	case len(c.Spec.Env) > 0 && !allows(string(template.Spec.EnvVarsInjectionPolicy)):
		return view.Problem{Reason: states.ReasonEnvRejected, Message: fmt.Sprintf("spec.env: template %q does not allow environment variables; set its envVarsInjectionPolicy, or remove spec.env", template.Name)}
	case len(c.Spec.Env) > 0:
		return view.Problem{Reason: states.ReasonEnvRejected, Message: "spec.env: this version does not inject environment variables; remove spec.env"}
	case len(c.Spec.VolumeClaimTemplates) > 0 && !allows(string(template.Spec.VolumeClaimTemplatesPolicy)):
		return view.Problem{Reason: states.ReasonVolumesRejected, Message: "failed to merge volume claim templates: volume claim templates are disallowed by the template"}
	case len(c.Spec.VolumeClaimTemplates) > 0:
		return view.Problem{Reason: states.ReasonVolumesRejected, Message: "failed to merge volume claim templates: this version does not add volumes; remove spec.volumeClaimTemplates"}
	}
	return view.Problem{}
}

// allows reports whether a policy of a template lets a claim add something.
func allows(policy string) bool { return policy == "Allowed" || policy == "Overrides" }

func invalid(format string, args ...any) view.Problem {
	return view.Problem{Reason: states.ReasonInvalidMetadata, Message: fmt.Sprintf(format, args...)}
}

// checkLabels lets a claim add labels of allowed domains only: labels decide
// what network policies and services see.
func (l *Claims) checkLabels(c *ext.SandboxClaim) view.Problem {
	labels := c.Spec.AdditionalPodMetadata.Labels
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := labels[k]
		field := "spec.additionalPodMetadata.labels[" + k + "]"
		domain, _, prefixed := strings.Cut(k, "/")
		switch {
		case len(validation.IsQualifiedName(k)) > 0:
			return invalid("%s: %s", field, strings.Join(validation.IsQualifiedName(k), "; "))
		case k == "app" && strings.EqualFold(v, "sandbox-router"):
			return invalid("%s: the router's label is not a claim's to give", field)
		case !prefixed:
			return invalid("%s: a label needs a domain, such as %s/%s", field, l.LabelDomains[0], k)
		case !slices.ContainsFunc(l.LabelDomains, func(d string) bool { return within(domain, d) }):
			return invalid("%s: the domain is not one of the allowed ones: %s", field, strings.Join(l.LabelDomains, ", "))
		case len(validation.IsValidLabelValue(v)) > 0:
			return invalid("%s: %s", field, strings.Join(validation.IsValidLabelValue(v), "; "))
		}
	}
	return view.Problem{}
}

// checkAnnotations keeps a claim out of the domains that clusters act on.
func checkAnnotations(c *ext.SandboxClaim) view.Problem {
	for _, k := range slices.Sorted(maps.Keys(c.Spec.AdditionalPodMetadata.Annotations)) {
		field := "spec.additionalPodMetadata.annotations[" + k + "]"
		if bad := validation.IsQualifiedName(k); len(bad) > 0 {
			return invalid("%s: %s", field, strings.Join(bad, "; "))
		}
		domain, _, _ := strings.Cut(k, "/")
		for _, reserved := range []string{"kubernetes.io", "k8s.io", "agents.x-k8s.io"} {
			if within(domain, reserved) && k != apply.AnnotationSafeToEvict {
				return invalid("%s: the domain %s is reserved", field, reserved)
			}
		}
	}
	return view.Problem{}
}

// within reports whether a domain is another, or below it.
func within(domain, of string) bool {
	return domain == of || strings.HasSuffix(domain, "."+of)
}
