package states

// A Reason is the code of why something was decided. It is what the log line says,
// and the key of the tables from which conditions and Events are worded.
type Reason string

// Reasons that every kind has.
const (
	// ReasonGone: there is no such object.
	ReasonGone Reason = "Gone"
	// ReasonTerminating: it is being deleted, or what it belongs to is; the garbage
	// collector does the rest.
	ReasonTerminating Reason = "Terminating"
	// ReasonWatchBehind: the API server has something that the watch does not show
	// yet; an event will.
	ReasonWatchBehind Reason = "WatchBehind"
	// ReasonFailed: an effect failed in a way that another try may mend.
	ReasonFailed Reason = "Failed"
	// ReasonExpired: its time is over.
	ReasonExpired Reason = "Expired"
)

// Reasons of claims.
const (
	// ReasonStale: the claim holds nothing any more.
	ReasonStale Reason = "Stale"
	// ReasonExpiredForeign: its lifetime is over, and the sandbox of its name is
	// somebody else's.
	ReasonExpiredForeign Reason = "ExpiredForeign"
	// ReasonExpiredGoes: its lifetime is over, and it is deleted with all it owns.
	ReasonExpiredGoes Reason = "ExpiredGoes"
	// ReasonEnded: its status said that its lifetime was over before this controller
	// saw it.
	ReasonEnded Reason = "Ended"
	// ReasonMislabelled: labels or annotations of ours are not as they should be.
	ReasonMislabelled Reason = "Mislabelled"
	// ReasonAdopted: it has a sandbox of its pool.
	ReasonAdopted Reason = "Adopted"
	// ReasonOwnStarting: its own sandbox was created and is starting.
	ReasonOwnStarting Reason = "OwnSandboxStarting"
	// ReasonOwnReady: the sandbox that was made for it became Ready.
	ReasonOwnReady Reason = "OwnSandboxReady"
	// ReasonHolds: it has its sandbox, and its status follows that.
	ReasonHolds Reason = "HoldsSandbox"
	// ReasonAnnotations: its annotations do not name the sandbox it holds.
	ReasonAnnotations Reason = "AnnotationsDiffer"
	// ReasonOutdated: the sandbox is of an older template than the claim, or the
	// pool, may have.
	ReasonOutdated Reason = "Outdated"
	// ReasonFreshnessUnknown: the watches may be behind the claim.
	ReasonFreshnessUnknown Reason = "FreshnessUnknown"
	// ReasonSandboxUnseen: the watch does not show the sandbox that it names.
	ReasonSandboxUnseen Reason = "SandboxUnseen"
	// ReasonSandboxLost: the sandbox that it names is gone.
	ReasonSandboxLost Reason = "SandboxLost"
	// ReasonPoolUnseen: the watch does not show its pool.
	ReasonPoolUnseen Reason = "PoolUnseen"
	// ReasonPoolMissing: its pool does not exist.
	ReasonPoolMissing Reason = "PoolMissing"
	// ReasonNoSandbox: it has no sandbox and has not asked for one.
	ReasonNoSandbox Reason = "NoSandbox"
	// ReasonWarmFree: a warm sandbox is free, and the claim's to adopt.
	ReasonWarmFree Reason = "WarmSandboxFree"
	// ReasonInLine: a warm sandbox is starting, and the claim is in line for it.
	ReasonInLine Reason = "InLine"
	// ReasonNoneWarm: there is no warm sandbox to wait for.
	ReasonNoneWarm Reason = "NoneWarm"
)

// Reasons why a claim's spec cannot be served, or its own sandbox cannot be made.
const (
	// ReasonInvalidMetadata: additionalPodMetadata breaks a rule.
	ReasonInvalidMetadata Reason = "InvalidMetadata"
	// ReasonEnvRejected: the template does not allow the environment variables.
	ReasonEnvRejected Reason = "EnvRejected"
	// ReasonEnvInvalid: the environment variables do not fit the template.
	ReasonEnvInvalid Reason = "EnvInvalid"
	// ReasonVolumesRejected: the template does not allow the volume claims.
	ReasonVolumesRejected Reason = "VolumesRejected"
	// ReasonNameTaken: a sandbox of the claim's name is somebody else's.
	ReasonNameTaken Reason = "NameTaken"
	// ReasonCreateRefused: the API server refuses the claim's own sandbox.
	ReasonCreateRefused Reason = "CreateRefused"
	// ReasonHandoverRefused: the API server refuses that the pod becomes the claim's.
	ReasonHandoverRefused Reason = "HandoverRefused"
)

// Reasons of templates, for all that is made from them.
const (
	// ReasonTemplateUnseen: the watch does not show the template.
	ReasonTemplateUnseen Reason = "TemplateUnseen"
	// ReasonTemplateMissing: the template does not exist.
	ReasonTemplateMissing Reason = "TemplateMissing"
	// ReasonTemplateUnreadable: the API server cannot say whether it exists.
	ReasonTemplateUnreadable Reason = "TemplateUnreadable"
	// ReasonTemplateInvalid: no sandbox can be made from it.
	ReasonTemplateInvalid Reason = "TemplateInvalid"
	// ReasonUnlabelled: it lacks the label that its pods are selected by.
	ReasonUnlabelled Reason = "Unlabelled"
	// ReasonLabelled: it has its label.
	ReasonLabelled Reason = "Labelled"
)

// Reasons of templates' NetworkPolicies.
const (
	// ReasonPolicyMissing: the template shall have one, and has none.
	ReasonPolicyMissing Reason = "PolicyMissing"
	// ReasonPolicyDrifted: it is not as the template wants it.
	ReasonPolicyDrifted Reason = "PolicyDrifted"
	// ReasonPolicyCurrent: nothing is wrong with it.
	ReasonPolicyCurrent Reason = "PolicyCurrent"
	// ReasonPolicyUnwanted: the template shall have none.
	ReasonPolicyUnwanted Reason = "PolicyUnwanted"
	// ReasonPolicyUsed: the template is gone, and sandboxes made from it are not.
	ReasonPolicyUsed Reason = "PolicyUsed"
	// ReasonPolicyUnused: the template is gone, and all that was made from it.
	ReasonPolicyUnused Reason = "PolicyUnused"
	// ReasonPolicyForeign: a policy of its name is somebody else's.
	ReasonPolicyForeign Reason = "PolicyForeign"
	// ReasonPolicyInvalid: none can be made from the template's rules.
	ReasonPolicyInvalid Reason = "PolicyInvalid"
	// ReasonPolicyRefused: the API server refuses it.
	ReasonPolicyRefused Reason = "PolicyRefused"
	// ReasonUnprotected: a pod would run without the policy of its template.
	ReasonUnprotected Reason = "Unprotected"
)

// Reasons of sandboxes: how ready one is, and what keeps it from being so.
const (
	// ReasonPodMissing: it has no pod.
	ReasonPodMissing Reason = "PodMissing"
	// ReasonPodsEnd: its pods vanish as fast as they are made.
	ReasonPodsEnd Reason = "PodsEnd"
	// ReasonPodProblem: its pod cannot be made as things stand.
	ReasonPodProblem Reason = "PodProblem"
	// ReasonPodForeign: a pod of its name is somebody else's.
	ReasonPodForeign Reason = "PodForeign"
	// ReasonPodMultiple: several pods name it as their controller.
	ReasonPodMultiple Reason = "PodMultiple"
	// ReasonPodPending: its pod exists and does not run yet.
	ReasonPodPending Reason = "PodPending"
	// ReasonPodUnready: its pod runs and is not Ready.
	ReasonPodUnready Reason = "PodUnready"
	// ReasonPodNoAddress: its pod is Ready and has no address.
	ReasonPodNoAddress Reason = "PodNoAddress"
	// ReasonPodReady: its pod runs, is Ready and has an address.
	ReasonPodReady Reason = "PodReady"
	// ReasonPodTerminating: its pod is being deleted.
	ReasonPodTerminating Reason = "PodTerminating"
	// ReasonPodSucceeded: its pod ended well.
	ReasonPodSucceeded Reason = "PodSucceeded"
	// ReasonPodFailed: its pod ended badly.
	ReasonPodFailed Reason = "PodFailed"
	// ReasonServiceMissing: its pod is Ready, and its Service does not exist.
	ReasonServiceMissing Reason = "ServiceMissing"
	// ReasonInvalid: the API server will never accept what it asks for.
	ReasonInvalid Reason = "Invalid"
	// ReasonSuspending: it is suspended, and a pod is still in its place.
	ReasonSuspending Reason = "Suspending"
	// ReasonSuspended: it is suspended, and has no pod.
	ReasonSuspended Reason = "Suspended"
	// ReasonPodAdoptable: a pod of its name is nobody's, and says that it may be
	// adopted.
	ReasonPodAdoptable Reason = "PodAdoptable"
	// ReasonMetadataDiffers: its pod's labels or annotations are not what they should
	// be.
	ReasonMetadataDiffers Reason = "MetadataDiffers"
	// ReasonVolumesDiffer: claims for storage are missing, or not its own yet.
	ReasonVolumesDiffer Reason = "VolumesDiffer"
	// ReasonServiceDiffers: its Service is missing, is not as it should be, or should
	// not be.
	ReasonServiceDiffers Reason = "ServiceDiffers"

	// ReasonOrphaned: its pool has left it behind, and there is another of the name.
	ReasonOrphaned Reason = "Orphaned"
	// ReasonPodUnseen: the watch shows no pod, and one of somebody else's may have its name.
	ReasonPodUnseen Reason = "PodUnseen"
	// ReasonClaimUnseen: the watch does not show its claim.
	ReasonClaimUnseen Reason = "ClaimUnseen"
	// ReasonClaimEnded: its claim holds nothing any more, and deletes it.
	ReasonClaimEnded Reason = "ClaimEnded"
	// ReasonClaimGone: its claim has vanished.
	ReasonClaimGone Reason = "ClaimGone"
	// ReasonClaimElsewhere: its claim has another sandbox, or has refused this one.
	ReasonClaimElsewhere Reason = "ClaimElsewhere"
	// ReasonClaimKnows: its claim's status names it and says bound.
	ReasonClaimKnows Reason = "ClaimKnows"
	// ReasonClaimUnaware: its adoption ended before its pod was handed over.
	ReasonClaimUnaware Reason = "ClaimUnaware"
	// ReasonLoanUnknown: nobody has asked the shelf whether the adoption is still
	// under way.
	ReasonLoanUnknown Reason = "LoanUnknown"
	// ReasonAdopting: the adoption is under way, and the claim's step hands the pod over.
	ReasonAdopting Reason = "Adopting"
	// ReasonUsers: it is Ready, and a user made it.
	ReasonUsers Reason = "MadeByUser"
	// ReasonFree: it is Ready and free, in a pool.
	ReasonFree Reason = "Free"
	// ReasonCooled: it lost its readiness in the pool.
	ReasonCooled Reason = "ReadinessLost"
	// ReasonRetired: it was retired.
	ReasonRetired Reason = "Retired"
)

// Reasons of pools. Surplus, Outdated and Stuck are the reasons for which a member
// is retired.
const (
	// ReasonSurplus: the pool has more members than it shall have, or the claim
	// another sandbox.
	ReasonSurplus Reason = "Surplus"
	// ReasonStuck: the member will not become ready by itself.
	ReasonStuck Reason = "Stuck"
	// ReasonMembersMissing: the pool has fewer members than it shall have.
	ReasonMembersMissing Reason = "MembersMissing"
	// ReasonMembersLeave: the plan names members that the pool gives up.
	ReasonMembersLeave Reason = "MembersLeave"
	// ReasonMembersRefused: the API server refuses new members.
	ReasonMembersRefused Reason = "MembersRefused"
	// ReasonAdoptionRefused: the API server refuses that a member is handed out.
	ReasonAdoptionRefused Reason = "AdoptionRefused"
	// ReasonPodsRefused: the API server refuses the pods of members.
	ReasonPodsRefused Reason = "PodsRefused"
	// ReasonMembersEnd: members end as fast as they are made.
	ReasonMembersEnd Reason = "MembersEnd"
	// ReasonSuperseded: members are being made, or given up, that were decided on an
	// older spec or template.
	ReasonSuperseded Reason = "Superseded"
	// ReasonUnschedulable: no node has room for some members.
	ReasonUnschedulable Reason = "Unschedulable"
	// ReasonMembersUnready: a member is not ready and may become so.
	ReasonMembersUnready Reason = "MembersUnready"
	// ReasonAsPlanned: the pool is as it shall be; nothing is in the way.
	ReasonAsPlanned Reason = "AsPlanned"
	// ReasonMembersReady: as many members are ready as shall be.
	ReasonMembersReady Reason = "MembersReady"
)
