//go:build !crd

package v1beta1

import "k8s.io/apimachinery/pkg/runtime"

// A PodTemplate is the pod of a Sandbox or of a template, its spec still in the author's bytes.
type PodTemplate struct {
	// metadata is put on the pod.
	// +optional
	ObjectMeta PodMetadata `json:"metadata,omitempty,omitzero"`

	// spec is a pod spec. Whatever a server has kept survives here, so that the
	// controller can name what is wrong with it.
	// +required
	Spec runtime.RawExtension `json:"spec"`
}
