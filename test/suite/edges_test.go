package suite

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// notYet are the events that this version of Kiln drives nowhere.
var notYet = []states.Event{states.EventExpired}

// A drive is a story in which an edge of a chart comes about.
type drive struct {
	chart states.Chart
	from  states.State
	event states.Event
	story func(*testing.T) *kit.World
}

var edges = []drive{
	{states.Pod, states.Warming, states.EventWarmed, takeOne},
	{states.Pod, states.Ready, states.EventHanded, takeOne},
	{states.Pod, states.Ready, states.EventReserved, takeWithoutHanding},
	{states.Pod, states.Binding, states.EventHanded, takeWithoutHanding},
	{states.Claim, states.Binding, states.EventBound, takeOne},
	{states.Pod, states.Warming, states.EventHanded, startOwn},
	{states.Claim, states.Binding, states.EventColdStart, startOwn},
	{states.Claim, states.Warming, states.EventBound, startOwn},
	{states.Pod, states.Ready, states.EventRetired, shrinkReady},
	{states.Pod, states.Warming, states.EventRetired, shrinkStarting},
	{states.Pod, states.Ready, states.EventCooled, blink},
	{states.Pod, states.Warming, states.EventReserved, takeStarting},
	{states.Pod, states.Binding, states.EventReleased, leaveWhileBinding},
	{states.Pod, states.Bound, states.EventReleased, leaveWhileBound},
	{states.Claim, states.Binding, states.EventLost, loseUnseen},
	{states.Claim, states.Warming, states.EventLost, loseStarting},
	{states.Claim, states.Bound, states.EventLost, loseBound},
}

func TestEveryEdgeHappensAndItsManagerOwnsTheState(t *testing.T) {
	for _, row := range edges {
		edge, ok := row.chart.Edge(row.from, row.event)
		if !ok {
			t.Errorf("%s: no edge %s from %s", row.chart.Kind, row.event, row.from)
			continue
		}
		t.Run(fmt.Sprintf("%s %s from %s to %s", row.chart.Kind, edge.Event, edge.From, edge.To), func(t *testing.T) {
			w := row.story(t)
			if by := movers(w, row.chart, edge); !slices.Contains(by, string(edge.By)) {
				t.Errorf("nobody but %q made this move; it is %s's", by, edge.By)
			}
		})
	}
}

func TestEveryEdgeHasAStory(t *testing.T) {
	for _, chart := range states.Charts {
		for _, e := range chart.Edges {
			told := slices.ContainsFunc(edges, func(d drive) bool {
				return d.chart.Kind == chart.Kind && d.from == e.From && d.event == e.Event
			})
			if told == slices.Contains(notYet, e.Event) {
				t.Errorf("%s %s from %s: told=%t", chart.Kind, e.Event, e.From, told)
			}
		}
	}
}

// movers are the managers that own the state after each move along an edge.
func movers(w *kit.World, chart states.Chart, edge states.Edge) (by []string) {
	for _, t := range world.Transitions(w.History()) {
		if t.Chart.Kind == chart.Kind && t.From == string(edge.From) && t.To == string(edge.To) {
			by = append(by, world.StateManagers(t.Object)...)
		}
	}
	return by
}

func takeOne(t *testing.T) *kit.World {
	w, _ := started(t, 1)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 1, "a"))
	return w
}

func startOwn(t *testing.T) *kit.World {
	w, _ := cold(t, 0)
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasState("a", states.Warming))
	w.Kubelet.Release()
	w.Await(world.Converged("p", 0, "a"))
	return w
}

func shrinkReady(t *testing.T) *kit.World {
	w, _ := started(t, 2)
	w.Scale("p", 1)
	w.Await(world.Converged("p", 1))
	return w
}

func shrinkStarting(t *testing.T) *kit.World {
	w, _ := cold(t, 2)
	w.Scale("p", 0)
	w.Await(world.Converged("p", 0))
	return w
}

func blink(t *testing.T) *kit.World {
	w, _ := started(t, 1)
	pod := w.Members("p")[0]
	w.Kubelet.SetReady(pod, false)
	w.Await(world.PodHasState(pod, states.Warming))
	w.Kubelet.SetReady(pod, true)
	w.Await(world.Converged("p", 1))
	return w
}

// takeStarting has a sandbox adopted whose pod says that it is warming: the
// leader died in between, and a hand was at the label.
func takeStarting(t *testing.T) *kit.World {
	return finishTaking(t, func(w *kit.World, pod string) { w.LabelPod(pod, apply.LabelState, string(states.Warming)) })
}

// takeWithoutHanding has a sandbox adopted by a leader that dies before it can hand the
// pod over.
func takeWithoutHanding(t *testing.T) *kit.World {
	return finishTaking(t, func(*kit.World, string) {})
}

// finishTaking has a leader die when it has adopted a sandbox, and the next one
// finish that. The pod is handed over only when it shows that this takes longer.
func finishTaking(t *testing.T, between func(w *kit.World, pod string)) *kit.World {
	w, gate, _ := takingLong(t, between)
	gate.Open()
	w.Await(world.Converged("p", 1, "a"))
	return w
}

// takingLong has a leader die when it has adopted a sandbox. The next one shows on the pod
// that it takes longer: the server fails to hand the pod over until the gate is opened.
func takingLong(t *testing.T, between func(w *kit.World, pod string)) (w *kit.World, gate *kit.Gate, pod string) {
	t.Helper()
	w, first := started(t, 1)
	first.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.CrashAfter(first)})
	pod = w.Members("p")[0]
	w.Create(world.Claim("a", "p"))
	w.Await(first.Dead())
	between(w, pod)
	gate = kit.NewGate()
	w.Prepared(func(c *kit.Controller) { failHandover(c, gate) })
	w.Await(world.PodHasState(pod, states.Binding))
	return w, gate, pod
}

// failHandover has the server fail to hand pods over until a gate is opened.
func failHandover(c *kit.Controller, until *kit.Gate) {
	fails := kit.Answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	c.Wire.Inject(kit.Fault{On: kit.On("pod", "bound"), Always: true, Do: kit.Until(until, fails)})
}

// leaveWhileBound deletes a claim between the hand-over of its pod and its being told. A
// finalizer keeps the claim.
func leaveWhileBound(t *testing.T) *kit.World {
	w, gate, pod := leaving(t, func(c *ext.SandboxClaim) { c.Finalizers = []string{"users.io/keep"} })
	w.Await(world.PodHasState(pod, states.Stale))
	gate.Open()
	w.Collector.Resume()
	patchClaim(t, w, "a", `{"metadata":{"finalizers":null}}`)
	w.Await(world.Converged("p", 1))
	return w
}

// leaveWhileBinding deletes a claim before its pod was handed over.
func leaveWhileBinding(t *testing.T) *kit.World {
	w, gate, pod := takingLong(t, func(*kit.World, string) {})
	w.Collector.Pause()
	w.Delete(w.Claims(), "a")
	gate.Open()
	w.Await(world.PodHasState(pod, states.Stale))
	w.Collector.Resume()
	w.Await(world.Converged("p", 1))
	return w
}

// leaving is a claim that was deleted while it is being told of a pod's sandbox, behind a
// gate. The garbage collector rests.
func leaving(t *testing.T, changes ...func(*ext.SandboxClaim)) (w *kit.World, gate *kit.Gate, pod string) {
	t.Helper()
	w, c := started(t, 1)
	gate = c.Hold("claimstatus", "bound")
	pod = w.Members("p")[0]
	w.Create(world.Claim("a", "p", changes...))
	w.Await(gate.Reached())
	w.Collector.Pause()
	w.Delete(w.Claims(), "a")
	return w, gate, pod
}

// loseUnseen is a claim that another controller once told of a sandbox, and gave
// no state.
func loseUnseen(t *testing.T) *kit.World {
	w, _ := started(t, 0)
	w.Create(world.Claim("a", "nowhere"))
	w.Await(world.HasReason("a", "WarmPoolNotFound"))
	w.SetClaimStatus("a", ext.SandboxClaimStatus{SandboxStatus: ext.SandboxStatus{Name: "gone"}})
	w.Await(world.HasState("a", states.Stale))
	return w
}

func loseStarting(t *testing.T) *kit.World {
	w, _ := cold(t, 0)
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasState("a", states.Warming))
	w.Delete(w.Sandboxes(), "a")
	w.Await(world.HasState("a", states.Stale))
	return w
}

func loseBound(t *testing.T) *kit.World {
	w := takeOne(t)
	w.Delete(w.Sandboxes(), w.SandboxOf("a"))
	w.Await(world.HasState("a", states.Stale), world.Full("p", 1))
	return w
}
