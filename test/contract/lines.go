// Package contract lists what users of the API see and rely on, string by string, and
// proves that each has a test on a real API server that produces it. TABLE.md maps
// one to the other; it is generated.
package contract

import "slices"

// A Line is one thing of the contract.
type Line struct {
	// What it is about: a condition of a kind, an Event, a label.
	What string
	// Texts are the exact strings that its test compares, all of them.
	Texts []string
	// Never is a reason that Kiln does not give, because what it tells of cannot happen:
	// Why says so. Its test compares what is said instead, and that this is not.
	Never, Why string
}

// Lines is the contract.
var Lines = slices.Concat(
	conditions("Sandbox",
		says{"Suspended", "NotSuspended", "Sandbox is not suspended"},
		says{"Suspended", "PodTerminated", "Pod has been terminated. Sandbox is suspended"},
		says{"Suspended", "PodTerminating", "Pod is terminating. Sandbox is suspending"},
		says{"Suspended", "PodNotOwned", "Refused to delete pod because it is not owned by this sandbox"},
		says{"Suspended", "PodStateUnknown", "Pod state is unknown. Sandbox suspension cannot be confirmed"},
		says{"PodScheduled", "PodSchedulingUnknown", "Pod state is unknown. Pod scheduling cannot be determined"},
		says{"PodScheduled", "PodSchedulingUnknown", "Pod has not reported a PodScheduled condition yet"},
		says{"Finished", "PodSucceeded", "Pod completed successfully"},
		says{"Finished", "PodFailed", "Pod failed"},
		says{"Ready", "DependenciesReady", "Pod is Ready"},
		says{"Ready", "DependenciesReady", "Pod is Ready; Service Exists"},
		says{"Ready", "DependenciesNotReady", "Pod is Ready; Service does not exist"},
		says{"Ready", "DependenciesNotReady", "Pod is Ready but has no podIPs yet"},
		says{"Ready", "DependenciesNotReady", "Pod is Running but not Ready"},
		says{"Ready", "DependenciesNotReady", "Pod exists with phase: Pending"},
		says{"Ready", "DependenciesNotReady", "Pod does not exist"},
		says{"Ready", "SandboxSuspended", "Sandbox is suspending"},
		says{"Ready", "SandboxSuspended", "Sandbox is suspended"},
		says{"Ready", "PodSucceeded", ""},
		says{"Ready", "PodFailed", ""},
		says{"Ready", "MultiplePods", "multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"},
		says{"Ready", "ReconcilerError", "Error seen: "},
		says{"Ready", "ReconcilerError", "cannot adopt unowned PVC"},
		says{"Ready", "ReconcilerError", `PVC "data-s" is owned by `},
		says{"Ready", "ReconcilerError", `pod "s" is owned by `},
		says{"Ready", "SandboxExpired", "Sandbox has expired"},
		says{"Ready", "InvalidConfiguration", ""},
	),
	conditions("SandboxClaim",
		says{"Ready", "DependenciesReady", "Pod is Ready"},
		says{"Ready", "TemplateNotFound", `SandboxTemplate "none" not found`},
		says{"Ready", "WarmPoolNotFound", `SandboxWarmPool "none" not found`},
		says{"Ready", "InvalidMetadata", ""},
		says{"Ready", "EnvVarsInjectionRejected", ""},
		says{"Ready", "VolumeClaimTemplatesError", "failed to merge volume claim templates: "},
		says{"Ready", "ClaimExpired", "Claim expired. Sandbox cleanup initiated."},
		says{"Ready", "ClaimExpired", "Claim expired. sandbox not owned by this claim: "},
		says{"Ready", "SandboxExpired", "Underlying Sandbox resource has expired independently of the Claim."},
		says{"Ready", "SandboxNotReady", "Sandbox is not ready"},
		says{"Ready", "SandboxLost", ""},
		says{"Ready", "ReconcilerError", "Error seen: "},
		says{"Finished", "PodSucceeded", "Pod completed successfully"},
	),
	[]Line{
		{"SandboxClaim condition Ready", []string{"SandboxLost"}, "SandboxMissing",
			"a claim that waits says for what; one whose sandbox was deleted has lost it, and never silently gets another"},
		{"SandboxClaim condition Ready", []string{"SandboxNotReady", "Sandbox is not ready"}, "SandboxCreatePending",
			"what has the name is read from the API server at once, so there is no cache to wait for"},
		{"SandboxClaim condition Ready", []string{"DependenciesReady", "Pod is Ready"}, "AdoptionConflict",
			"a claim names no sandbox before it has it, so one that it lost to another was never its own: it takes the next"},
	},
	messages("SandboxClaim",
		"environment variable override is not allowed by the template policy for variable",
		"not found in template for environment variable",
		"metadata override conflict: ",
		"volume claim templates are disallowed by the template",
		"overriding volume claim templates is forbidden by the template",
		"invalid volume claim templates",
	),
	events("Sandbox",
		"MultiplePods", "SandboxPodCreated", "SandboxPodCreateFailed", "SandboxReady", "SandboxSuspended", "SandboxExpired",
		"PodSucceeded", "PodFailed"),
	actions("SandboxClaim",
		says{"SandboxAdopted", "Adoption", "Adopted warm pool Sandbox"},
		says{"SandboxProvisioned", "Provisioning", "Created Sandbox"},
		says{"ClaimExpired", "Claim Expired", "Claim expired"},
		says{"ClaimExpired", "Deleting", "Deleting Claim (ShutdownPolicy=Delete)"},
	),
	actions("SandboxWarmPool",
		says{"WarmPoolNotProgressing", "Reconciling", ""},
		says{"WarmPoolProgressing", "Reconciling", "Warm pool is progressing again"},
	),
	named("label",
		"agents.x-k8s.io/sandbox-name-hash",
		"agents.x-k8s.io/launch-type",
		"agents.x-k8s.io/created-by",
		"agents.x-k8s.io/sandbox-template-hash",
		"agents.x-k8s.io/sandbox-pod-template-hash",
		"agents.x-k8s.io/sandbox-template-ref-hash",
		"agents.x-k8s.io/warm-pool-sandbox",
		"agents.x-k8s.io/claim-uid",
		"agents.x-k8s.io/adoptable",
	),
	named("annotation",
		"agents.x-k8s.io/pod-name",
		"agents.x-k8s.io/sandbox-template-ref",
		"agents.x-k8s.io/sandbox-name",
		"agents.x-k8s.io/propagated-labels",
		"agents.x-k8s.io/propagated-annotations",
		"agents.x-k8s.io/controller-first-observed-at",
		"agents.x-k8s.io/claim-first-ready-at",
		"agents.x-k8s.io/client-first-requested-at",
		"agents.x-k8s.io/webhook-first-observed-at",
		"opentelemetry.io/trace-context",
		"cluster-autoscaler.kubernetes.io/safe-to-evict",
	),
	named("metric",
		"agent_sandbox_claim_startup_latency_ms",
		"agent_sandbox_claim_controller_startup_latency_ms",
		"agent_sandbox_client_claim_startup_latency_ms",
		"agent_sandbox_creation_latency_ms",
		"agent_sandbox_claim_creation_total",
		"agent_sandboxes",
		"agent_sandbox_build_info",
	),
)

// says is what a condition or an Event says: its type or reason, its reason or
// action, and its message, of which only the part counts that is always the same.
type says [3]string

func conditions(kind string, all ...says) (lines []Line) {
	for _, s := range all {
		lines = append(lines, Line{What: kind + " condition " + s[0], Texts: given(s[1:]...)})
	}
	return lines
}

func actions(kind string, all ...says) (lines []Line) {
	for _, s := range all {
		lines = append(lines, Line{What: kind + " Event", Texts: given(s[:]...)})
	}
	return lines
}

func events(kind string, reasons ...string) (lines []Line) {
	for _, r := range reasons {
		lines = append(lines, Line{What: kind + " Event", Texts: []string{r}})
	}
	return lines
}

func messages(kind string, all ...string) []Line { return named(kind+" message", all...) }

func named(what string, all ...string) (lines []Line) {
	for _, s := range all {
		lines = append(lines, Line{What: what, Texts: []string{s}})
	}
	return lines
}

// given leaves out what is empty.
func given(all ...string) (texts []string) {
	for _, t := range all {
		if t != "" {
			texts = append(texts, t)
		}
	}
	return texts
}
