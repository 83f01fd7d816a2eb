//go:build crd && full

package v1beta1

import corev1 "k8s.io/api/core/v1"

// A PodTemplate is the pod of a SandboxTemplate as the API server checks it.
// People write it, and rarely, so all of it is checked.
type PodTemplate struct {
	// metadata is put on the pod.
	// +optional
	ObjectMeta PodMetadata `json:"metadata,omitempty,omitzero"`

	// spec is the pod spec.
	// +required
	Spec corev1.PodSpec `json:"spec"`
}
