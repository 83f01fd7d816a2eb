package apply

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A ClaimMetadata is what a claim adds to the labels and annotations of its pod. It
// stands in the pod template of the claim's sandbox, which the pod follows. An
// annotation on the sandbox lists the keys: what else is there is the template's, or
// the sandbox's own.
//
// Nothing but ClaimMetadataOf and Blueprint.For makes one, so nothing is written that
// was not judged.
type ClaimMetadata struct{ labels, annotations map[string]string }

// ClaimMetadataOf judges what a claim adds to the pod of its sandbox, or of the pool
// member that it is about to adopt, and returns what may be written: all of it, or,
// when it breaks a rule, what the sandbox has of the claim's already. The error is a
// Refusal.
func ClaimMetadataOf(of Claimed, domains []string) (ClaimMetadata, error) {
	template, had := of.divide()
	more := of.Claim.Spec.AdditionalPodMetadata
	err := CheckPodMetadata(more, template, domains)
	if err != nil {
		more = had
		maps.DeleteFunc(more.Labels, func(k, v string) bool { return checkLabel(k, v, domains) != nil })
		maps.DeleteFunc(more.Annotations, func(k, _ string) bool { return checkAnnotation(k) != nil })
	}
	return ClaimMetadata{beside(more.Labels, template.Labels), beside(more.Annotations, template.Annotations)}, err
}

// divide divides the metadata of a sandbox's pod template into what the sandbox was
// made with and what its claim has added. The list of the latter may be missing: the
// agent-sandbox controller writes none, and a hand may have taken it away. Then what
// the claim says, and its pool's template does not, is the claim's.
func (of Claimed) divide() (template, claims agents.PodMetadata) {
	template = of.Sandbox.Spec.PodTemplate.ObjectMeta
	listed, more, now := split(of.Sandbox.Annotations[AnnotationClaimKeys]), of.Claim.Spec.AdditionalPodMetadata, agents.PodMetadata{}
	adds := len(listed) > 0 || len(more.Labels) > 0 || len(more.Annotations) > 0
	if !adds || OwnerOf(of.Sandbox).Kind != states.OwnerClaim { // a member has nothing of any claim yet
		return template, agents.PodMetadata{}
	}
	if of.Now != nil {
		now = of.Now.Spec.PodTemplate.ObjectMeta
	}
	part := func(all, more, now map[string]string, listed []string) (rest, added map[string]string) {
		rest, added = map[string]string{}, map[string]string{}
		for k, v := range all {
			said, says := more[k]
			_, given := now[k]
			is := slices.Contains(listed, k) || says && said == v && of.Now != nil && !given
			if is && !reserved(k) {
				added[k] = v
			} else {
				rest[k] = v
			}
		}
		return rest, added
	}
	template.Labels, claims.Labels = part(template.Labels, more.Labels, now.Labels, prefixed(listed, "label:"))
	template.Annotations, claims.Annotations = part(template.Annotations, more.Annotations, now.Annotations, prefixed(listed, "annotation:"))
	return template, claims
}

// with is a pod template's metadata with what a claim adds.
func (m ClaimMetadata) with(template agents.PodMetadata) agents.PodMetadata {
	if len(m.labels) == 0 && len(m.annotations) == 0 {
		return template
	}
	return agents.PodMetadata{Labels: joined(template.Labels, m.labels), Annotations: joined(template.Annotations, m.annotations)}
}

// keys lists the keys as the annotation on a sandbox does.
func (m ClaimMetadata) keys(annotations map[string]string) {
	list(annotations, AnnotationClaimKeys, append(
		prefix(slices.Sorted(maps.Keys(m.annotations)), "annotation:"), prefix(slices.Sorted(maps.Keys(m.labels)), "label:")...))
}

func joined(all, more map[string]string) map[string]string {
	both := maps.Clone(all)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, more)
	return both
}

// beside is what a claim adds to a template's metadata. What the template says
// already is not the claim's, and stays when the claim does not say it any more.
func beside(more, template map[string]string) map[string]string {
	added := maps.Clone(more)
	maps.DeleteFunc(added, func(k, _ string) bool { _, has := template[k]; return has })
	return added
}

// CheckPodMetadata judges what a claim wants to add to a pod against the rules of
// the API and against what the pod has from its template. The error is a Refusal.
func CheckPodMetadata(more, template agents.PodMetadata, domains []string) error {
	for _, k := range slices.Sorted(maps.Keys(more.Labels)) {
		if err := checkLabel(k, more.Labels[k], domains); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(more.Annotations)) {
		if err := checkAnnotation(k); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		field          string
		more, template map[string]string
	}{{"labels", more.Labels, template.Labels}, {"annotations", more.Annotations, template.Annotations}} {
		for _, k := range slices.Sorted(maps.Keys(of.more)) {
			if was, has := of.template[k]; has && was != of.more[k] {
				return invalid("metadata override conflict: spec.additionalPodMetadata.%s[%s] is %q and the template says %q; "+
					"remove it, or give the same value", of.field, k, of.more[k], was)
			}
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return refuse(states.ReasonInvalidMetadata, format, args...)
}

// checkLabel lets a claim add labels of allowed domains only: labels decide what
// network policies and services see. No domain allows the API's own keys.
func checkLabel(k, v string, domains []string) error {
	field := "spec.additionalPodMetadata.labels[" + k + "]"
	domain, _, prefixed := strings.Cut(k, "/")
	switch {
	case len(validation.IsQualifiedName(k)) > 0:
		return invalid("%s: %s", field, strings.Join(validation.IsQualifiedName(k), "; "))
	case k == "app" && strings.EqualFold(v, "sandbox-router"):
		return invalid("%s: the router's label is not a claim's to give; remove it", field)
	case !prefixed:
		return invalid("%s: a label needs a domain, one of: %s", field, strings.Join(domains, ", "))
	case reserved(k), !slices.ContainsFunc(domains, func(d string) bool { return within(domain, d) }):
		return invalid("%s: the domain is not one of the allowed ones: %s", field, strings.Join(domains, ", "))
	case len(validation.IsValidLabelValue(v)) > 0:
		return invalid("%s: %s", field, strings.Join(validation.IsValidLabelValue(v), "; "))
	}
	return nil
}

// checkAnnotation keeps a claim out of the domains that clusters act on.
func checkAnnotation(k string) error {
	field := "spec.additionalPodMetadata.annotations[" + k + "]"
	if bad := validation.IsQualifiedName(k); len(bad) > 0 {
		return invalid("%s: %s", field, strings.Join(bad, "; "))
	}
	domain, _, _ := strings.Cut(k, "/")
	for _, of := range []string{"kubernetes.io", "k8s.io", "agents.x-k8s.io"} {
		if within(domain, of) && k != AnnotationSafeToEvict {
			return invalid("%s: the domain %s is reserved; use one of your own", field, of)
		}
	}
	if reserved(k) {
		return invalid("%s: the key is reserved; use one of your own", field)
	}
	return nil
}

// within reports whether a domain is another, or below it.
func within(domain, of string) bool {
	return domain == of || strings.HasSuffix(domain, "."+of)
}
