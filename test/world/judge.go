package world

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A judge walks through a history, in the order in which it became true, and
// notes each change that breaks a promise.
type judge struct {
	history []Change
	found   []string

	states    map[types.UID]states.State // of pods and claims
	holder    map[types.UID]types.UID    // the claim a sandbox belongs to, by the sandbox
	retired   map[types.UID]bool         // the sandboxes that were retired
	named     map[string]types.UID       // the sandbox that has a name now
	told      map[types.UID]string       // what each claim was told of
	toldTo    map[types.UID]types.UID    // the claim that was told of a sandbox
	refusedBy map[types.UID]types.UID    // the claim that has refused a sandbox
	ended     map[types.UID]bool         // claims that are gone, or hold nothing any more
}

// A Deletion is a delete that a controller sent.
type Deletion struct {
	Kind, Name string
	UID        types.UID
}

// Violations judges a history, and the deletes that the controllers sent. Each
// violation comes with the history of the object it is about.
func Violations(history []Change, deletes []Deletion) []string {
	j := &judge{
		history: history,
		states:  map[types.UID]states.State{}, holder: map[types.UID]types.UID{}, retired: map[types.UID]bool{},
		named: map[string]types.UID{}, told: map[types.UID]string{}, toldTo: map[types.UID]types.UID{},
		refusedBy: map[types.UID]types.UID{}, ended: map[types.UID]bool{},
	}
	for _, c := range history {
		switch o := c.Object.(type) {
		case *agents.Sandbox:
			j.sandbox(o, c.Deleted)
		case *ext.SandboxClaim:
			j.claim(o, c.Deleted)
		case *corev1.Pod:
			j.state(o, states.Pod, o.Labels[apply.LabelState])
		}
	}
	for _, d := range deletes {
		if d.UID == "" || !j.retired[d.UID] {
			j.found = append(j.found, fmt.Sprintf("a controller deleted %s %s, which was not retired", d.Kind, d.Name))
		}
	}
	return j.found
}

func (j *judge) violation(about metav1.Object, format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf("%s %s: %s\n%s", KindOf(about), about.GetName(),
		fmt.Sprintf(format, args...), textOf(j.history, about.GetUID())))
}

// sandbox: once a claim's, always that claim's; and not retired while the claim
// that was told of it lives.
func (j *judge) sandbox(s *agents.Sandbox, deleted bool) {
	if deleted {
		delete(j.named, s.Name)
		return
	}
	j.named[keyOf(s)] = s.UID
	owner := metav1.GetControllerOf(s)
	byClaim := owner != nil && owner.Kind == "SandboxClaim"
	switch held, was := j.holder[s.UID]; {
	case byClaim && !was:
		j.holder[s.UID] = owner.UID
	case was && (!byClaim || owner.UID != held):
		j.violation(s, "it left the claim %s that had taken it", held)
	}
	if s.Annotations[apply.AnnotationRetired] == "" || j.retired[s.UID] {
		return
	}
	j.retired[s.UID] = true
	if claim, told := j.toldTo[s.UID]; told && !j.ended[claim] {
		j.violation(s, "it was retired, and claim %s had been told of it", claim)
	}
}

// claim: what it was told stays, is its own, and nobody else was told the same.
func (j *judge) claim(c *ext.SandboxClaim, deleted bool) {
	if deleted {
		j.ended[c.UID] = true
		return
	}
	j.state(c, states.Claim, string(c.Status.State))
	if c.Status.State == ext.StateStale {
		j.ended[c.UID] = true
	}
	for _, s := range c.Status.RefusedSandboxes {
		j.refusedBy[s] = c.UID
	}
	name, was := c.Status.SandboxStatus.Name, j.told[c.UID]
	if name == was || name != "" && byHand(OwnersOf(c, "status", "sandbox", "name")) {
		return
	}
	j.told[c.UID] = name
	sandbox := j.named[c.Namespace+"/"+name]
	switch {
	case was != "" && name != "":
		j.violation(c, "it was told of %q, and now of %q", was, name)
	case name == "" && !j.ended[c.UID]:
		j.violation(c, "it was told of %q, and now of nothing", was)
	case name == "":
	case j.holder[sandbox] != c.UID:
		j.violation(c, "it was told of %q, which is not its own at that time\n%s", name, textOf(j.history, sandbox))
	case j.refusedBy[sandbox] != "":
		j.violation(c, "it was told of %q, which claim %s had refused", name, j.refusedBy[sandbox])
	case j.toldTo[sandbox] != "" && j.toldTo[sandbox] != c.UID:
		j.violation(c, "it was told of %q, as claim %s had been", name, j.toldTo[sandbox])
	default:
		j.toldTo[sandbox] = c.UID
	}
}

// state: the first is the chart's first, every other follows an edge, and the
// edge's manager wrote it. What a hand does to a state is not judged; Kiln takes
// none away.
func (j *judge) state(o metav1.Object, chart states.Chart, text string) {
	was, known := j.states[o.GetUID()]
	is := chart.Parse(text)
	j.states[o.GetUID()] = is
	switch edge, ok := chart.Between(was, is); {
	case known && was == is, text == "" && !known, byHand(StateManagers(o)):
	case !known && is != chart.Initial:
		j.violation(o, "it was born %s", is)
	case !known:
	case !ok:
		j.violation(o, "it went from %s to %s, which is no edge", was, is)
	case !slices.Contains(StateManagers(o), string(edge.By)):
		j.violation(o, "it went from %s to %s by %s", was, is, StateManagers(o))
	}
}

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
