package apply

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// Inherited reports whether fields that are Kiln's to write still belong to somebody who
// wrote them by Update: the agent-sandbox controller, a fork of it, or a hand. The name of
// the manager says nothing, for it is the name of a program. What Kiln leaves out of an
// apply stays then, for that is theirs too.
func Inherited(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return inheritedEntry(o, e) })
}

// inheritedStatus reports whether any of that is in the status.
func inheritedStatus(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" && inheritedEntry(o, e)
	})
}

// inheritedEntry reports whether an entry owns such a field.
func inheritedEntry(o metav1.Object, e metav1.ManagedFieldsEntry) bool {
	parts, _ := divide(o, e, false)
	return len(parts) > 0
}

// ClaimState is the state of a claim. The agent-sandbox controller writes none: a
// claim that it told of a sandbox that was Ready is bound.
func ClaimState(c *ext.SandboxClaim) states.State {
	is := states.Claim.Parse(string(c.Status.State))
	if c.Status.State != "" {
		return is
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, ConditionReady)
	told := c.Status.SandboxStatus.Name != "" && c.Status.SandboxStatus.UID == "" // Kiln writes both
	served := ready != nil && ready.Status == metav1.ConditionTrue || c.Annotations[AnnotationFirstReady] != ""
	if served && told {
		return states.Bound
	}
	return is
}

// LaunchOf says whether a sandbox was made for a pool or for one claim; empty if a
// user made it. Older ones carry no label, and their names tell: the own sandbox of a
// claim has the claim's.
func LaunchOf(s *agents.Sandbox) string {
	if label := s.Labels[LabelLaunch]; label != "" {
		return label
	}
	switch owner := OwnerOf(s); {
	case owner.Kind == states.OwnerPool, owner.Kind == states.OwnerClaim && owner.Name != s.Name:
		return LaunchWarm
	case owner.Kind == states.OwnerClaim:
		return LaunchCold
	}
	return ""
}

// comparisons remember which sandboxes without a revision say the same as a
// blueprint. They end with the blueprint, and sandboxes of that kind are not made
// any more.
type comparisons struct {
	mu   sync.Mutex
	made map[comparison]bool
}

// A comparison is what was compared: a sandbox as its spec was, with or without the
// labels and annotations of its pod.
type comparison struct {
	uid        types.UID
	generation int64
	metadata   bool
}

// likeness reports whether a sandbox that carries no revision was made from what the
// blueprint says. It is worked out once for each sandbox.
func (b Blueprint) likeness(s *agents.Sandbox, metadata bool) bool {
	c, key := b.compared, comparison{s.UID, s.Generation, metadata}
	c.mu.Lock()
	defer c.mu.Unlock()
	is, known := c.made[key]
	if !known {
		is = b.says(s, metadata)
		c.made[key] = is
	}
	return is
}

// says compares by meaning: a spec that went through the types of another program
// has other bytes.
func (b Blueprint) says(s *agents.Sandbox, metadata bool) bool {
	var want, is corev1.PodSpec
	if !sameJSON(b.podTemplate.Spec.Raw, s.Spec.PodTemplate.Spec.Raw, &want, &is) || len(b.volumes) != len(s.Spec.VolumeClaimTemplates) {
		return false
	}
	for i, v := range b.volumes {
		var want, is corev1.PersistentVolumeClaimSpec
		theirs := s.Spec.VolumeClaimTemplates[i]
		if v.ObjectMeta.Name != theirs.ObjectMeta.Name || !sameJSON(v.Spec.Raw, theirs.Spec.Raw, &want, &is) {
			return false
		}
	}
	if !equality.Semantic.DeepEqual(b.service, s.Spec.Service) {
		return false
	}
	mine, theirs := b.podTemplate.ObjectMeta, s.Spec.PodTemplate.ObjectMeta
	return !metadata || equality.Semantic.DeepEqual(unreserved(mine.Labels), unreserved(theirs.Labels)) &&
		equality.Semantic.DeepEqual(authored(mine.Annotations), authored(theirs.Annotations))
}

// authored is what a template's author wrote of annotations: a pool puts one more on
// its members.
func authored(annotations map[string]string) map[string]string {
	kept := unreserved(annotations)
	delete(kept, AnnotationSafeToEvict)
	return kept
}

// sameJSON reports whether two texts say the same, read into a type each. What cannot
// be read says nothing.
func sameJSON[T any](a, b []byte, one, other *T) bool {
	return json.UnmarshalCaseSensitivePreserveInts(a, one) == nil &&
		json.UnmarshalCaseSensitivePreserveInts(b, other) == nil && equality.Semantic.DeepEqual(*one, *other)
}
