//go:build !crd

package v1beta1

import "k8s.io/apimachinery/pkg/runtime"

// A PersistentVolumeClaimTemplate is a claim for storage to be made with a
// sandbox, its spec still in the author's bytes.
type PersistentVolumeClaimTemplate struct {
	// metadata is put on the claim for storage.
	// +optional
	ObjectMeta VolumeMetadata `json:"metadata,omitempty,omitzero"`

	// spec is the storage that is wanted.
	// +required
	Spec runtime.RawExtension `json:"spec"`
}
