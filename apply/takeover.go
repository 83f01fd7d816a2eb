package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Takeover is what becomes of the fields of an object that are Kiln's to write and that
// somebody owned by Update: the agent-sandbox controller, a fork of it under a name of its
// own, or a hand. What is in the scope of one of Kiln's managers becomes that manager's, as
// if it had applied it, so that what it leaves out of its next apply is removed. The rest
// stays whose it is. client-go's csaupgrade gives all of it to one manager; a pod has two,
// and a switch that a user may turn must not become ours.
type Takeover struct {
	kind string
	// entries are the object's managedFields as they shall be.
	entries []metav1.ManagedFieldsEntry
	// Fields counts what each of Kiln's managers gains, and From names whose it was.
	Fields map[states.Manager]int
	From   []string
}

// TakeoverOf works out the takeover of a sandbox, pod, Service, claim, pool or template; ok
// is false if nothing of it was inherited. The pod of a sandbox whose author marked it safe
// to evict, or not, keeps that mark: marked says so.
func TakeoverOf(o Regarding, marked bool) (t Takeover, ok bool, err error) {
	t = Takeover{kind: KindOf(o), Fields: map[states.Manager]int{}}
	type gift struct {
		metav1.ManagedFieldsEntry
		parts map[states.Manager]*fieldpath.Set
	}
	var gifts []gift
	for _, e := range o.GetManagedFields() {
		parts, rest := divide(o, e, marked)
		if len(parts) == 0 {
			t.entries = append(t.entries, e)
			continue
		}
		gifts = append(gifts, gift{e, parts})
		if rest.Leaves().Empty() {
			continue
		}
		if e.FieldsV1, err = fieldsV1(rest); err != nil {
			return t, true, fmt.Errorf("%s %s: managedFields of %s: %w", t.kind, keyOf(o), e.Manager, err)
		}
		t.entries = append(t.entries, e)
	}
	version := gvkOf(o).GroupVersion().String()
	if t.kind == "pod" || t.kind == "service" {
		version = corev1.SchemeGroupVersion.String() // a typed client leaves the object's own field empty
	}
	for _, g := range gifts {
		t.From = append(t.From, g.Manager)
		for manager, set := range g.parts {
			g.APIVersion = version
			if err := t.give(manager, set, g.ManagedFieldsEntry); err != nil {
				return t, true, fmt.Errorf("%s %s: managedFields of %s: %w", t.kind, keyOf(o), g.Manager, err)
			}
		}
	}
	slices.Sort(t.From)
	t.From = slices.Compact(t.From)
	return t, len(gifts) > 0, nil
}

// KindOf is the kind of an object as scopes name it, or nothing if it is never taken over.
func KindOf(o metav1.Object) string {
	switch o.(type) {
	case *agents.Sandbox:
		return "sandbox"
	case *ext.SandboxClaim:
		return "claim"
	case *ext.SandboxWarmPool:
		return "pool"
	case *ext.SandboxTemplate:
		return "template"
	case *corev1.Service:
		return "service"
	case *corev1.Pod:
		return "pod"
	}
	return ""
}

// An inheritance is what Kiln takes over of one kind.
type inheritance struct {
	scopes []Scope
	// names are those of the fields, as managedFields write them.
	names [][]byte
}

// inherits makes an inheritance of scopes.
func inherits(scopes []Scope) (all inheritance) {
	all.scopes = scopes
	for _, s := range scopes {
		for _, fields := range []*fieldpath.Set{s.own, s.once} {
			if fields == nil {
				continue
			}
			fields.Iterate(func(p fieldpath.Path) {
				all.names = append(all.names, []byte(`"f:`+*p[len(p)-1].FieldName+`"`))
			})
		}
	}
	return all
}

var (
	// inheritances are those of each kind; a status is a kind of its own.
	inheritances = func() map[string]inheritance {
		of := map[string][]Scope{}
		for _, s := range Scopes {
			of[s.Kind] = append(of[s.Kind], s)
		}
		all := map[string]inheritance{}
		for kind, scopes := range of {
			all[kind] = inherits(scopes)
		}
		return all
	}()
	// ofUsers is that of a Sandbox that a user made: its spec and its labels are the user's.
	ofUsers = inherits([]Scope{{Manager: states.OwnerManager, own: fields(keys("metadata.annotations", sandboxAnnotations...))}})
)

// inheritanceOf is what Kiln takes over of an object, or of a subresource of it.
func inheritanceOf(o metav1.Object, subresource string) inheritance {
	if s, ok := o.(*agents.Sandbox); ok && subresource == "" && !MadeByKiln(s) {
		return ofUsers
	}
	return inheritances[KindOf(o)+subresource]
}

// divide divides what an entry owns: the managers in whose scope it is have a part each,
// and the rest stays whose it is. Most entries own nothing of ours, and their text shows
// that: every event of every object comes through here.
func divide(o metav1.Object, e metav1.ManagedFieldsEntry, marked bool) (parts map[states.Manager]*fieldpath.Set, rest *fieldpath.Set) {
	if e.Operation != metav1.ManagedFieldsOperationUpdate || e.FieldsV1 == nil {
		return nil, nil
	}
	from, raw := inheritanceOf(o, e.Subresource), e.FieldsV1.GetRawBytes()
	if !slices.ContainsFunc(from.names, func(name []byte) bool { return bytes.Contains(raw, name) }) {
		return nil, nil
	}
	all, err := setOf(e)
	if err != nil {
		return nil, nil // nobody can tell what it owns
	}
	parts, rest = map[states.Manager]*fieldpath.Set{}, fieldpath.NewSet()
	leaves, users := all.Leaves(), propagatedOf(o)
	all.Iterate(func(p fieldpath.Path) {
		// The fields of an item do not make the item theirs; of a map, its keys do.
		if item := p[len(p)-1].Key != nil; !item && !leaves.Has(p) {
			return
		}
		manager, ok := from.heir(users, p, marked)
		if !ok {
			rest.Insert(p.Copy())
			return
		}
		if parts[manager] == nil {
			parts[manager] = fieldpath.NewSet()
		}
		parts[manager].Insert(p.Copy())
	})
	return parts, rest
}

// safeToEvict is the mark of free pool members, and poolLabel their label.
var (
	safeToEvict = keys("metadata.annotations", AnnotationSafeToEvict)[0]
	poolLabel   = keys("metadata.labels", LabelPool)[0]
)

// heir is the manager in whose scope a field is. What an object is born with is the
// manager's who would have made it, and so are the keys that a user chose, if they came
// from the template. The pool's label is kiln-state's: that removes it.
func (all inheritance) heir(users propagated, p fieldpath.Path, marked bool) (states.Manager, bool) {
	authors := marked && p.Equals(safeToEvict)
	for _, in := range []func(Scope) bool{
		func(s Scope) bool { return s.once != nil && holds(s.once, p) && !p.Equals(poolLabel) },
		func(s Scope) bool { return !authors && holds(s.own, p) },
		func(s Scope) bool { return s.keys != noKeys && isUserKey(p) && (authors || users.has(p)) },
	} {
		for _, s := range all.scopes {
			if in(s) {
				return s.Manager, true
			}
		}
	}
	return "", false
}

// A propagated is the labels and the annotations of a pod that came from its template,
// as sets: a user may write as many keys as an object holds.
type propagated map[string]map[string]bool

// propagatedOf reads the lists that a pod has of them.
func propagatedOf(o metav1.Object) propagated {
	all := propagated{}
	for field, list := range map[string]string{"labels": AnnotationLabels, "annotations": AnnotationAnnotations} {
		all[field] = map[string]bool{}
		for _, key := range split(o.GetAnnotations()[list]) {
			all[field][key] = true
		}
	}
	return all
}

func (all propagated) has(p fieldpath.Path) bool { return all[*p[1].FieldName][*p[2].FieldName] }

// holds reports whether a field is in a set, or below one that is.
func holds(set *fieldpath.Set, p fieldpath.Path) bool {
	for i := range p {
		if set.Has(p[:i+1]) {
			return true
		}
	}
	return false
}

func setOf(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil {
		return set, nil
	}
	return set, set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes()))
}

// give adds fields to what a manager has applied. The entry that they come from says
// when and where.
func (t *Takeover) give(manager states.Manager, set *fieldpath.Set, from metav1.ManagedFieldsEntry) error {
	t.Fields[manager] += set.Size()
	at := slices.IndexFunc(t.entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == string(manager) && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == from.Subresource
	})
	if at < 0 {
		from.Manager, from.Operation = string(manager), metav1.ManagedFieldsOperationApply
		t.entries, at = append(t.entries, from), len(t.entries)
	} else {
		had, err := setOf(t.entries[at])
		if err != nil {
			return err
		}
		set = set.Union(had)
	}
	var err error
	t.entries[at].FieldsV1, err = fieldsV1(set)
	return err
}

// fieldsV1 is a set as managedFields write it.
func fieldsV1(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := set.ToJSON()
	if err != nil {
		return nil, err
	}
	f := &metav1.FieldsV1{}
	f.SetRawBytes(raw)
	return f, nil
}

// patch replaces the managedFields of an object, as it was seen: the resourceVersion
// in it makes the server answer with a conflict if it has changed.
func (t Takeover) patch(o metav1.Object) ([]byte, error) {
	type replacement struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	return json.Marshal([]replacement{
		{"replace", "/metadata/managedFields", t.entries},
		{"replace", "/metadata/resourceVersion", o.GetResourceVersion()},
	})
}

// patcher is the part of a typed client that a takeover needs.
type patcher[T any] interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// mainManager is the manager in whose name a kind is taken over.
var mainManager = map[string]states.Manager{
	"sandbox": states.OwnerManager, "pod": states.PodManager, "claim": states.ClaimManager,
	"pool": states.PoolManager, "template": states.TemplateManager, "service": states.PodManager,
}

// takeOver writes a takeover of an object, as it was seen. It changes who owns the
// fields and no field, so nobody is told of anything and no state moves. It goes to
// the object itself: the server ignores managedFields sent to a subresource.
func takeOver[T Regarding](ctx context.Context, a *Applier, o T, t Takeover, of func(*client.Connection) patcher[T]) (T, error) {
	w := write{urgency: urgency{class: classWarm}, manager: mainManager[t.kind], kind: t.kind, edge: "takeover", key: keyOf(o), seen: o.GetResourceVersion()}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (T, error) {
		body, err := t.patch(o)
		if err != nil {
			return o, err
		}
		return of(c).Patch(ctx, o.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: string(w.manager)})
	})
}

// TakeOver makes what Kiln inherited of an object its own; what was not inherited is
// returned as it is.
func (a *Applier) TakeOver(ctx context.Context, o Regarding, marked bool) (Regarding, error) {
	t, ok, err := TakeoverOf(o, marked)
	if !ok || err != nil {
		return o, err
	}
	ns := o.GetNamespace()
	switch o := o.(type) {
	case *agents.Sandbox:
		return takeOver(ctx, a, o, t, func(c *client.Connection) patcher[*agents.Sandbox] { return c.Kiln.Sandboxes(ns) })
	case *ext.SandboxClaim:
		return takeOver(ctx, a, o, t, func(c *client.Connection) patcher[*ext.SandboxClaim] { return c.Kiln.Claims(ns) })
	case *ext.SandboxWarmPool:
		return takeOver(ctx, a, o, t, func(c *client.Connection) patcher[*ext.SandboxWarmPool] { return c.Kiln.Pools(ns) })
	case *ext.SandboxTemplate:
		return takeOver(ctx, a, o, t, func(c *client.Connection) patcher[*ext.SandboxTemplate] { return c.Kiln.Templates(ns) })
	case *corev1.Service:
		return takeOver(ctx, a, o, t, func(c *client.Connection) patcher[*corev1.Service] { return c.Core.CoreV1().Services(ns) })
	case *corev1.Pod:
		return takeOver(ctx, a, o, t, func(c *client.Connection) patcher[*corev1.Pod] { return c.Core.CoreV1().Pods(ns) })
	}
	return o, fmt.Errorf("%s: a %T has no takeover", keyOf(o), o)
}
