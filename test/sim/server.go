package sim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// A Server is an API server in memory. It is an http.Handler.
type Server struct {
	store *store
	kinds []*kind
}

// New returns a server that has nothing.
func New() (*Server, error) {
	all, err := kinds()
	if err != nil {
		return nil, err
	}
	return &Server{newStore(all), all}, nil
}

// A request is what somebody asks for, taken apart.
type request struct {
	*http.Request
	kind *kind
	key  types.NamespacedName
	sub  string
	url.Values
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if group, ok := s.group(r.URL.Path); ok {
		answer(w, http.StatusOK, encode(group))
		return
	}
	q, ok := s.parse(r)
	if !ok {
		refuse(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "there is no "+r.URL.Path, 0, true))
		return
	}
	code, raw, err := http.StatusOK, []byte(nil), error(nil)
	switch named := q.key.Name != ""; {
	case r.Method == http.MethodGet && !named && q.Get("watch") != "" && q.Get("watch") != "false":
		err = s.watch(w, q)
		if err == nil {
			return // it has been answered
		}
	case r.Method == http.MethodGet && !named:
		raw, err = s.list(q)
	case r.Method == http.MethodGet:
		raw, err = s.read(q)
	case r.Method == http.MethodPost && q.sub == "binding":
		code = http.StatusCreated
		raw, err = s.bind(q)
	case r.Method == http.MethodPost && !named:
		code = http.StatusCreated
		raw, err = s.create(q)
	case r.Method == http.MethodPut && named && q.sub != "scale":
		raw, err = s.replace(q)
	case r.Method == http.MethodPatch && named:
		code, raw, err = s.patch(q)
	case r.Method == http.MethodDelete && named && q.sub == "":
		raw, err = s.delete(q)
	default:
		err = apierrors.NewMethodNotSupported(q.kind.groupResource(), r.Method)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, code, raw)
}

// parse finds out what a request is about.
func (s *Server) parse(r *http.Request) (*request, bool) {
	q := &request{Request: r, Values: r.URL.Query()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gv := schema.GroupVersion{}
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.key.Namespace, parts = parts[1], parts[2:]
	}
	for _, k := range s.kinds {
		if k.gvk.GroupVersion() == gv && k.resource == parts[0] {
			q.kind = k
		}
	}
	if len(parts) > 1 {
		q.key.Name = parts[1]
	}
	if len(parts) > 2 {
		q.sub = parts[2]
	}
	return q, q.kind != nil && len(parts) < 4 && q.kind.has(q.sub)
}

// has reports whether a kind has a subresource.
func (k *kind) has(sub string) bool { return sub == "binding" && k.graceful || k.managers[sub] != nil }

// group lists the resources of a version of a group, if a path asks for that.
func (s *Server) group(path string) (list metav1.APIResourceList, ok bool) {
	version := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(path, "/"), "apis/"), "api/")
	list = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version}
	for _, k := range s.kinds {
		if k.gvk.GroupVersion().String() != version {
			continue
		}
		one := metav1.APIResource{Name: k.resource, Namespaced: !k.wide, Kind: k.gvk.Kind, Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"}}
		list.APIResources = append(list.APIResources, one)
		if k.scales {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.resource + "/scale", Namespaced: true, Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: metav1.Verbs{"get", "patch"},
			})
		}
	}
	return list, len(list.APIResources) > 0
}

// manager is in whose name something is written.
func (q *request) manager() string {
	if m := q.Get("fieldManager"); m != "" {
		return m
	}
	agent, _, _ := strings.Cut(q.UserAgent(), "/")
	return agent
}

// body is what a request says, as JSON would have it.
func (q *request) body() (map[string]any, error) {
	raw, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	return tree(q.Header.Get("Content-Type"), raw)
}

func tree(media string, raw []byte) (o map[string]any, err error) {
	switch {
	case len(raw) == 0:
		return map[string]any{}, nil
	case strings.Contains(media, "protobuf"):
		var decoded runtime.Object
		if decoded, _, err = scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil); err == nil {
			o, err = runtime.DefaultUnstructuredConverter.ToUnstructured(decoded)
		}
	case raw[0] == '{':
		err = utiljson.Unmarshal(raw, &o)
	default:
		if raw, err = yaml.YAMLToJSON(raw); err == nil {
			err = utiljson.Unmarshal(raw, &o)
		}
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	dropNulls(o)
	return o, nil
}

// dropNulls takes out what is null: it says nothing.
func dropNulls(o any) {
	switch o := o.(type) {
	case map[string]any:
		for name, v := range o {
			if v == nil {
				delete(o, name)
			}
			dropNulls(v)
		}
	case []any:
		for _, v := range o {
			dropNulls(v)
		}
	}
}

func answer(w http.ResponseWriter, code int, raw []byte) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_, _ = w.Write(raw) // whoever has hung up does not want to know
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	answer(w, int(status.Code), encode(status))
}

func statusOf(err error) metav1.Status {
	var known apierrors.APIStatus
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}

func success() []byte {
	return encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// object is the object that a request says, in the place that it names.
func (q *request) object(o map[string]any) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: o}
	if gvk := u.GroupVersionKind(); gvk != q.kind.gvk && gvk.Kind != "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a %s is no %s", gvk, q.kind.gvk))
	}
	u.SetGroupVersionKind(q.kind.gvk)
	if q.key.Name != "" {
		u.SetName(q.key.Name)
	}
	if !q.kind.wide {
		u.SetNamespace(q.key.Namespace)
	}
	return u, nil
}
