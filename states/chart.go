package states

import (
	"context"
	"fmt"
	"slices"

	"github.com/looplab/fsm"
)

// An Edge is one legal move.
type Edge struct {
	From  State
	Event Event
	To    State
	// By is the field manager that writes the edge.
	By Manager
	// When says, for people, what must be true first.
	When string
}

// A Chart is the state machine of one kind: where an object starts and every
// move it may make. Charts are values; nothing changes them.
type Chart struct {
	// Kind is the lower-case name used in logs, metrics and pictures.
	Kind string
	// Initial is the state of an object that carries no known one yet.
	Initial State
	// Order lists the states that the chart may use, in the order of the story.
	Order []State
	Edges []Edge
}

// Pod is the chart of pods.
var Pod = Chart{
	Kind: "pod", Initial: Warming, Order: fiveStates,
	Edges: []Edge{
		{Warming, EventWarmed, Ready, StateManager, "Ready, owned by a pool, its sandbox not retired"},
		{Ready, EventCooled, Warming, StateManager, "lost readiness while in the pool"},
		{Warming, EventRetired, Stale, StateManager, "its sandbox was retired"},
		{Ready, EventRetired, Stale, StateManager, "its sandbox was retired"},
		{Warming, EventReserved, Binding, StateManager, "its sandbox was adopted, and the claim's step ended before the hand-over"},
		{Ready, EventReserved, Binding, StateManager, "its sandbox was adopted, and the claim's step ended before the hand-over"},
		{Warming, EventHanded, Bound, StateManager, "its claim adopted its sandbox and is told next, or it is Ready in a sandbox that was made for its claim or by a user"},
		{Ready, EventHanded, Bound, StateManager, "its claim adopted its sandbox and is told next"},
		{Binding, EventHanded, Bound, StateManager, "its claim adopted its sandbox and is told next"},
		{Binding, EventReleased, Stale, StateManager, "the claim vanished, refused it, or was told of another"},
		{Bound, EventReleased, Stale, StateManager, "the claim vanishes before it was told, refused it, or was told of another"},
	},
}

// Claim is the chart of claims.
var Claim = Chart{
	Kind: "claim", Initial: Binding, Order: fiveStates,
	Edges: []Edge{
		{Binding, EventBound, Bound, ClaimManager, "its sandbox is warm, or its own became Ready"},
		{Binding, EventColdStart, Warming, ClaimManager, "its own sandbox was created and is not Ready yet"},
		{Warming, EventBound, Bound, ClaimManager, "its own sandbox became Ready"},
		{Binding, EventExpired, Stale, ClaimManager, "its lifetime is over"},
		{Warming, EventExpired, Stale, ClaimManager, "its lifetime is over"},
		{Bound, EventExpired, Stale, ClaimManager, "its lifetime is over"},
		{Binding, EventLost, Stale, ClaimManager, "the sandbox that its status names is gone"},
		{Warming, EventLost, Stale, ClaimManager, "the sandbox that its status names is gone"},
		{Bound, EventLost, Stale, ClaimManager, "the sandbox that its status names is gone"},
	},
}

// Charts lists the charts of pods and claims, whose states objects carry. The
// chart of rollouts is Rollout.
var Charts = []Chart{Pod, Claim}

// fiveStates are the states of pods and claims in the order of the story.
var fiveStates = []State{Warming, Ready, Binding, Bound, Stale}

// Parse reads a persisted state. A missing or unknown one, as a hand or another
// program may leave it, is the initial state: facts then move it on.
func (c Chart) Parse(text string) State {
	for _, e := range c.Edges {
		if e.From == State(text) || e.To == State(text) {
			return State(text)
		}
	}
	return c.Initial
}

// States lists the states of the chart, in the order of the story.
func (c Chart) States() []State {
	var in []State
	for _, s := range c.Order {
		if slices.ContainsFunc(c.Edges, func(e Edge) bool { return e.From == s || e.To == s }) {
			in = append(in, s)
		}
	}
	return in
}

// Events lists the events of the chart, each once, in the order of the table.
func (c Chart) Events() []Event {
	var all []Event
	for _, e := range c.Edges {
		if !slices.Contains(all, e.Event) {
			all = append(all, e.Event)
		}
	}
	return all
}

// Edge finds the move that event makes from a state.
func (c Chart) Edge(from State, event Event) (Edge, bool) {
	for _, e := range c.Edges {
		if e.From == from && e.Event == event {
			return e, true
		}
	}
	return Edge{}, false
}

// Between finds the move that leads from one state to another. Two events may
// lead the same way (a claim expires, or loses its sandbox): the first listed
// is returned.
func (c Chart) Between(from, to State) (Edge, bool) {
	for _, e := range c.Edges {
		if e.From == from && e.To == to {
			return e, true
		}
	}
	return Edge{}, false
}

// Judge returns the edge that event makes from a state, or an error when the
// chart does not list it. The machine has the last word, not the table lookup.
func (c Chart) Judge(from State, event Event) (Edge, error) {
	m := c.machine(from)
	if err := m.Event(context.Background(), string(event)); err != nil {
		return Edge{}, fmt.Errorf("%s: no move %q from %q: %w", c.Kind, event, from, err)
	}
	edge, _ := c.Edge(from, event)
	if State(m.Current()) != edge.To {
		return Edge{}, fmt.Errorf("%s: the machine moves %q to %q, the chart to %q", c.Kind, event, m.Current(), edge.To)
	}
	return edge, nil
}

// Mermaid draws the chart.
func (c Chart) Mermaid() (string, error) {
	return fsm.VisualizeForMermaidWithGraphType(c.machine(c.Initial), fsm.StateDiagram)
}

func (c Chart) machine(at State) *fsm.FSM {
	moves := make([]fsm.EventDesc, 0, len(c.Edges))
	for _, e := range c.Edges {
		moves = append(moves, fsm.EventDesc{Name: string(e.Event), Src: []string{string(e.From)}, Dst: string(e.To)})
	}
	return fsm.NewFSM(string(at), moves, nil)
}
