package apply

import (
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kiln-sandbox/kiln/states"
)

// A Scope is what one field manager may own on one kind: the fields it names,
// with all that is below them, and in some maps the keys that a user chose.
type Scope struct {
	Manager states.Manager
	// Kind is the lower-case kind; a status is a kind of its own here, because
	// it is a subresource.
	Kind string
	// own are the fields. A field owns what is below it.
	own *fieldpath.Set
	// once are fields it writes with the creation only. Another manager takes one over
	// when it changes: kiln-state the state that a pod is created with.
	once *fieldpath.Set
	// keys says whose keys it may own in the maps of labels and annotations,
	// beside those in own; none of them is reserved.
	keys userKeys
}

// userKeys is which keys of users a manager may own in a map of labels or
// annotations: those of the template as they were when the object was made, or what
// came later, which is the claim's, and what the template says since.
type userKeys uint8

const (
	noKeys userKeys = iota
	birthKeys
	laterKeys
)

// The labels and annotations of ours that a pod is born with and that are kept in
// line from then on.
var (
	birthLabels      = []string{LabelState, LabelPool, LabelNameHash, LabelTemplate}
	birthAnnotations = []string{AnnotationLabels, AnnotationAnnotations}
)

// Scopes are the scopes of every manager.
var Scopes = []Scope{
	{states.OwnerManager, "sandbox", fields(
		keys("metadata.labels", sandboxLabels...), keys("metadata.annotations", sandboxAnnotations...), at("metadata.ownerReferences"),
		at("spec.podTemplate"), at("spec.volumeClaimTemplates"), at("spec.service"),
	), nil, noKeys},
	{states.StatusManager, "sandboxstatus", fields(at("status")), nil, noKeys},
	{states.PodManager, "pod", fields(
		keys("metadata.annotations", AnnotationPoolUID), at("metadata.ownerReferences"), at("spec"),
	), fields(keys("metadata.labels", birthLabels...), keys("metadata.annotations", birthAnnotations...)), birthKeys},
	{states.StateManager, "pod", fields(
		keys("metadata.labels", LabelClaimUID, LabelCreatedBy), keys("metadata.labels", birthLabels...),
		keys("metadata.annotations", AnnotationSafeToEvict, annotationRestated), keys("metadata.annotations", birthAnnotations...),
	), nil, laterKeys},
	{states.PodManager, "service", fields(
		keys("metadata.labels", LabelNameHash), at("metadata.ownerReferences"),
		at("spec.clusterIP"), at("spec.selector"), at("spec.ports"),
	), nil, noKeys},
	{states.PodManager, "persistentvolumeclaim", fields(
		keys("metadata.labels", LabelNameHash), at("metadata.ownerReferences"), at("spec"),
	), nil, birthKeys},
	{states.ClaimManager, "claim", fields(keys("metadata.annotations", AnnotationSandboxName, AnnotationFirstObserved, AnnotationFirstReady)), nil, noKeys},
	{states.ClaimManager, "claimstatus", fields(at("status")), nil, noKeys},
	{states.PoolManager, "poolstatus", fields(at("status")), nil, noKeys},
	{states.TemplateManager, "template", fields(keys("metadata.labels", LabelTemplate)), nil, noKeys},
	{states.TemplateManager, "policy", fields(
		keys("metadata.labels", LabelTemplate), keys("metadata.annotations", AnnotationTemplate, AnnotationTemplateUID),
		at("metadata.ownerReferences"), at("spec"),
	), nil, noKeys},
}

// Covers returns the fields of a set that are outside the scope. Fields that
// name the object are nobody's.
func (s Scope) Covers(set *fieldpath.Set) (outside []string) {
	set.Leaves().Iterate(func(p fieldpath.Path) {
		if !s.covers(p) {
			outside = append(outside, p.String())
		}
	})
	return outside
}

func (s Scope) covers(p fieldpath.Path) bool {
	if names(p) {
		return true
	}
	for i := range p {
		if s.own.Has(p[:i+1]) || s.once != nil && s.once.Has(p[:i+1]) {
			return true
		}
	}
	return s.keys != noKeys && isUserKey(p)
}

// names reports whether a path is one of those that name an object or guard a
// request.
func names(p fieldpath.Path) bool {
	switch strings.TrimPrefix(p.String(), ".") {
	case "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion":
		return true
	}
	return false
}

// isUserKey reports whether a path is a key in a map of labels or annotations
// that only a user can have chosen.
func isUserKey(p fieldpath.Path) bool {
	if len(p) != 3 || p[2].FieldName == nil || reserved(*p[2].FieldName) {
		return false
	}
	s := p[:2].String()
	return s == ".metadata.labels" || s == ".metadata.annotations"
}

func fields(paths ...[]fieldpath.Path) *fieldpath.Set {
	set := fieldpath.NewSet()
	for _, some := range paths {
		for _, p := range some {
			set.Insert(p)
		}
	}
	return set
}

// at is one field, its names joined by dots.
func at(path string) []fieldpath.Path {
	var parts []any
	for name := range strings.SplitSeq(path, ".") {
		parts = append(parts, name)
	}
	return []fieldpath.Path{fieldpath.MakePathOrDie(parts...)}
}

// keys are keys in a map.
func keys(path string, keys ...string) (all []fieldpath.Path) {
	for _, k := range keys {
		all = append(all, append(at(path)[0].Copy(), fieldpath.PathElement{FieldName: &k}))
	}
	return all
}
