//go:build crd

package v1beta1

import corev1 "k8s.io/api/core/v1"

// A PersistentVolumeClaimTemplate is a claim for storage to be made with a sandbox.
type PersistentVolumeClaimTemplate struct {
	// metadata is put on the claim for storage.
	// +optional
	ObjectMeta VolumeMetadata `json:"metadata,omitempty,omitzero"`

	// spec is the storage that is wanted.
	// +required
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}
