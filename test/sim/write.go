package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// errMoved is why a write is refused that was meant for another state of the object.
var errMoved = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// change writes what how makes of an object as it is, nil if there is none. If how returns
// nil the object is deleted; if it returns what it was given nothing is written. When
// somebody else writes meanwhile how is asked again.
func (s *Server) change(q *request, key types.NamespacedName, how func(was *object) (*unstructured.Unstructured, error)) (*object, error) {
	for {
		was := s.store.get(q.kind, key)
		is, err := how(was)
		switch {
		case err != nil:
			return nil, err
		case was != nil && is == was.Unstructured:
			return was, nil
		case q.Get("dryRun") != "" && is == nil:
			return was, nil
		case q.Get("dryRun") != "":
			return &object{Unstructured: is}, nil
		}
		if o, ok := s.store.commit(q.kind, key, was, is); ok {
			return o, nil
		}
	}
}

// create makes an object.
func (s *Server) create(q *request) ([]byte, error) {
	body, err := q.body()
	if err != nil {
		return nil, err
	}
	u, err := q.object(body)
	if err != nil {
		return nil, err
	}
	if u.GetName() == "" {
		u.SetName(u.GetGenerateName() + utilrand.String(5))
	}
	q.kind.Default(u)
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if s.store.get(q.kind, key) == nil {
		u = unstructuredOf(q.kind.managers[""].UpdateNoErrors(q.kind.zero, u, q.manager()))
	}
	o, err := s.change(q, key, func(was *object) (*unstructured.Unstructured, error) {
		if was != nil {
			return nil, apierrors.NewAlreadyExists(q.kind.groupResource(), key.Name)
		}
		return q.born(u), nil
	})
	if err != nil {
		return nil, err
	}
	return q.shown(o), nil
}

// born is an object with what the server gives to each new one.
func (q *request) born(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetUID(uuid.NewUUID())
	u.SetCreationTimestamp(metav1.Now())
	if q.kind.status {
		delete(u.Object, "status")
	}
	if q.kind.born != nil {
		u.Object["status"] = (&unstructured.Unstructured{Object: q.kind.born}).DeepCopy().Object
	}
	if q.kind.counts {
		u.SetGeneration(1)
	}
	return u
}

// replace is an update of the whole object, or of its status.
func (s *Server) replace(q *request) ([]byte, error) {
	body, err := q.body()
	if err != nil {
		return nil, err
	}
	sent, err := q.object(body)
	if err != nil {
		return nil, err
	}
	q.kind.Default(sent)
	o, err := s.change(q, q.key, func(was *object) (*unstructured.Unstructured, error) {
		if was == nil {
			return nil, q.notFound()
		}
		if uid := sent.GetUID(); uid != "" && uid != was.GetUID() {
			return nil, apierrors.NewConflict(q.kind.groupResource(), q.key.Name, fmt.Errorf("the object has uid %s, not %s", was.GetUID(), uid))
		}
		is := unstructuredOf(q.kind.managers[q.sub].UpdateNoErrors(was.Unstructured, sent.DeepCopy(), q.manager()))
		return q.finish(was, is)
	})
	if err != nil {
		return nil, err
	}
	return q.shown(o), nil
}

func (q *request) notFound() error {
	return apierrors.NewNotFound(q.kind.groupResource(), q.key.Name)
}

// patch is an apply or another change of some fields.
func (s *Server) patch(q *request) (code int, raw []byte, err error) {
	media := types.PatchType(q.Header.Get("Content-Type"))
	patch, err := readAll(q)
	if err != nil {
		return 0, nil, err
	}
	var body map[string]any
	if media == types.ApplyPatchType {
		if body, err = tree(string(media), patch); err != nil {
			return 0, nil, err
		}
	}
	code = http.StatusOK
	o, err := s.change(q, q.key, func(was *object) (*unstructured.Unstructured, error) {
		switch {
		case body != nil && was == nil && q.sub == "":
			code = http.StatusCreated
			return q.applyNew(body)
		case was == nil:
			return nil, q.notFound()
		}
		code = http.StatusOK
		var is *unstructured.Unstructured
		var err error
		if body != nil {
			is, err = q.apply(was.Unstructured, body)
		} else {
			is, err = q.patched(was, media, patch)
		}
		if err != nil {
			return nil, err
		}
		return q.finish(was, is)
	})
	switch {
	case err != nil:
		return 0, nil, err
	case q.sub == "scale":
		return code, encode(scaleOf(o)), nil
	}
	return code, q.shown(o), nil
}

// apply merges what a manager applies into an object.
func (q *request) apply(live *unstructured.Unstructured, body map[string]any) (*unstructured.Unstructured, error) {
	applied, err := q.object((&unstructured.Unstructured{Object: body}).DeepCopy().Object)
	if err != nil {
		return nil, err
	}
	if q.Get("fieldManager") == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "",
			field.ErrorList{field.Required(field.NewPath("fieldManager"), "is required for apply patch")})
	}
	is, err := q.kind.managers[q.sub].Apply(live, applied, q.manager(), q.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	return unstructuredOf(is), nil
}

// applyNew makes an object by an apply.
func (q *request) applyNew(body map[string]any) (*unstructured.Unstructured, error) {
	is, err := q.apply(q.kind.empty(), body)
	if err != nil {
		return nil, err
	}
	if uid := is.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(q.kind.groupResource(), q.key.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	return q.born(is), nil
}

// patched is an object after a patch that is no apply.
func (q *request) patched(was *object, media types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	from, raw, err := was.encoded(), []byte(nil), error(nil)
	if q.sub == "scale" {
		from = encode(scaleOf(was))
	}
	switch {
	case media == types.MergePatchType:
		raw, err = jsonpatch.MergePatch(from, patch)
	case media == types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			raw, err = operations.Apply(from)
		}
	case media == types.StrategicMergePatchType && !q.kind.custom:
		var typed any
		if typed, err = scheme.Scheme.New(q.kind.gvk); err == nil {
			raw, err = strategicpatch.StrategicMergePatch(from, patch, typed)
		}
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", q.kind.groupResource(), q.key.Name, string(media), 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o := map[string]any{}
	if err := utiljson.Unmarshal(raw, &o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	dropNulls(o)
	u := &unstructured.Unstructured{Object: o}
	if q.sub == "scale" {
		if u, err = scaled(was, u); err != nil {
			return nil, err
		}
	}
	q.kind.Default(u)
	return unstructuredOf(q.kind.managers[q.sub].UpdateNoErrors(was.Unstructured, u, q.manager())), nil
}

// finish refuses an update that was meant for another state, and gives the rest what no
// update can change. It returns what was if nothing is new, and nil if the object has
// waited for this update to go.
func (q *request) finish(was *object, is *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch version := is.GetResourceVersion(); {
	case version == "" && q.kind.custom:
		return nil, q.invalid(field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	case version != "" && version != was.GetResourceVersion():
		return nil, apierrors.NewConflict(q.kind.groupResource(), q.key.Name, errMoved)
	}
	is = q.within(was.Unstructured, is)
	if is.GetUID() == "" {
		is.SetUID(was.GetUID())
	}
	is.SetResourceVersion(was.GetResourceVersion())
	is.SetCreationTimestamp(was.GetCreationTimestamp())
	is.SetDeletionTimestamp(was.GetDeletionTimestamp())
	is.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	is.SetGeneration(was.GetGeneration())
	if is.GetUID() != was.GetUID() {
		return nil, q.invalid(field.Invalid(field.NewPath("metadata", "uid"), string(is.GetUID()), validation.FieldImmutableErrorMsg))
	}
	if q.kind.counts && !same(was.Object, is.Object, "metadata", q.kind.ownStatus()) {
		is.SetGeneration(was.GetGeneration() + 1)
	}
	switch {
	case same(was.Object, is.Object, "metadata") && sameMetadata(was.Unstructured, is):
		return was.Unstructured, nil
	case is.GetDeletionTimestamp() != nil && len(is.GetFinalizers()) == 0 && grace(is) == 0:
		return nil, nil
	}
	return is, nil
}

func (q *request) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(q.kind.gvk.GroupKind(), q.key.Name, errs)
}

// ownStatus is the field that does not count, if there is one.
func (k *kind) ownStatus() string {
	if k.status {
		return "status"
	}
	return ""
}

// within leaves of an update what the request may change: the status or all else.
func (q *request) within(was, is *unstructured.Unstructured) *unstructured.Unstructured {
	keep := func(name string) {
		if v, ok := was.Object[name]; ok {
			is.Object[name] = v
		} else {
			delete(is.Object, name)
		}
	}
	switch {
	case q.sub == "status" && q.kind.custom:
		managed := is.GetManagedFields()
		metadata := stamped(was)
		metadata.SetManagedFields(managed)
		is.Object["metadata"] = metadata.Object["metadata"]
		keep("spec")
	case q.sub == "status":
		is.SetOwnerReferences(was.GetOwnerReferences())
		keep("spec")
	case q.kind.status:
		keep("status")
	}
	return is
}

// same reports whether two objects are the same but for some fields.
func same(a, b map[string]any, but ...string) bool {
	for _, pair := range [][2]map[string]any{{a, b}, {b, a}} {
		for name := range pair[0] {
			if _, ok := pair[1][name]; !ok && !slices.Contains(but, name) {
				return false
			}
		}
	}
	for name, v := range a {
		if !slices.Contains(but, name) && !reflect.DeepEqual(v, b[name]) {
			return false
		}
	}
	return true
}

// sameMetadata reports whether two states of an object have the same metadata, whenever
// their fields were written.
func sameMetadata(was, is *unstructured.Unstructured) bool {
	a, b := metadataOf(was), metadataOf(is)
	if !same(a, b, "managedFields") {
		return false
	}
	before, _ := a["managedFields"].([]any)
	now, _ := b["managedFields"].([]any)
	return slices.EqualFunc(before, now, func(x, y any) bool {
		one, ok := x.(map[string]any)
		other, ok2 := y.(map[string]any)
		return ok && ok2 && same(one, other, "time")
	})
}

func metadataOf(u *unstructured.Unstructured) map[string]any {
	metadata, _ := u.Object["metadata"].(map[string]any)
	return metadata
}

// delete deletes an object, or begins to.
func (s *Server) delete(q *request) ([]byte, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	o, err := s.change(q, q.key, func(was *object) (*unstructured.Unstructured, error) {
		if was == nil {
			return nil, q.notFound()
		}
		if p := options.Preconditions; p != nil {
			if p.UID != nil && *p.UID != was.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != was.GetResourceVersion() {
				return nil, apierrors.NewConflict(q.kind.groupResource(), q.key.Name, errors.New("the precondition does not match the record"))
			}
		}
		return q.ended(was, options), nil
	})
	switch {
	case err != nil:
		return nil, err
	case s.store.get(q.kind, q.key) == nil && !q.kind.graceful:
		return success(), nil
	}
	return q.shown(o), nil
}

func (q *request) deleteOptions() (options metav1.DeleteOptions, err error) {
	body, err := q.body()
	if err != nil {
		return options, err
	}
	raw, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(raw, &options)
	}
	if err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}

// ended is what a delete makes of an object: nil, or one that waits for whoever runs it,
// or for its finalizers.
func (q *request) ended(was *object, options metav1.DeleteOptions) *unstructured.Unstructured {
	period := q.period(was.Unstructured, options.GracePeriodSeconds)
	finalizers := slices.Clone(was.GetFinalizers())
	if p := options.PropagationPolicy; p != nil {
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool {
			return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
		})
		switch *p {
		case metav1.DeletePropagationForeground:
			finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
		case metav1.DeletePropagationOrphan:
			finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
		case metav1.DeletePropagationBackground:
		}
	}
	deleting := was.GetDeletionTimestamp() != nil
	switch {
	case period == 0 && len(finalizers) == 0:
		return nil
	case deleting && period >= grace(was.Unstructured) && slices.Equal(finalizers, was.GetFinalizers()):
		return was.Unstructured
	}
	is := stamped(was.Unstructured)
	is.SetFinalizers(finalizers)
	if !deleting || period < grace(was.Unstructured) {
		at := metav1.NewTime(time.Now().Add(time.Duration(period) * time.Second))
		is.SetDeletionTimestamp(&at)
		is.SetDeletionGracePeriodSeconds(&period)
	}
	if g := was.GetGeneration(); g > 0 && !deleting {
		is.SetGeneration(g + 1)
	}
	return is
}

// period is how long an object may take to end, in seconds.
func (q *request) period(u *unstructured.Unstructured, asked *int64) int64 {
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	switch {
	case !q.kind.graceful, node == "", phase == "Failed", phase == "Succeeded":
		return 0
	case asked != nil && *asked < 0:
		return 1
	case asked != nil:
		return *asked
	case u.GetDeletionTimestamp() != nil:
		return grace(u)
	}
	if period, ok, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds"); ok {
		return period
	}
	return 30
}

// grace is how long an object that is being deleted still has.
func grace(u *unstructured.Unstructured) int64 {
	if period := u.GetDeletionGracePeriodSeconds(); period != nil {
		return *period
	}
	return 0
}
