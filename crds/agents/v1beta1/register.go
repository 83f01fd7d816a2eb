package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the address of the kinds in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "agents.x-k8s.io", Version: "v1beta1"}

// KindSandbox is the name of the Sandbox in manifests and references.
const KindSandbox = "Sandbox"

// Resource is the name of the Sandbox in URLs and informers.
var Resource = SchemeGroupVersion.WithResource("sandboxes")

// AddToScheme teaches a scheme the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion, &Sandbox{}, &SandboxList{})
	metav1.AddToGroupVersion(s, SchemeGroupVersion)
	return nil
}
