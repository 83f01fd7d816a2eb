package states

// A State is the one word that says where a pod or a claim stands. A pod
// carries it in the label agents.x-k8s.io/state, a claim in status.state.
type State string

// The five states. Reasons and messages belong in conditions, never here.
const (
	// Warming is a pod that exists and is not Ready yet, or a claim whose own
	// sandbox is starting because there was no warm one to take.
	Warming State = "warming"
	// Ready is a pod that is Ready, owned by a pool and free to take.
	Ready State = "ready"
	// Binding is a pod whose sandbox has been taken by a claim that does not know
	// yet, or a claim that waits or is being handed its sandbox. A claim that has
	// no state yet is Binding too.
	Binding State = "binding"
	// Bound is a pod that belongs to a claim (or to a sandbox a user made), or
	// a claim that has its sandbox.
	Bound State = "bound"
	// Stale is a pod that will never be handed out and is about to be deleted,
	// or a claim that holds nothing any more.
	Stale State = "stale"
)

// An Event is the verb that names an edge, in the past tense of the story.
// Log lines, metrics and tests use the same verb.
type Event string

// The events of pods.
const (
	EventWarmed   Event = "warmed"
	EventCooled   Event = "cooled"
	EventRetired  Event = "retired"
	EventReserved Event = "reserved"
	EventHanded   Event = "handed"
	EventReleased Event = "released"
)

// The events of claims.
const (
	EventBound     Event = "bound"
	EventColdStart Event = "coldstart"
	EventExpired   Event = "expired"
	EventLost      Event = "lost"
)

// A Manager is the name of a field manager: who writes, as the API server
// records it. Two managers never own the same field of an object.
type Manager string

// The field managers. What each may write is declared in package apply.
const (
	OwnerManager    Manager = "kiln-owner"
	StatusManager   Manager = "kiln-status"
	PodManager      Manager = "kiln-pod"
	StateManager    Manager = "kiln-state"
	ClaimManager    Manager = "kiln-claim"
	PoolManager     Manager = "kiln-pool"
	TemplateManager Manager = "kiln-template"
)
