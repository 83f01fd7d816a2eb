package states

// A State is the one word that says where a pod or a claim stands. A pod
// carries it in the label agents.x-k8s.io/state, a claim in status.state.
type State string

// The five words. Reasons and messages belong in conditions, never here.
const (
	// Warming is a pod that exists and is not Ready yet, or a claim whose own
	// sandbox is starting because there was no warm one to take.
	Warming State = "warming"
	// Ready is a pod that is Ready, owned by a pool and free to take.
	Ready State = "ready"
	// Binding is a pod whose sandbox has been taken and is being handed over,
	// or a claim that waits or is being handed its sandbox. A claim that has no
	// state yet is Binding too.
	Binding State = "binding"
	// Bound is a pod that belongs to a claim (or to a sandbox a user made), or
	// a claim that has its sandbox.
	Bound State = "bound"
	// Stale is a pod that will never be handed out and is about to be deleted,
	// or a claim that holds nothing any more.
	Stale State = "stale"
)

// An Event is the verb that names an edge, in the past tense of the story:
// warmed, reserved, confirmed. Log lines, metrics and tests use the same verb.
type Event string

// The events of pods.
const (
	Warmed    Event = "warmed"
	Handed    Event = "handed"
	Retired   Event = "retired"
	Cooled    Event = "cooled"
	Reserved  Event = "reserved"
	Confirmed Event = "confirmed"
	Released  Event = "released"
)

// The events of claims.
const (
	ClaimBound   Event = "bound"
	ClaimCold    Event = "coldstart"
	ClaimExpired Event = "expired"
	ClaimLost    Event = "lost"
)

// A Manager is the name of a field manager: who writes, as the API server
// records it. Two managers never own the same field of an object.
type Manager string

// The field managers. What each may write is declared in package apply.
const (
	Owner    Manager = "kiln-owner"
	Status   Manager = "kiln-status"
	Birth    Manager = "kiln-pod"
	Marker   Manager = "kiln-state"
	Claimant Manager = "kiln-claim"
	Pooler   Manager = "kiln-pool"
	Templer  Manager = "kiln-template"
)
