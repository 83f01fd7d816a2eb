package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Sandbox is one long-lived pod with a name that stays, storage that stays,
// and a spec that says whether it should run.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sandboxes,singular=sandbox,shortName=sandbox,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Owner-Kind",type=string,JSONPath=`.metadata.ownerReferences[0].kind`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.metadata.ownerReferences[0].name`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.service) || !self.spec.service || size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters when spec.service is true"
type Sandbox struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the pod that is wanted, and whether it is wanted now.
	// +required
	Spec SandboxSpec `json:"spec"`

	// status is the pod as it was last seen.
	// +optional
	Status SandboxStatus `json:"status,omitempty,omitzero"`
}

// A SandboxList is several Sandboxes.
//
// +kubebuilder:object:root=true
type SandboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Sandbox `json:"items"`
}

// A SandboxSpec is a blueprint, the hour it ends, and the switch that stops it.
//
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && (!has(self.volumeClaimTemplates) || self.volumeClaimTemplates == oldSelf.volumeClaimTemplates)",message="volumeClaimTemplates is immutable"
type SandboxSpec struct {
	// podTemplate is the pod to run. A change reaches the next pod; the pod that
	// runs now keeps the spec it was born with.
	// +required
	PodTemplate PodTemplate `json:"podTemplate"`

	// volumeClaimTemplates are claims for storage that outlives the pod.
	// They cannot change, because storage already made cannot follow.
	// +optional
	// +listType=atomic
	VolumeClaimTemplates []PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// service asks for a headless Service in front of the pod: true makes one,
	// false deletes it. Unset keeps the one there is and never makes another.
	// +optional
	Service *bool `json:"service,omitempty"`

	// shutdownTime is the hour at which the sandbox ends.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`

	// shutdownPolicy is what happens to the Sandbox itself at that hour.
	// +optional
	// +kubebuilder:default=Retain
	ShutdownPolicy ShutdownPolicy `json:"shutdownPolicy,omitempty"`

	// operatingMode is whether the pod should exist now.
	// +optional
	// +kubebuilder:default=Running
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`
}

// A ShutdownPolicy is the fate of a Sandbox whose time has come.
//
// +kubebuilder:validation:Enum=Delete;Retain
type ShutdownPolicy string

const (
	// ShutdownDelete removes the Sandbox and all it owns.
	ShutdownDelete ShutdownPolicy = "Delete"
	// ShutdownRetain removes the pod and keeps the Sandbox as a record.
	ShutdownRetain ShutdownPolicy = "Retain"
)

// An OperatingMode is the position of the switch.
//
// +kubebuilder:validation:Enum=Running;Suspended
type OperatingMode string

const (
	// Running wants a pod.
	Running OperatingMode = "Running"
	// Suspended wants none, and keeps the storage.
	Suspended OperatingMode = "Suspended"
)

// PodMetadata is the part of a pod's metadata that an author may write.
type PodMetadata struct {
	// labels are put on the pod.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on the pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A SandboxStatus is what is known of a sandbox.
type SandboxStatus struct {
	// serviceFQDN is the DNS name of the Service.
	// +optional
	ServiceFQDN string `json:"serviceFQDN,omitempty"`

	// service is the name of the Service.
	// +optional
	Service string `json:"service,omitempty"`

	// conditions say why; Ready is the one to read first.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`

	// selector is a label selector that finds the pod.
	// +optional
	Selector string `json:"selector,omitempty"`

	// podIPs are the addresses of the pod.
	// +optional
	// +listType=atomic
	PodIPs []string `json:"podIPs,omitempty"`

	// nodeName is the node that runs the pod.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
}
