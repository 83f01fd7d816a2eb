package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// A SandboxClaim is a request for one sandbox out of a warm pool.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sandboxclaims,singular=sandboxclaim,shortName=sandboxclaim,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.status.sandbox.name`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
type SandboxClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is asked for.
	// +required
	Spec SandboxClaimSpec `json:"spec"`

	// status is what was given.
	// +optional
	Status SandboxClaimStatus `json:"status,omitempty,omitzero"`
}

// A SandboxClaimList is several SandboxClaims.
//
// +kubebuilder:object:root=true
type SandboxClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxClaim `json:"items"`
}

// A SandboxClaimSpec is a pool to take from, and what to change about the sandbox.
type SandboxClaimSpec struct {
	// warmPoolRef names the pool to take a sandbox from.
	// +required
	WarmPoolRef WarmPoolRef `json:"warmPoolRef"`

	// lifecycle is when the claim ends, and how.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`

	// additionalPodMetadata is added to the metadata of the pod.
	// +optional
	AdditionalPodMetadata agents.PodMetadata `json:"additionalPodMetadata,omitempty,omitzero"`

	// env is environment variables for the containers. A pod that already runs
	// cannot take them, so a claim with env starts a sandbox of its own.
	// +optional
	// +listType=atomic
	Env []EnvVar `json:"env,omitempty"`

	// volumeClaimTemplates are claims for storage to add. They too start a
	// sandbox of the claim's own.
	// +optional
	// +listType=atomic
	VolumeClaimTemplates []agents.PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
}

// A WarmPoolRef is the name of a pool in the same namespace.
type WarmPoolRef struct {
	// name of the SandboxWarmPool.
	// +required
	Name string `json:"name"`
}

// A Lifecycle is the end of a claim.
type Lifecycle struct {
	// shutdownTime is the hour at which the claim ends.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`

	// ttlSecondsAfterFinished is how long a claim may outlive the work of its pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// shutdownPolicy is what happens to the claim when it ends.
	// +optional
	// +kubebuilder:default=Retain
	ShutdownPolicy ShutdownPolicy `json:"shutdownPolicy,omitempty"`
}

// A ShutdownPolicy is the fate of a claim whose time has come.
//
// +kubebuilder:validation:Enum=Delete;DeleteForeground;Retain
type ShutdownPolicy string

const (
	// ShutdownDelete removes the claim; its sandbox follows.
	ShutdownDelete ShutdownPolicy = "Delete"
	// ShutdownDeleteForeground removes the claim once its sandbox is gone.
	ShutdownDeleteForeground ShutdownPolicy = "DeleteForeground"
	// ShutdownRetain removes the sandbox and keeps the claim as a record.
	ShutdownRetain ShutdownPolicy = "Retain"
)

// An EnvVar is one environment variable with a plain value.
type EnvVar struct {
	// name of the variable.
	// +required
	Name string `json:"name"`

	// value of the variable.
	// +required
	Value string `json:"value"`

	// containerName is the container that gets it; unset means the first one.
	// +optional
	ContainerName string `json:"containerName,omitempty"`
}

// A State is the one word that says where a claim stands. The reason for it is
// in the conditions.
//
// +kubebuilder:validation:Enum=warming;binding;bound;stale
type State string

const (
	// StateWarming has no warm pod to take; its own sandbox is starting.
	StateWarming State = "warming"
	// StateBinding waits for a pod, or for a spec that can be served, or is
	// being handed its sandbox. A claim without a state is binding too.
	StateBinding State = "binding"
	// StateBound has its sandbox.
	StateBound State = "bound"
	// StateStale holds nothing any more: it expired, or its sandbox was lost.
	StateStale State = "stale"
)

// A SandboxClaimStatus is what a claim was given.
type SandboxClaimStatus struct {
	// state is one word: warming, its own sandbox is starting; binding, it waits
	// or is being handed a sandbox; bound, it has one; stale, it holds nothing
	// any more.
	// +optional
	State State `json:"state,omitempty"`

	// conditions say why; Ready is the one to read first.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []agents.Condition `json:"conditions,omitempty"`

	// sandbox is the sandbox that was given.
	// +optional
	SandboxStatus SandboxStatus `json:"sandbox,omitempty,omitzero"`

	// lifecycle is what the pool's claimDefaults gave a claim that had no lifecycle
	// of its own when it got its sandbox. It is copied once; spec.lifecycle always
	// wins.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`

	// startup is how long the claim took to be served.
	// +optional
	Startup StartupStatus `json:"startup,omitempty,omitzero"`

	// refusedSandboxes are the UIDs of sandboxes that were taken for the claim and
	// turned out to be of an older template. They are deleted; the list is empty
	// again once the claim has been given a sandbox.
	// +optional
	// +listType=atomic
	RefusedSandboxes []types.UID `json:"refusedSandboxes,omitempty"`
}

// A StartupStatus is the times of a claim's beginning. Each is written once, with a
// status that is written anyway. They have six decimals and no other number of them:
// clients decode nothing else.
type StartupStatus struct {
	// controllerObservedTime is when the controller first saw the claim.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	ControllerObservedTime *metav1.MicroTime `json:"controllerObservedTime,omitempty"`

	// firstReadyTime is when the claim was first told that it is Ready.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	FirstReadyTime *metav1.MicroTime `json:"firstReadyTime,omitempty"`
}

// A SandboxStatus is where to find the sandbox of a claim.
type SandboxStatus struct {
	// name of the Sandbox, in the namespace of the claim.
	// +optional
	Name string `json:"name,omitempty"`

	// uid of the Sandbox. Another one of the same name is not the claim's.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// podIPs are the addresses of its pod.
	// +optional
	// +listType=atomic
	PodIPs []string `json:"podIPs,omitempty"`
}
