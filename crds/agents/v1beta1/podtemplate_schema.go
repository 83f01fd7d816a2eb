//go:build crd && !full

package v1beta1

import corev1 "k8s.io/api/core/v1"

// A PodTemplate is the pod of a Sandbox as the API server checks it.
type PodTemplate struct {
	// metadata is put on the pod.
	// +optional
	ObjectMeta PodMetadata `json:"metadata,omitempty,omitzero"`

	// spec is a core/v1 pod spec. It has one owner as a whole: a field of it is
	// never another manager's than the rest.
	// +required
	// +structType=atomic
	Spec corev1.PodSpec `json:"spec"`
}
