package kit

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
	wrongs  []string

	words  map[types.UID]states.State // of pods and claims
	holder map[types.UID]types.UID    // the claim a sandbox belongs to, by the sandbox
	marked map[types.UID]bool         // the sandboxes that were retired
	named  map[string]types.UID       // the sandbox that has a name now
	told   map[types.UID]string       // what each claim was told of
	taker  map[types.UID]types.UID    // the claim that was told of a sandbox
	giver  map[types.UID]types.UID    // the claim that has refused a sandbox
	over   map[types.UID]bool         // claims that are gone, or hold nothing any more
}

// Wrongs judges the whole history, and the deletes that the controllers sent.
// Each wrong comes with the life of the object it is about.
func (r *Recorder) Wrongs(deletes []Write) []string {
	return judgeAll(r.History(), deletes)
}

func judgeAll(history []Change, deletes []Write) []string {
	j := &judge{
		history: history,
		words:   map[types.UID]states.State{}, holder: map[types.UID]types.UID{}, marked: map[types.UID]bool{},
		named: map[string]types.UID{}, told: map[types.UID]string{}, taker: map[types.UID]types.UID{},
		giver: map[types.UID]types.UID{}, over: map[types.UID]bool{},
	}
	for _, c := range history {
		switch o := c.Object.(type) {
		case *agents.Sandbox:
			j.sandbox(o, c.Gone)
		case *ext.SandboxClaim:
			j.claim(o, c.Gone)
		case *corev1.Pod:
			j.word(o, states.Pod, o.Labels[apply.LabelState])
		}
	}
	for _, d := range deletes {
		if d.UID == "" || !j.marked[d.UID] {
			j.wrongs = append(j.wrongs, fmt.Sprintf("a controller deleted %s %s, which was not retired", d.Kind, d.Name))
		}
	}
	return j.wrongs
}

func (j *judge) wrong(about metav1.Object, format string, args ...any) {
	j.wrongs = append(j.wrongs, fmt.Sprintf("%s %s: %s\n%s", KindOf(about), about.GetName(),
		fmt.Sprintf(format, args...), life(j.history, about.GetUID())))
}

// sandbox: once a claim's, always that claim's; and not retired while the claim
// that was told of it lives.
func (j *judge) sandbox(s *agents.Sandbox, gone bool) {
	if gone {
		delete(j.named, s.Name)
		return
	}
	j.named[s.Name] = s.UID
	owner := metav1.GetControllerOf(s)
	byClaim := owner != nil && owner.Kind == "SandboxClaim"
	switch held, was := j.holder[s.UID]; {
	case byClaim && !was:
		j.holder[s.UID] = owner.UID
	case was && (!byClaim || owner.UID != held):
		j.wrong(s, "it left the claim %s that had taken it", held)
	}
	if s.Annotations[apply.NoteRetired] == "" || j.marked[s.UID] {
		return
	}
	j.marked[s.UID] = true
	if claim, told := j.taker[s.UID]; told && !j.over[claim] {
		j.wrong(s, "it was retired, and claim %s had been told of it", claim)
	}
}

// claim: what it was told stays, is its own, and nobody else was told the same.
func (j *judge) claim(c *ext.SandboxClaim, gone bool) {
	if gone {
		j.over[c.UID] = true
		return
	}
	j.word(c, states.Claim, string(c.Status.State))
	if c.Status.State == ext.StateStale {
		j.over[c.UID] = true
	}
	for _, s := range c.Status.RefusedSandboxes {
		j.giver[s] = c.UID
	}
	name, was := c.Status.SandboxStatus.Name, j.told[c.UID]
	if name == was || name != "" && byHand(OwnersOf(c, "status", "sandbox", "name")) {
		return
	}
	j.told[c.UID] = name
	sandbox := j.named[name]
	switch {
	case was != "" && name != "":
		j.wrong(c, "it was told of %q, and now of %q", was, name)
	case name == "" && !j.over[c.UID]:
		j.wrong(c, "it was told of %q, and now of nothing", was)
	case name == "":
	case j.holder[sandbox] != c.UID:
		j.wrong(c, "it was told of %q, which is not its own at that time\n%s", name, life(j.history, sandbox))
	case j.giver[sandbox] != "":
		j.wrong(c, "it was told of %q, which claim %s had refused", name, j.giver[sandbox])
	case j.taker[sandbox] != "" && j.taker[sandbox] != c.UID:
		j.wrong(c, "it was told of %q, as claim %s had been", name, j.taker[sandbox])
	default:
		j.taker[sandbox] = c.UID
	}
}

// word: the first is the chart's first, every other follows an edge, and the
// edge's manager wrote it. What a hand does to a word is not judged; Kiln takes
// none away.
func (j *judge) word(o metav1.Object, chart states.Chart, text string) {
	was, known := j.words[o.GetUID()]
	is := chart.Parse(text)
	j.words[o.GetUID()] = is
	switch edge, ok := chart.Between(was, is); {
	case known && was == is, text == "" && !known, byHand(WritersOf(o)):
	case !known && is != chart.Initial:
		j.wrong(o, "it was born %s", is)
	case !known:
	case !ok:
		j.wrong(o, "it went from %s to %s, which is no edge", was, is)
	case !slices.Contains(WritersOf(o), string(edge.By)):
		j.wrong(o, "it went from %s to %s by %s", was, is, WritersOf(o))
	}
}

// MostMembers is the largest number of members a pool ever had at once, those
// that were retired not counted.
func (r *Recorder) MostMembers(pool types.UID) int {
	now, most := map[types.UID]bool{}, 0
	for _, c := range r.History() {
		s, ok := c.Object.(*agents.Sandbox)
		if !ok {
			continue
		}
		delete(now, s.UID)
		if !c.Gone && member(s, pool) {
			now[s.UID] = true
		}
		most = max(most, len(now))
	}
	return most
}
