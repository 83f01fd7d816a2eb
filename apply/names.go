package apply

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// The keys of labels and annotations, as the users of the agent-sandbox API know
// them. Those marked ours are Kiln's own.
const (
	LabelState           = "agents.x-k8s.io/state" // ours
	LabelNameHash        = "agents.x-k8s.io/sandbox-name-hash"
	LabelPool            = "agents.x-k8s.io/warm-pool-sandbox"
	LabelTemplate        = "agents.x-k8s.io/sandbox-template-ref-hash"
	LabelBlueprintHash   = "agents.x-k8s.io/sandbox-template-hash"
	LabelPodTemplateHash = "agents.x-k8s.io/sandbox-pod-template-hash"
	LabelRevision        = "agents.x-k8s.io/revision" // ours
	LabelClaimUID        = "agents.x-k8s.io/claim-uid"
	LabelLaunch          = "agents.x-k8s.io/launch-type"
	LabelCreatedBy       = "agents.x-k8s.io/created-by"
	LabelAdoptable       = "agents.x-k8s.io/adoptable"

	AnnotationPodName        = "agents.x-k8s.io/pod-name"
	AnnotationTemplate       = "agents.x-k8s.io/sandbox-template-ref"
	AnnotationSandboxName    = "agents.x-k8s.io/sandbox-name"
	AnnotationRetired        = "agents.x-k8s.io/retired"              // ours
	AnnotationPoolUID        = "agents.x-k8s.io/warm-pool-uid"        // ours, on a pod: the pool it was made for
	AnnotationTemplateUID    = "agents.x-k8s.io/sandbox-template-uid" // ours, on a NetworkPolicy: the template it was last written for
	AnnotationPolicy         = "agents.x-k8s.io/network-policy"       // ours, on a sandbox: its pod needs this NetworkPolicy
	AnnotationClaimKeys      = "agents.x-k8s.io/claim-keys"           // ours, on a sandbox: see ClaimMetadata
	AnnotationFirstObserved  = "agents.x-k8s.io/controller-first-observed-at"
	AnnotationFirstReady     = "agents.x-k8s.io/claim-first-ready-at"
	AnnotationSafeToEvict    = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	AnnotationRollOnMetadata = "agents.x-k8s.io/roll-on-metadata" // ours, on a pool
	AnnotationLabels         = "agents.x-k8s.io/propagated-labels"
	AnnotationAnnotations    = "agents.x-k8s.io/propagated-annotations"
	annotationRestated       = "agents.x-k8s.io/restated-keys" // ours, on a pod: see podMetadata
	AnnotationTrace          = "opentelemetry.io/trace-context"
)

// The launch types.
const (
	LaunchCold = "cold"
	LaunchWarm = "warm"
)

// Hash is the short hash the API puts into labels: FNV-1a, 32 bits, eight hex
// digits.
func Hash(s string) string {
	h := fnv.New32a()
	h.Write([]byte(s)) // never fails
	return fmt.Sprintf("%08x", h.Sum32())
}

// reserved reports whether a key belongs to the API or to Kiln; such keys are
// never copied from a template or a claim to a pod.
func reserved(key string) bool {
	return strings.HasPrefix(key, "agents.x-k8s.io/") ||
		strings.HasPrefix(key, "extensions.agents.x-k8s.io/") || key == AnnotationTrace
}

// Creator normalises who made something to the values the metrics know.
func Creator(value string) string {
	switch value {
	case "go-client", "python-client", "controller":
		return value
	}
	return "unknown"
}
