package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kiln-sandbox/kiln/crds"
)

// A kind is one of those that the server has, and what is special about it.
type kind struct {
	gvk      schema.GroupVersionKind
	resource string
	// wide: it has no namespaces.
	wide bool
	// custom: it has a CRD, and these are its defaults.
	custom   bool
	defaults *defaults
	// status: its status is written by a request of its own, and by no other.
	status bool
	// counts: its generation counts the changes of what is no status.
	counts bool
	// scales: it has the subresource scale.
	scales bool
	// graceful: whoever runs it ends its deletion.
	graceful bool
	// most is how many of them are kept, if there is a bound.
	most int
	// born is the status that each is made with.
	born map[string]any
	// zero is what a new one is compared with: what Go sets to nothing is nobody's.
	zero *unstructured.Unstructured
	// managers note whose fields are whose, by subresource.
	managers map[string]*managedfields.FieldManager
}

// mostEvents is how many Events are kept. The real server drops them by their age.
const mostEvents = 200

// kinds are all kinds of the server.
func kinds() ([]*kind, error) {
	core := corev1.SchemeGroupVersion
	all := []*kind{
		{gvk: core.WithKind("Namespace"), resource: "namespaces", wide: true, born: map[string]any{"phase": "Active"}},
		{
			gvk: core.WithKind("Pod"), resource: "pods", status: true, counts: true, graceful: true,
			born: map[string]any{"phase": "Pending", "qosClass": "BestEffort"},
		},
		{gvk: core.WithKind("Service"), resource: "services", status: true, born: map[string]any{"loadBalancer": map[string]any{}}},
		{gvk: core.WithKind("PersistentVolumeClaim"), resource: "persistentvolumeclaims", status: true, born: map[string]any{"phase": "Pending"}},
		{gvk: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), resource: "networkpolicies", counts: true},
		{gvk: eventsv1.SchemeGroupVersion.WithKind("Event"), resource: "events", most: mostEvents},
	}
	types := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for _, k := range all {
		o, err := scheme.Scheme.New(k.gvk)
		if err != nil {
			return nil, err
		}
		k.zero = k.empty()
		if k.zero.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(o); err != nil {
			return nil, err
		}
		k.zero.SetGroupVersionKind(k.gvk)
		if err := k.manage(types); err != nil {
			return nil, err
		}
	}
	for _, manifest := range crds.Manifests() {
		k, types, err := read(manifest)
		if err == nil {
			err = k.manage(types)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// manage makes the field managers of a kind, one for each way in which it is written.
func (k *kind) manage(types managedfields.TypeConverter) error {
	version := fieldpath.APIVersion(k.gvk.GroupVersion().String())
	ignored := map[string]*fieldpath.Set{"": fieldpath.NewSet()}
	if k.status {
		ignored[""].Insert(fieldpath.MakePathOrDie("status"))
		ignored["status"] = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata"))
		if !k.custom {
			ignored["status"] = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"),
				fieldpath.MakePathOrDie("metadata", "deletionTimestamp"), fieldpath.MakePathOrDie("metadata", "ownerReferences"))
		}
	}
	if k.scales {
		ignored["scale"] = fieldpath.NewSet()
	}
	make := managedfields.NewDefaultFieldManager
	if k.custom {
		make = managedfields.NewDefaultCRDFieldManager
	}
	k.managers = map[string]*managedfields.FieldManager{}
	for sub, set := range ignored {
		filter := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{version: set})
		m, err := make(types, as{}, k, k, k.gvk, k.gvk.GroupVersion(), sub, filter)
		if err != nil {
			return fmt.Errorf("%s: %w", k.resource, err)
		}
		k.managers[sub] = m
	}
	return nil
}

// as converts nothing: every kind has one version.
type as struct{}

func (as) Convert(_, _, _ any) error { return fmt.Errorf("there is one version of every kind") }

func (as) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}

func (as) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// New is an object that says nothing yet.
func (k *kind) New(schema.GroupVersionKind) (runtime.Object, error) { return k.empty(), nil }

func (k *kind) empty() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.gvk)
	return u
}

// Default fills in what an object leaves out.
func (k *kind) Default(o runtime.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		k.defaults.fill(u.Object)
	}
}

func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.gvk.Group, Resource: k.resource}
}
