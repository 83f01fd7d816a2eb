package states

import "time"

// A Decision is what one step does next. It is complete: it names what to write,
// what to ask or how long to wait, and why. The log line, the condition and the
// Event follow from its reason; nothing derives the reason a second time.
type Decision struct {
	// Act says what to do; the zero value rests.
	Act Act
	// About says what the act is about, beyond the object of the key itself.
	About About
	// Reason says why.
	Reason Reason
	// After asks for another look, when nothing else would wake the key; zero
	// means that an event will. Only a decision that ends a step has one.
	After time.Duration
}

// Ends reports whether the step is over with this decision.
func (d Decision) Ends() bool { return d.Act == Rest || d.Act == Wait || d.Act == Retry }

// An About is what an act is about. Each act reads its own part.
type About struct {
	// Event is the edge that a Move writes.
	Event Event
	// Part is which of the objects that belong to the key a Move, Create, Sync or
	// Delete is about. A Move of the object of the key itself says PartSelf.
	Part Part
	// Beside is an act to carry out at the same time: the proof of freshness that an
	// adoption must not wait for, or the annotations of a claim beside the hand-over.
	Beside Act
	// Plan is what a pool creates or retires.
	Plan *PoolPlan
	// Report is what a pool's status says.
	Report *PoolReport
}

// A Part is one of the objects that a key stands for.
type Part uint8

// The parts. A loop whose keys stand for one object says PartSelf, the zero value.
const (
	// PartSelf is the object of the key.
	PartSelf Part = iota
	// PartPod is a sandbox's pod.
	PartPod
	// PartService is a sandbox's Service.
	PartService
	// PartVolumes are a sandbox's claims for storage, one at a time.
	PartVolumes
	// PartSandbox is the sandbox of a claim.
	PartSandbox
	// PartPolicy is a template's NetworkPolicy.
	PartPolicy
)

// An Act is the kind of thing a decision does.
type Act uint8

// The acts. Rest, Wait and Retry end a step. Every other act is one effect: one
// write, one question to the API server, or one question to the shelf.
const (
	// Rest ends the step: nothing is left to do.
	Rest Act = iota
	// Wait ends the step and keeps what it has begun: a place in line, a sandbox
	// that is reserved for it.
	Wait
	// Retry ends the step; the key comes again with a back-off of its own.
	Retry

	// AskShelf asks the shelf: a claim for a sandbox, a pool and a sandbox for what
	// claims are taking at this moment.
	AskShelf
	// ReadPool asks the API server for a claim's pool.
	ReadPool
	// ReadTemplate asks the API server for the template of a pool.
	ReadTemplate
	// ReadSandbox asks the API server for the sandbox that a claim names.
	ReadSandbox
	// ReadClaim asks the API server for the claim that owns a sandbox.
	ReadClaim
	// ReadPod asks the API server for the pod that has a sandbox's name: the watch shows
	// none that lacks the label.
	ReadPod
	// ProveFresh asks the API server whether the view of pool and template is at
	// least as new as the claim.
	ProveFresh

	// Move writes an edge of a chart.
	Move
	// Report writes a status if it differs from what it should be.
	Report
	// Annotate has a claim annotated for those who look there. It waits for nothing.
	Annotate
	// Adopt makes a claim the owner of the sandbox that the shelf gave it: the commit
	// point. An orphan is adopted by its pool.
	Adopt
	// Refuse writes on a claim that it will never have the sandbox it owns.
	Refuse
	// Create makes what is missing: what a sandbox owns, a claim's own sandbox (a
	// cold start), the members of a pool.
	Create
	// Sync brings the metadata or the spec of an object in line.
	Sync
	// Retire marks a sandbox as never to be handed out.
	Retire
	// Delete removes a retired sandbox, or what nobody shall have any more.
	Delete
	// Label puts the label on a template that its pods are selected by.
	Label
)

// String is the act's name in logs and tests.
func (a Act) String() string {
	return [...]string{
		"rest", "wait", "retry", "ask-shelf", "read-pool", "read-template", "read-sandbox", "read-claim", "prove-fresh",
		"move", "report", "annotate", "adopt", "refuse", "create", "sync", "retire", "delete", "label",
	}[a]
}

func act(a Act, why Reason) Decision { return Decision{Act: a, Reason: why} }
func rest(why Reason) Decision       { return act(Rest, why) }
func move(e Event, why Reason) Decision {
	return Decision{Act: Move, About: About{Event: e}, Reason: why}
}
func part(a Act, p Part, why Reason) Decision {
	return Decision{Act: a, About: About{Part: p}, Reason: why}
}
func (d Decision) in(t time.Duration) Decision { d.After = t; return d }
