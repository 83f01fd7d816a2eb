package states

import "time"

// A Decision is what one step does next: make a move, make a write that is no
// move, or rest. It always carries its reason, which the log, the condition and
// the test reuse. Effects follow from it; it causes none itself.
type Decision struct {
	// Act says what to do; the zero value rests.
	Act Act
	// Event names the edge, when Act is Move.
	Event Event
	// Reason says why, in words a person can read.
	Reason string
	// After asks for another look, when nothing else would wake the key; zero
	// means an event will.
	After time.Duration
}

// Rests reports whether nothing is left to do now.
func (d Decision) Rests() bool { return d.Act == Rest }

// An Act is the kind of thing a decision does.
type Act uint8

// The acts. Each but Rest and Check is exactly one write, or the pair of
// parallel writes that an adoption is.
const (
	// Rest does nothing.
	Rest Act = iota
	// Move writes an edge of the chart.
	Move
	// Report writes a status without an edge.
	Report
	// Note writes on a claim, for others to read, which sandbox it has.
	Note
	// Check asks the API server itself about something the watch may not have
	// seen yet.
	Check
	// Adopt takes the offered sandbox for the claim: the commit point.
	Adopt
	// Refuse writes on a claim that it will never be told of the sandbox it holds.
	Refuse
	// Create makes the missing child: the pod of a sandbox, or the claim's own
	// sandbox (a cold start).
	Create
	// Retire marks a sandbox as never to be handed out.
	Retire
	// Delete removes a retired sandbox.
	Delete
)

func (a Act) String() string {
	return [...]string{"rest", "move", "report", "note", "check", "adopt", "refuse", "create", "retire", "delete"}[a]
}

func rest(reason string) Decision              { return Decision{Reason: reason} }
func act(a Act, reason string) Decision        { return Decision{Act: a, Reason: reason} }
func move(event Event, why string) Decision    { return Decision{Act: Move, Event: event, Reason: why} }
func (d Decision) in(t time.Duration) Decision { d.After = t; return d }
