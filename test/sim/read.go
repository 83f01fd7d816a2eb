package sim

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// read returns one object, or its scale.
func (s *Server) read(q *request) ([]byte, error) {
	o := s.store.get(q.kind, q.key)
	switch {
	case o == nil:
		return nil, apierrors.NewNotFound(q.kind.groupResource(), q.key.Name)
	case q.sub == "scale":
		return encode(scaleOf(o)), nil
	}
	return q.shown(o), nil
}

// metadataOnly reports whether a request wants nothing but metadata.
func (q *request) metadataOnly() bool {
	return strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// shown is an object as a request wants it.
func (q *request) shown(o *object) []byte {
	if !q.metadataOnly() {
		return o.encoded()
	}
	return encode(map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": o.Object["metadata"],
	})
}

// A selection says which objects of a kind are asked for.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (q *request) selection() (c selection, err error) {
	c.namespace = q.key.Namespace
	if c.labels, err = labels.Parse(q.Get("labelSelector")); err == nil {
		c.fields, err = fields.ParseSelector(q.Get("fieldSelector"))
	}
	if err != nil {
		return c, apierrors.NewBadRequest(err.Error())
	}
	return c, nil
}

func (c selection) has(o *object) bool {
	return o != nil && (c.namespace == "" || c.namespace == o.GetNamespace()) &&
		(c.labels.Empty() || c.labels.Matches(labels.Set(o.GetLabels()))) && (c.fields.Empty() || c.fields.Matches(fieldsOf{o}))
}

// fieldsOf are the fields of an object by which it can be selected.
type fieldsOf struct{ *object }

// Has reports whether an object has a field.
func (f fieldsOf) Has(path string) bool { return f.Get(path) != "" }

// Get is a field as text.
func (f fieldsOf) Get(path string) string {
	v, _, err := unstructured.NestedString(f.Object, strings.Split(path, ".")...)
	if err != nil {
		return ""
	}
	return v
}

// from is the version that a list or a watch begins at; 0 is any.
func (q *request) from() (uint64, error) {
	if q.Get("resourceVersion") == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(err.Error())
	}
	return version, nil
}

// future refuses a version that is still to come.
func future(version, now uint64) error {
	if version <= now {
		return nil
	}
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, now), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// list returns all objects that are asked for, in one piece and as they are now.
func (s *Server) list(q *request) ([]byte, error) {
	c, err := q.selection()
	if err != nil {
		return nil, err
	}
	version, err := q.from()
	if err != nil {
		return nil, err
	}
	all, now, _ := s.store.list(q.kind, c.namespace)
	switch {
	case q.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) && version < now:
		return nil, apierrors.NewResourceExpired("the provided resource version is not known any more")
	case version > now:
		return nil, future(version, now)
	}
	gv, name := q.kind.gvk.ToAPIVersionAndKind()
	if q.metadataOnly() {
		gv, name = metav1.SchemeGroupVersion.String(), "PartialObjectMetadata"
	}
	raw := fmt.Appendf(nil, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, name, gv, now)
	first := true
	for _, o := range all {
		if !c.has(o) {
			continue
		}
		if !first {
			raw = append(raw, ',')
		}
		raw, first = append(raw, q.shown(o)...), false
	}
	return append(raw, "]}"...), nil
}

// bookmarkEvery is how often a watch is told where it stands.
const bookmarkEvery = time.Minute

// A stream is a watch under way.
type stream struct {
	*request
	selection
	w     http.ResponseWriter
	gone  bool // nobody reads it
	dirty bool // something is written and not flushed
}

// watch shows the changes after a version until the request ends. With no version, or
// when the initial events are asked for, it begins with what there is.
func (s *Server) watch(w http.ResponseWriter, q *request) error {
	c, err := q.selection()
	if err != nil {
		return err
	}
	version, err := q.from()
	if err != nil {
		return err
	}
	after, now, expired := s.store.after(q.kind, version)
	if err := future(version, now); err != nil {
		return err
	}
	ctx := q.Context()
	if seconds, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil && seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	st := &stream{request: q, selection: c, w: w, dirty: true}
	initial := q.Get("sendInitialEvents") == "true"
	switch {
	case initial || version == 0:
		after = st.begin(s.store, initial)
	case expired:
		st.send(watch.Error, encode(statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", version)))))
		return nil
	}
	st.follow(ctx, s.store, after)
	return nil
}

// begin sends what there is; marked says so at its end.
func (st *stream) begin(s *store, marked bool) *event {
	all, version, after := s.list(st.kind, st.namespace)
	for _, o := range all {
		if st.has(o) {
			st.send(watch.Added, st.shown(o))
		}
	}
	if marked {
		st.mark(version, map[string]any{metav1.InitialEventsAnnotationKey: "true"})
	}
	return after
}

// follow walks from change to change.
func (st *stream) follow(ctx context.Context, s *store, e *event) {
	ticker := time.NewTicker(bookmarkEvery)
	defer ticker.Stop()
	for !st.gone {
		select {
		case <-e.come:
			e = e.next
			st.tell(e)
			continue
		default:
			st.flush() // it has seen everything
		}
		select {
		case <-e.come:
		case <-ticker.C:
			if version, all := s.at(e); all && st.Get("allowWatchBookmarks") == "true" {
				st.mark(version, nil)
			}
		case <-ctx.Done():
			return
		}
	}
}

// tell sends a change, if it is one for what is selected.
func (st *stream) tell(e *event) {
	kind, ok := e.change(st.has(e.was), st.has(e.is))
	switch {
	case !ok:
	case kind != watch.Deleted:
		st.send(kind, st.shown(e.is))
	case e.is == nil:
		st.send(kind, st.shown(e.was))
	default: // it is not selected any more; it is shown as it was, with the version of the change
		last := &object{Unstructured: stamped(e.was.Unstructured), version: e.version}
		last.SetResourceVersion(strconv.FormatUint(e.version, 10))
		st.send(kind, st.shown(last))
	}
}

// mark sends a bookmark.
func (st *stream) mark(version uint64, annotations map[string]any) {
	u := st.kind.empty()
	u.SetResourceVersion(strconv.FormatUint(version, 10))
	if annotations != nil {
		u.Object["metadata"].(map[string]any)["annotations"] = annotations
	}
	st.send(watch.Bookmark, st.shown(&object{Unstructured: u}))
}

func (st *stream) send(kind watch.EventType, o []byte) {
	_, err := fmt.Fprintf(st.w, `{"type":%q,"object":%s}`+"\n", kind, o)
	st.gone, st.dirty = st.gone || err != nil, true
}

func (st *stream) flush() {
	if st.dirty {
		st.gone = http.NewResponseController(st.w).Flush() != nil
		st.dirty = false
	}
}
