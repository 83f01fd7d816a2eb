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
	// it is written through a door of its own.
	Kind string
	// Own are the fields. A field owns what is below it.
	Own *fieldpath.Set
	// Once are fields it writes at birth only and hands on with the first move:
	// a pod is born with its first word, which kiln-state then takes over.
	Once *fieldpath.Set
	// Keys says whose keys it may own in the maps of labels and annotations,
	// beside those in Own; none of them is reserved.
	Keys Keys
}

// Keys is whose keys a manager may own in a map of labels or annotations.
// Template and claim never give the same key: a claim that tries is refused, or,
// where both say the same, left out.
type Keys uint8

// Whose keys.
const (
	NoKeys Keys = iota
	TemplateKeys
	ClaimKeys
)

// Scopes are the scopes of every manager.
var Scopes = []Scope{
	{states.Owner, "sandbox", fields(
		keys("metadata.labels", sandboxLabels...), keys("metadata.annotations", sandboxNotes...), at("metadata.ownerReferences"),
		at("spec.podTemplate"), at("spec.volumeClaimTemplates"), at("spec.service"),
	), nil, NoKeys},
	{states.Status, "sandboxstatus", fields(at("status")), nil, NoKeys},
	{states.Birth, "pod", fields(
		keys("metadata.labels", LabelNameHash, LabelTemplate), keys("metadata.annotations", NotePool),
		at("metadata.ownerReferences"), at("spec"),
	), fields(keys("metadata.labels", LabelState)), TemplateKeys},
	{states.Marker, "pod", fields(
		keys("metadata.labels", LabelState, LabelClaim, LabelPool, LabelCreatedBy), keys("metadata.annotations", NoteEvict),
	), nil, ClaimKeys},
	{states.Claimant, "claim", fields(keys("metadata.annotations", NoteSandbox, NoteSeen)), nil, NoKeys},
	{states.Claimant, "claimstatus", fields(at("status")), nil, NoKeys},
	{states.Pooler, "poolstatus", fields(at("status")), nil, NoKeys},
	{states.Templer, "template", fields(keys("metadata.labels", LabelTemplate)), nil, NoKeys},
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
		if s.Own.Has(p[:i+1]) || s.Once != nil && s.Once.Has(p[:i+1]) {
			return true
		}
	}
	return s.Keys != NoKeys && userKey(p)
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

// userKey reports whether a path is a key in a map of labels or annotations
// that only a user can have chosen.
func userKey(p fieldpath.Path) bool {
	if len(p) != 3 || p[2].FieldName == nil || Reserved(*p[2].FieldName) {
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
