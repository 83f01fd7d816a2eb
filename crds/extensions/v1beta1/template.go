package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// A SandboxTemplate is what the sandboxes of a pool are made from, and what a
// claim may change about them.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=sandboxtemplates,singular=sandboxtemplate,shortName=sandboxtemplate,scope=Namespaced
type SandboxTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the blueprint and the rules about it.
	// +required
	Spec SandboxTemplateSpec `json:"spec"`
}

// A SandboxTemplateList is several SandboxTemplates.
//
// +kubebuilder:object:root=true
type SandboxTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxTemplate `json:"items"`
}

// A SandboxTemplateSpec is a blueprint with the rules for those who use it.
type SandboxTemplateSpec struct {
	// podTemplate is the pod of every sandbox made from this template.
	// +required
	PodTemplate agents.PodTemplate `json:"podTemplate"`

	// volumeClaimTemplates are claims for storage made with every sandbox.
	// +optional
	// +listType=atomic
	VolumeClaimTemplates []agents.PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// service asks for a headless Service in front of every sandbox.
	// +optional
	Service *bool `json:"service,omitempty"`

	// networkPolicy is who may talk to the sandboxes, and to whom they may talk.
	// Unset closes the door to all but the router, and the way to private addresses.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`

	// networkPolicyManagement is who keeps the NetworkPolicy of this template.
	// +optional
	// +kubebuilder:default=Managed
	NetworkPolicyManagement NetworkPolicyManagement `json:"networkPolicyManagement,omitempty"`

	// envVarsInjectionPolicy is what a claim may do to environment variables.
	// +optional
	// +kubebuilder:default=Disallowed
	EnvVarsInjectionPolicy EnvVarsInjectionPolicy `json:"envVarsInjectionPolicy,omitempty"`

	// volumeClaimTemplatesPolicy is what a claim may do to volume claim templates.
	// +optional
	// +kubebuilder:default=Disallowed
	VolumeClaimTemplatesPolicy VolumeClaimTemplatesPolicy `json:"volumeClaimTemplatesPolicy,omitempty"`
}

// A NetworkPolicyManagement is the keeper of a template's NetworkPolicy.
//
// +kubebuilder:validation:Enum=Managed;Unmanaged
type NetworkPolicyManagement string

const (
	// NetworkPolicyManaged has the controller make and mend the policy.
	NetworkPolicyManaged NetworkPolicyManagement = "Managed"
	// NetworkPolicyUnmanaged leaves the network to someone else.
	NetworkPolicyUnmanaged NetworkPolicyManagement = "Unmanaged"
)

// An EnvVarsInjectionPolicy is how far a claim may go with environment variables.
//
// +kubebuilder:validation:Enum=Allowed;Overrides;Disallowed
type EnvVarsInjectionPolicy string

const (
	// EnvVarsAllowed lets a claim add variables under names not yet taken.
	EnvVarsAllowed EnvVarsInjectionPolicy = "Allowed"
	// EnvVarsOverrides lets a claim replace variables as well.
	EnvVarsOverrides EnvVarsInjectionPolicy = "Overrides"
	// EnvVarsDisallowed refuses a claim that brings any.
	EnvVarsDisallowed EnvVarsInjectionPolicy = "Disallowed"
)

// A VolumeClaimTemplatesPolicy is how far a claim may go with storage.
//
// +kubebuilder:validation:Enum=Disallowed;Allowed;Overrides
type VolumeClaimTemplatesPolicy string

const (
	// VolumeClaimTemplatesDisallowed refuses a claim that brings any.
	VolumeClaimTemplatesDisallowed VolumeClaimTemplatesPolicy = "Disallowed"
	// VolumeClaimTemplatesAllowed lets a claim add templates under names not yet taken, by
	// a template or by a volume of the pod.
	VolumeClaimTemplatesAllowed VolumeClaimTemplatesPolicy = "Allowed"
	// VolumeClaimTemplatesOverrides lets a claim replace templates and volumes as well.
	VolumeClaimTemplatesOverrides VolumeClaimTemplatesPolicy = "Overrides"
)
