package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// What a transition begins and ends with, where there is no object.
const (
	Absent = "-"
	Gone   = "gone"
)

// A Transition is one move of a pod or a claim from a state to another.
type Transition struct {
	At     time.Time
	Object metav1.Object
	Chart  states.Chart
	// From and To are states, or Absent and Gone. Bare is From as it stood there:
	// it is empty where From is only understood.
	From, To, Bare string
	// Edge is the edge of the chart, if it has one that leads there.
	Edge states.Edge
	// Legal: the chart has the edge, or the object came or went.
	Legal bool
}

// Transitions are the moves in a history, in its order.
func Transitions(history []Change) []Transition { return After(history).Transitions }

// move notes what a change means to a pod's or a claim's state.
func (s *Snapshot) move(c Change) {
	chart, text, ok := StateOf(c.Object)
	if !ok {
		return
	}
	bare, known := s.states[c.Object.GetUID()]
	s.states[c.Object.GetUID()] = text
	t := Transition{At: c.At, Object: c.Object, Chart: chart, Bare: bare, From: string(chart.Parse(bare)), To: string(chart.Parse(text))}
	switch {
	case c.Deleted:
		t.From, t.To = t.To, Gone
	case !known:
		t.From = Absent
	}
	if t.From == t.To {
		return
	}
	t.Edge, t.Legal = chart.Between(states.State(t.From), states.State(t.To))
	if claim, ok := c.Object.(*ext.SandboxClaim); ok && lost(claim) { // two edges lead there
		t.Edge, t.Legal = chart.Edge(states.State(t.From), states.EventLost)
	}
	t.Legal = t.Legal || t.From == Absent || t.To == Gone
	s.Transitions = append(s.Transitions, t)
}

// lost reports whether a claim is stale because its sandbox is gone.
func lost(c *ext.SandboxClaim) bool {
	ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	return c.Status.State == ext.StateStale && ready != nil && ready.Reason == "SandboxLost"
}

// StateOf is the state of a pod or a claim as it stands there, and its chart.
func StateOf(o metav1.Object) (chart states.Chart, state string, ok bool) {
	switch o := o.(type) {
	case *corev1.Pod:
		return states.Pod, o.Labels[apply.LabelState], true
	case *ext.SandboxClaim:
		return states.Claim, string(o.Status.State), true
	}
	return states.Chart{}, "", false
}

// Cause says in the chart's terms how a transition came about.
func (t Transition) Cause() string {
	switch {
	case t.To == Gone:
		return "deleted"
	case t.From == Absent:
		return "created"
	case t.Legal:
		return fmt.Sprintf("%s by %s", t.Edge.Event, t.Edge.By)
	}
	return "AGAINST THE CHART"
}

// String is a transition in a line.
func (t Transition) String() string {
	return fmt.Sprintf("%s/%s moved %s -> %s: %s", t.Chart.Kind, t.Object.GetName(), t.From, t.To, t.Cause())
}
