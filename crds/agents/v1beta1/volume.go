package v1beta1

// VolumeMetadata is the part of a storage claim's metadata that an author may write.
type VolumeMetadata struct {
	// name tells the claims of one sandbox apart; pod volumes use it.
	// +optional
	Name string `json:"name,omitempty"`

	// labels are put on the claim for storage.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on the claim for storage.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
