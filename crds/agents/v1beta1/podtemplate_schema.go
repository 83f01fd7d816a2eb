//go:build crd && !full

package v1beta1

// A PodTemplate is the pod of a Sandbox as the API server checks it.
type PodTemplate struct {
	// metadata is put on the pod.
	// +optional
	ObjectMeta PodMetadata `json:"metadata,omitempty,omitzero"`

	// spec is a core/v1 pod spec. The server checks its containers by name; the
	// controller reads the rest, and the Ready condition names what it refuses.
	// +required
	Spec PodSpec `json:"spec"`
}

// A PodSpec is the part of a pod spec that the API server must know: the
// containers, so that two managers can own fields of one each.
//
// +kubebuilder:pruning:PreserveUnknownFields
type PodSpec struct {
	// containers run side by side in the pod.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	Containers []Container `json:"containers"`
}

// A Container is a core/v1 container.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Container struct {
	// name tells the containers of a pod apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}
