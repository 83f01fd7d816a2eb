package suite

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// notYet are the events that this version of Kiln drives nowhere.
var notYet = []states.Event{states.ClaimExpired}

// A drive is a story in which an edge of a chart comes about.
type drive struct {
	chart states.Chart
	from  states.State
	event states.Event
	story func(*testing.T) *kit.World
}

var edges = []drive{
	{states.Pod, states.Warming, states.Warmed, takeOne},
	{states.Pod, states.Ready, states.Reserved, takeOne},
	{states.Pod, states.Binding, states.Confirmed, takeOne},
	{states.Claim, states.Binding, states.ClaimBound, takeOne},
	{states.Pod, states.Warming, states.Handed, startOwn},
	{states.Claim, states.Binding, states.ClaimCold, startOwn},
	{states.Claim, states.Warming, states.ClaimBound, startOwn},
	{states.Pod, states.Ready, states.Retired, shrinkReady},
	{states.Pod, states.Warming, states.Retired, shrinkStarting},
	{states.Pod, states.Ready, states.Cooled, blink},
	{states.Pod, states.Warming, states.Reserved, takeStarting},
	{states.Pod, states.Binding, states.Released, leaveWhileBinding},
	{states.Claim, states.Binding, states.ClaimLost, loseUnseen},
	{states.Claim, states.Warming, states.ClaimLost, loseStarting},
	{states.Claim, states.Bound, states.ClaimLost, loseBound},
}

func TestEveryEdgeHappensAndItsManagerOwnsTheWord(t *testing.T) {
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

// movers are the managers that own the word after each move from one state to
// another.
func movers(w *kit.World, chart states.Chart, edge states.Edge) (by []string) {
	last := map[types.UID]states.State{}
	for _, c := range w.History() {
		word, ok := wordOf(chart, c.Object)
		if !ok || c.Gone {
			continue
		}
		if was, known := last[c.Object.GetUID()]; known && was == edge.From && word == edge.To {
			by = append(by, kit.WritersOf(c.Object)...)
		}
		last[c.Object.GetUID()] = word
	}
	return by
}

func wordOf(chart states.Chart, o metav1.Object) (states.State, bool) {
	switch o := o.(type) {
	case *corev1.Pod:
		return chart.Parse(o.Labels[apply.LabelState]), chart.Kind == states.Pod.Kind
	case *ext.SandboxClaim:
		return chart.Parse(string(o.Status.State)), chart.Kind == states.Claim.Kind
	}
	return "", false
}

func takeOne(t *testing.T) *kit.World {
	w, _ := started(t, 1)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 1, "a"))
	return w
}

func startOwn(t *testing.T) *kit.World {
	w, _ := cold(t, 0)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Words("a", states.Warming))
	w.Kubelet.Release()
	w.Await(kit.Right("p", 0, "a"))
	return w
}

func shrinkReady(t *testing.T) *kit.World {
	w, _ := started(t, 2)
	w.Scale("p", 1)
	w.Await(kit.Right("p", 1))
	return w
}

func shrinkStarting(t *testing.T) *kit.World {
	w, _ := cold(t, 2)
	w.Scale("p", 0)
	w.Await(kit.Right("p", 0))
	return w
}

func blink(t *testing.T) *kit.World {
	w, _ := started(t, 1)
	pod := w.Members("p")[0]
	w.Kubelet.Blink(pod, false)
	w.Await(kit.PodWords(pod, states.Warming))
	w.Kubelet.Blink(pod, true)
	w.Await(kit.Right("p", 1))
	return w
}

// takeStarting has a sandbox adopted whose pod says that it is warming: the
// leader died in between, and a hand was at the label.
func takeStarting(t *testing.T) *kit.World {
	w, first := started(t, 1)
	first.Wire.Inject(kit.Fault{On: kit.On("sandbox", "adopt"), Do: kit.CrashAfter(first)})
	pod := w.Members("p")[0]
	w.Create(kit.Claim("a", "p"))
	w.Await(first.Dead())
	w.LabelPod(pod, apply.LabelState, string(states.Warming))
	_, gate := w.Held("claimstatus", "bound")
	w.Await(kit.PodWords(pod, states.Binding))
	gate.Open()
	w.Await(kit.Right("p", 1, "a"))
	return w
}

// leaveWhileBinding deletes a claim before it was told anything.
func leaveWhileBinding(t *testing.T) *kit.World {
	w, c := started(t, 1)
	gate := c.Hold("claimstatus", "bound")
	pod := w.Members("p")[0]
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.PodWords(pod, states.Binding))
	w.Collector.Pause()
	w.Delete(w.Claims(), "a")
	gate.Open()
	w.Await(kit.PodWords(pod, states.Stale))
	w.Collector.Resume()
	w.Await(kit.Right("p", 1))
	return w
}

// loseUnseen is a claim that another controller once told of a sandbox, and gave
// no word.
func loseUnseen(t *testing.T) *kit.World {
	w, _ := started(t, 0)
	w.Create(kit.Claim("a", "nowhere"))
	w.Await(kit.Says("a", "WarmPoolNotFound"))
	w.SetClaimStatus("a", ext.SandboxClaimStatus{SandboxStatus: ext.SandboxStatus{Name: "gone"}})
	w.Await(kit.Words("a", states.Stale))
	return w
}

func loseStarting(t *testing.T) *kit.World {
	w, _ := cold(t, 0)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Words("a", states.Warming))
	w.Delete(w.Sandboxes(), "a")
	w.Await(kit.Words("a", states.Stale))
	return w
}

func loseBound(t *testing.T) *kit.World {
	w := takeOne(t)
	w.Delete(w.Sandboxes(), told(w, "a"))
	w.Await(kit.Words("a", states.Stale), kit.Full("p", 1))
	return w
}
