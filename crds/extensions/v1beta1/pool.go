package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// A SandboxWarmPool is a number of sandboxes kept ready for claims to take.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=sandboxwarmpools,singular=sandboxwarmpool,shortName=swp,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Warming",type=integer,JSONPath=`.status.warmingReplicas`
// +kubebuilder:printcolumn:name="Stale",type=integer,JSONPath=`.status.staleReplicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
type SandboxWarmPool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is how many sandboxes are wanted, and of what make.
	// +required
	Spec SandboxWarmPoolSpec `json:"spec"`

	// status is how many there are.
	// +optional
	Status SandboxWarmPoolStatus `json:"status,omitempty,omitzero"`
}

// A SandboxWarmPoolList is several SandboxWarmPools.
//
// +kubebuilder:object:root=true
type SandboxWarmPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SandboxWarmPool `json:"items"`
}

// A SandboxWarmPoolSpec is a number, a template, and the way to change templates.
type SandboxWarmPoolSpec struct {
	// replicas is how many sandboxes wait for a claim.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// sandboxTemplateRef names what the sandboxes are made from.
	// +required
	TemplateRef SandboxTemplateRef `json:"sandboxTemplateRef"`

	// updateStrategy is what happens to the sandboxes of an older template.
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty,omitzero"`

	// claimDefaults is what the pool's claims get that do not say otherwise.
	// +optional
	ClaimDefaults ClaimDefaults `json:"claimDefaults,omitempty,omitzero"`

	// readinessGracePeriodSeconds is how long a sandbox of this pool may be unready
	// before another one takes its place. Unset, the controller's own setting counts.
	// +optional
	// +kubebuilder:validation:Minimum=30
	ReadinessGracePeriodSeconds *int32 `json:"readinessGracePeriodSeconds,omitempty"`
}

// ClaimDefaults are what a pool gives to its claims.
type ClaimDefaults struct {
	// lifecycle is copied once into the status of a claim that has none of its own
	// when it gets its sandbox; a change of it later reaches only later claims. A
	// shutdownTime is an hour, and would be the same for all claims.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.shutdownTime)",message="shutdownTime cannot be a default: give ttlSecondsAfterFinished, or a shutdownTime in the claim"
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
}

// A SandboxTemplateRef is the name of a template in the same namespace.
type SandboxTemplateRef struct {
	// name of the SandboxTemplate.
	// +required
	Name string `json:"name"`
}

// An UpdateStrategy is the way a pool follows its template.
type UpdateStrategy struct {
	// type of the strategy.
	// +optional
	// +kubebuilder:default=OnReplenish
	Type UpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate is read when the type is RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// An UpdateStrategyType is one of three ways to follow a template.
//
// +kubebuilder:validation:Enum=Recreate;OnReplenish;RollingUpdate
type UpdateStrategyType string

const (
	// Recreate drops all older sandboxes at once.
	Recreate UpdateStrategyType = "Recreate"
	// OnReplenish keeps older sandboxes until claims have taken them.
	OnReplenish UpdateStrategyType = "OnReplenish"
	// Rolling drops older sandboxes as newer ones become ready.
	Rolling UpdateStrategyType = "RollingUpdate"
)

// A RollingUpdate is the pace of a rollout.
type RollingUpdate struct {
	// maxUnavailable is how many ready sandboxes may be missing meanwhile, as a
	// number or as a share of replicas.
	// +optional
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 2147483647)",message="must not be negative, nor above 2147483647"
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}%$`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many sandboxes may exist beyond replicas meanwhile, as a
	// number or as a share of replicas.
	// +optional
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 2147483647)",message="must not be negative, nor above 2147483647"
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}%$`
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// claimPolicy is which sandboxes a claim may take meanwhile.
	// +optional
	// +kubebuilder:default=Fresh
	ClaimPolicy ClaimPolicy `json:"claimPolicy,omitempty"`

	// progressDeadlineSeconds is how long a rollout may stand still before the
	// Progressing condition says so.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// paused holds the rollout where it is.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// A ClaimPolicy is what a claim may be given while a rollout is under way.
//
// +kubebuilder:validation:Enum=Fresh;Any
type ClaimPolicy string

const (
	// ClaimFresh gives sandboxes of the newest template only.
	ClaimFresh ClaimPolicy = "Fresh"
	// ClaimAny prefers the newest and falls back to older ones.
	ClaimAny ClaimPolicy = "Any"
)

// A SandboxWarmPoolStatus is the pool counted.
type SandboxWarmPoolStatus struct {
	// replicas is how many sandboxes the pool owns.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them a claim could take now.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is how many of them are of the newest template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// updatedReadyReplicas is how many are both updated and ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`

	// warmingReplicas is how many are still on their way to ready.
	// +optional
	WarmingReplicas int32 `json:"warmingReplicas"`

	// staleReplicas is how many are about to go.
	// +optional
	StaleReplicas int32 `json:"staleReplicas"`

	// currentRevision is the hash of the template the pool follows.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// observedTemplateGeneration is the generation of that template that these
	// numbers are about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedTemplateGeneration int64 `json:"observedTemplateGeneration,omitempty"`

	// rollout is how far the pool has come on its way to its spec and template.
	// +optional
	Rollout RolloutStatus `json:"rollout,omitempty,omitzero"`

	// selector is a label selector that finds the pods of the pool.
	// +optional
	Selector string `json:"selector,omitempty"`

	// observedGeneration is the generation of the spec these numbers are about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say why; Ready is the one to read first.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []agents.Condition `json:"conditions,omitempty"`
}

// A RolloutStatus is how far a pool's rollout has come. A controller that starts
// anew goes on from it.
type RolloutStatus struct {
	// phase is where the pool is on its way to its spec and template.
	// +optional
	// +kubebuilder:validation:Enum=Warming;Complete;ScalingDown;RollingOut;Paused;DeadlineExceeded
	Phase string `json:"phase,omitempty"`

	// completedRevision is the revision that all members have once been of, with
	// as many ready as shall be.
	// +optional
	CompletedRevision string `json:"completedRevision,omitempty"`

	// lastProgressTime is when the number of ready members of the current
	// revision last changed, or the rollout began. progressDeadlineSeconds counts
	// from it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
}
