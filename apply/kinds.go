package apply

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// Regarding is an object an Event can be about.
type Regarding interface {
	metav1.Object
	runtime.Object
}

// gvkOf is the kind of an object, by its Go type: a typed client leaves the
// object's own field empty.
func gvkOf(o Regarding) schema.GroupVersionKind {
	switch o.(type) {
	case *agents.Sandbox:
		return agents.SchemeGroupVersion.WithKind(agents.KindSandbox)
	case *ext.SandboxClaim:
		return ext.SchemeGroupVersion.WithKind(ext.KindClaim)
	case *ext.SandboxWarmPool:
		return ext.SchemeGroupVersion.WithKind(ext.KindPool)
	case *ext.SandboxTemplate:
		return ext.SchemeGroupVersion.WithKind(ext.KindTemplate)
	}
	return o.GetObjectKind().GroupVersionKind()
}

// OwnerOf is an object's controller. Kinds compare by group and name, never by
// version: an owner reference keeps the version it was written with.
func OwnerOf(o metav1.Object) states.Owner {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return states.Owner{}
	}
	owner := states.Owner{Kind: states.OwnerOther, Name: ref.Name, UID: string(ref.UID)}
	switch schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() {
	case ext.SchemeGroupVersion.WithKind(ext.KindPool).GroupKind():
		owner.Kind = states.OwnerPool
	case ext.SchemeGroupVersion.WithKind(ext.KindClaim).GroupKind():
		owner.Kind = states.OwnerClaim
	case agents.SchemeGroupVersion.WithKind(agents.KindSandbox).GroupKind():
		owner.Kind = states.OwnerSandbox
	}
	return owner
}

// Adoptable reports whether an object that has no controller says that it may be
// adopted.
func Adoptable(o metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(o) == nil && o.GetLabels()[LabelAdoptable] == "true"
}

// ControlledBy reports whether the object with a UID is another one's controller.
func ControlledBy(uid types.UID, o metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == uid
}
