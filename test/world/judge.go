package world

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Judge looks at changes, in the order in which they became true, and notes each
// that breaks a promise.
type Judge struct {
	// trace is what is known of an object's history, for whoever reads a violation.
	trace func(types.UID) string
	found []string
	gap   bool // the change at hand comes after a gap
	// doubted are violations by the sandbox that they are about: its next change shows
	// whether its owner had changed before, in a gap.
	doubted map[types.UID]string

	states    map[types.UID]states.State // of pods and claims
	holder    map[types.UID]types.UID    // the claim a sandbox belongs to, by the sandbox
	retired   map[types.UID]bool         // the sandboxes that were retired
	over      map[types.UID]bool         // the sandboxes whose time was over, and that are deleted for that
	idle      map[types.UID]bool         // the sandboxes that have had to have no pod
	owner     map[types.UID]types.UID    // the sandbox that a pod belongs to
	named     map[string]types.UID       // the sandbox that has a name now
	told      map[types.UID]string       // what each claim was told of
	toldTo    map[types.UID]types.UID    // the claim that was told of a sandbox
	refusedBy map[types.UID]types.UID    // the claim that has refused a sandbox
	right     map[types.UID]states.State // the states that a hand has changed, as they were
	ended     map[types.UID]bool         // claims that are gone, or hold nothing any more
	pods      map[string]*corev1.Pod     // the pod that has a name now
	madeFor   map[types.UID]string       // the claim that Kiln gave a sandbox to, by the sandbox
	ready     map[types.UID]bool         // the claims that are Ready now
	marked    map[types.UID]string       // the claim whose UID a pod has carried, without a pool's label
	policies  map[string]bool            // the NetworkPolicies that there are now
	promised  map[types.UID]string       // the policy that a sandbox's pods are to have
	started   map[types.UID]bool         // pods that have been seen
}

// NewJudge returns a judge who has seen nothing. A violation quotes what trace says
// of the object.
func NewJudge(trace func(types.UID) string) *Judge {
	return &Judge{
		trace: trace, doubted: map[types.UID]string{},
		states: map[types.UID]states.State{}, holder: map[types.UID]types.UID{}, retired: map[types.UID]bool{},
		over: map[types.UID]bool{}, idle: map[types.UID]bool{}, owner: map[types.UID]types.UID{},
		named: map[string]types.UID{}, told: map[types.UID]string{}, toldTo: map[types.UID]types.UID{},
		right: map[types.UID]states.State{}, refusedBy: map[types.UID]types.UID{}, ended: map[types.UID]bool{},
		pods: map[string]*corev1.Pod{}, madeFor: map[types.UID]string{}, ready: map[types.UID]bool{}, marked: map[types.UID]string{},
		policies: map[string]bool{}, promised: map[types.UID]string{}, started: map[types.UID]bool{},
	}
}

// retirements are the words for which a controller retires a sandbox.
var retirements = []string{"surplus", "outdated", "stuck"}

// A Deletion is a delete that a controller sent.
type Deletion struct {
	Kind, Name string
	UID        types.UID
}

// Violations judges a history, and the deletes that the controllers sent. Each
// violation comes with the history of the object it is about.
func Violations(history []Change, deletes []Deletion) []string {
	j := NewJudge(func(uid types.UID) string { return textOf(history, uid) })
	for _, c := range history {
		j.See(c)
	}
	for _, d := range deletes {
		if !j.mayGo(d) {
			j.found = append(j.found, fmt.Sprintf("a controller deleted %s %s, which was not retired, and no claim had ended with it", d.Kind, d.Name))
		}
	}
	return j.Found()
}

// mayGo reports whether a controller may have deleted an object: a sandbox that was
// retired or whose time is over, the pod of one that shall have none, a Service, which
// holds nothing, what a claim had that holds nothing any more, and such a claim itself.
func (j *Judge) mayGo(d Deletion) bool {
	switch {
	case d.UID == "":
		return false
	case d.Kind == "service":
		return true
	case d.Kind == "pod":
		return j.idle[j.owner[d.UID]]
	}
	return j.retired[d.UID] || j.over[d.UID] || j.ended[j.holder[d.UID]] || j.ended[d.UID]
}

// ends notes a sandbox that shall have no pod, and one that is deleted for that its
// time is over.
func (j *Judge) ends(s *agents.Sandbox) {
	ready := meta.FindStatusCondition(s.Status.Conditions, "Ready")
	expired := ready != nil && ready.Reason == "SandboxExpired"
	if expired || s.Spec.OperatingMode == agents.Suspended {
		j.idle[s.UID] = true
	}
	if expired && s.Spec.ShutdownPolicy == agents.ShutdownDelete {
		j.over[s.UID] = true
	}
}

// See judges the next change.
func (j *Judge) See(c Change) {
	j.gap = c.Gap
	switch o := c.Object.(type) {
	case *agents.Sandbox:
		j.ends(o)
		j.sandbox(o, c.Deleted)
	case *ext.SandboxClaim:
		j.claim(o, c.Deleted)
	case *corev1.Pod:
		j.state(o, states.Pod, o.Labels[apply.LabelState])
		if owner := metav1.GetControllerOf(o); owner != nil {
			j.owner[o.UID] = owner.UID
		}
		j.protected(o)
		if j.pods[keyOf(o)] = o; c.Deleted {
			delete(j.pods, keyOf(o))
		}
		if of := o.Labels[apply.LabelClaimUID]; of != "" && o.Labels[apply.LabelPool] == "" {
			j.marked[o.UID] = of
		}
	case *networkingv1.NetworkPolicy:
		j.policies[keyOf(o)] = !c.Deleted
	}
}

// Found are the violations so far.
func (j *Judge) Found() []string {
	return append(slices.Clone(j.found), slices.Sorted(maps.Values(j.doubted))...)
}

func (j *Judge) violation(about metav1.Object, format string, args ...any) {
	j.found = append(j.found, j.word(about, format, args...))
}

func (j *Judge) word(about metav1.Object, format string, args ...any) string {
	return fmt.Sprintf("%s %s: %s\n%s", KindOf(about), about.GetName(), fmt.Sprintf(format, args...), j.trace(about.GetUID()))
}

// decide confirms what was doubted, unless the sandbox was adopted and deleted in one
// gap: its last owner is nobody's to know then.
func (j *Judge) decide(s *agents.Sandbox, deleted bool) {
	if text, doubted := j.doubted[s.UID]; doubted && (!deleted || !j.gap) {
		j.found = append(j.found, text)
	}
	delete(j.doubted, s.UID)
}

// sandbox: once a claim's, always that claim's; and not retired while the claim
// that was told of it lives.
func (j *Judge) sandbox(s *agents.Sandbox, deleted bool) {
	j.decide(s, deleted)
	if deleted {
		delete(j.named, keyOf(s))
		return
	}
	j.named[keyOf(s)] = s.UID
	j.madeFor[s.UID] = s.Labels[apply.LabelClaimUID]
	j.promised[s.UID] = s.Annotations[apply.AnnotationPolicy]
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
	claim, told := j.toldTo[s.UID]
	told = told && !j.ended[claim]
	if told && !slices.Contains(retirements, s.Annotations[apply.AnnotationRetired]) {
		return // a hand's word, or that it is about to go
	}
	j.retired[s.UID] = true
	if told {
		j.violation(s, "it was retired, and claim %s had been told of it", claim)
	}
}

// protected: Kiln makes no pod before the policy of its template is there. One that was
// somebody else's first is taken over as it is.
func (j *Judge) protected(pod *corev1.Pod) {
	if j.started[pod.UID] {
		return
	}
	j.started[pod.UID] = true
	owner := metav1.GetControllerOf(pod)
	ours := slices.ContainsFunc(pod.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == string(states.PodManager) })
	if owner == nil || !ours {
		return
	}
	if policy := j.promised[owner.UID]; policy != "" && !j.policies[pod.Namespace+"/"+policy] {
		j.violation(pod, "it was made, and there is no NetworkPolicy %s", policy)
	}
}

// claim: what it was told stays, is its own, and nobody else was told the same.
func (j *Judge) claim(c *ext.SandboxClaim, deleted bool) {
	if deleted {
		j.ended[c.UID] = true
		return
	}
	j.state(c, states.Claim, string(c.Status.State))
	if c.Status.State == ext.StateStale || endedByHand(c) {
		j.ended[c.UID] = true
	}
	for _, s := range c.Status.RefusedSandboxes {
		j.refusedBy[s] = c.UID
	}
	j.reachable(c)
	name, was := c.Status.SandboxStatus.Name, j.told[c.UID]
	byAnother := byHand(OwnersOf(c, "status", "sandbox", "name")) || c.Status.State == "" // a takeover makes it ours, and tells nothing
	if name == was || name != "" && byAnother {
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
		j.doubted[sandbox] = j.word(c, "it was told of %q, which is not its own at that time\n%s", name, j.trace(sandbox))
	case j.refusedBy[sandbox] != "":
		j.violation(c, "it was told of %q, which claim %s had refused", name, j.refusedBy[sandbox])
	case j.toldTo[sandbox] != "" && j.toldTo[sandbox] != c.UID:
		j.violation(c, "it was told of %q, as claim %s had been", name, j.toldTo[sandbox])
	default:
		j.toldTo[sandbox] = c.UID
	}
}

// reachable: when a claim becomes Ready its pod has carried the claim's UID and no pool's
// label. What a user does to the labels afterwards is not judged, nor is a sandbox that a
// user assigned, a pod whose pool's label is a user's, or what another controller says.
func (j *Judge) reachable(c *ext.SandboxClaim) {
	was, is := j.ready[c.UID], meta.IsStatusConditionTrue(c.Status.Conditions, "Ready")
	j.ready[c.UID] = is
	key := c.Namespace + "/" + c.Status.SandboxStatus.Name
	pod, sandbox := j.pods[key], j.named[key]
	switch {
	case !is || was || j.gap || pod == nil:
	case j.madeFor[sandbox] != string(c.UID) || j.owner[pod.UID] != sandbox:
	case byHand(StateManagers(c)) || byHand(OwnersOf(c, "status", "conditions", fieldpath.KeyByFields("type", "Ready"), "status")) || pod.Labels[apply.LabelPool] != "" && byHand(OwnersOf(pod, "metadata", "labels", apply.LabelPool)):
	case j.marked[pod.UID] != string(c.UID):
		j.violation(c, "it is Ready, and its pod %s does not say that it is the claim's: %v", pod.Name, pod.Labels)
	}
}

// endedByHand reports whether another controller than Kiln has said that a claim's time is
// over. It has no word for that beside the condition.
func endedByHand(c *ext.SandboxClaim) bool {
	ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	return ready != nil && ready.Reason == "ClaimExpired" &&
		byHand(OwnersOf(c, "status", "conditions", fieldpath.KeyByFields("type", "Ready"), "reason"))
}

// state: the first is the chart's first, every other follows an edge, and the
// edge's manager wrote it. What a hand does to a state is not judged, nor is that Kiln
// puts it right again; Kiln takes none away. After a gap several edges may lie between.
func (j *Judge) state(o metav1.Object, chart states.Chart, text string) {
	was, known := j.states[o.GetUID()]
	is := chart.Parse(text)
	j.states[o.GetUID()] = is
	right, touched := j.right[o.GetUID()]
	if hand := byHand(StateManagers(o)); hand && !touched {
		j.right[o.GetUID()] = was
	} else if !hand {
		delete(j.right, o.GetUID())
	}
	switch edge, ok := chart.Between(was, is); {
	case touched && is == right:
	case known && was == is, text == "" && !known, byHand(StateManagers(o)):
	case j.gap && (!known || reaches(chart, was, is)):
	case !known && is != chart.Initial:
		j.violation(o, "it was born %s", is)
	case !known:
	case !ok:
		j.violation(o, "it went from %s to %s, which is no edge", was, is)
	case !slices.Contains(StateManagers(o), string(edge.By)):
		j.violation(o, "it went from %s to %s by %s", was, is, StateManagers(o))
	}
}

// reaches reports whether edges of a chart lead from one state to another.
func reaches(chart states.Chart, from, to states.State) bool {
	reached := []states.State{from}
	for at := 0; at < len(reached); at++ {
		for _, e := range chart.Edges {
			if e.From == reached[at] && !slices.Contains(reached, e.To) {
				reached = append(reached, e.To)
			}
		}
	}
	return slices.Contains(reached, to)
}

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
