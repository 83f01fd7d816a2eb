package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the address of the kinds in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "extensions.agents.x-k8s.io", Version: "v1beta1"}

// The names of the kinds in manifests and references.
const (
	KindClaim    = "SandboxClaim"
	KindPool     = "SandboxWarmPool"
	KindTemplate = "SandboxTemplate"
)

// The names of the kinds in URLs and informers.
var (
	ClaimResource    = SchemeGroupVersion.WithResource("sandboxclaims")
	PoolResource     = SchemeGroupVersion.WithResource("sandboxwarmpools")
	TemplateResource = SchemeGroupVersion.WithResource("sandboxtemplates")
)

// AddToScheme teaches a scheme the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion,
		&SandboxClaim{}, &SandboxClaimList{},
		&SandboxTemplate{}, &SandboxTemplateList{},
		&SandboxWarmPool{}, &SandboxWarmPoolList{},
	)
	metav1.AddToGroupVersion(s, SchemeGroupVersion)
	return nil
}
