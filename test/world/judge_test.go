package world

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// box is the sandbox s, owned by kind/uid and retired for a reason, if any.
func box(owner, retired string) metav1.Object {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}}
	if kind, uid, ok := strings.Cut(owner, "/"); ok {
		yes := true
		s.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: uid, UID: types.UID(uid), Controller: &yes}}
	}
	if retired != "" {
		s.Annotations = map[string]string{apply.AnnotationRetired: retired}
	}
	return s
}

// claimTold is a claim in a state, told of a sandbox by kiln-claim.
func claimTold(name, state, sandbox string) metav1.Object {
	c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	c.Status.State, c.Status.SandboxStatus.Name = ext.State(state), sandbox
	c.ManagedFields = by("kiln-claim", `{"f:status":{"f:state":{},"f:sandbox":{"f:name":{}}}}`)
	return c
}

// podBy is the pod s with a state that a manager owns.
func podBy(manager, state string) metav1.Object {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "pod", Labels: map[string]string{apply.LabelState: state}}}
	p.ManagedFields = by(manager, fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%s":{}}}}`, apply.LabelState))
	return p
}

// handedTo is the pod s as it is handed to a claim, with labels that are the sandbox's.
func handedTo(claim string, more ...string) metav1.Object {
	p := podBy("kiln-state", "bound")
	p.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Sandbox", Name: "s", UID: "s", Controller: new(bool)}})
	*p.GetOwnerReferences()[0].Controller = true
	labels := p.GetLabels()
	labels[apply.LabelClaimUID] = claim
	for _, key := range more {
		labels[key] = "1a2b3c4d"
		p.SetManagedFields(append(p.GetManagedFields(), by("kiln-state", fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%s":{}}}}`, key))...))
	}
	return p
}

// readyClaim is a claim that is bound to the sandbox s, and Ready.
func readyClaim(name string) metav1.Object {
	c := claimTold(name, "bound", "s").(*ext.SandboxClaim)
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	c.ManagedFields = by("kiln-claim", `{"f:status":{"f:state":{},"f:sandbox":{"f:name":{}},"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}}}`)
	return c
}

func by(manager, fields string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}}
}

func TestTheJudgeFindsEveryViolation(t *testing.T) {
	pooled, taken, other := box("SandboxWarmPool/p", ""), box("SandboxClaim/a", ""), box("SandboxClaim/b", "")
	born, ready := podBy("kiln-pod", "warming"), podBy("kiln-state", "ready")
	told := claimTold("a", "bound", "s")
	given := box("SandboxClaim/a", "")
	given.SetLabels(map[string]string{apply.LabelClaimUID: "a"})
	for _, row := range []struct {
		name      string
		history   []metav1.Object
		violation string
	}{
		{"a warm claim is fine", []metav1.Object{pooled, born, ready, claimTold("a", "", ""), taken, told, podBy("kiln-state", "binding"), podBy("kiln-state", "bound")}, ""},
		{"a claim is Ready when its pod says that it is the claim's", []metav1.Object{pooled, born, ready, claimTold("a", "", ""), given, handedTo("a"), readyClaim("a")}, ""},
		{"a claim is Ready before its pod says so", []metav1.Object{pooled, born, ready, claimTold("a", "", ""), given, handedTo(""), readyClaim("a"), handedTo("a")}, "does not say that it is the claim's"},
		{"a claim is Ready and its pod still has the pool's label", []metav1.Object{pooled, born, ready, claimTold("a", "", ""), given, handedTo("a", apply.LabelPool), readyClaim("a")}, "does not say that it is the claim's"},
		{"a claim is Ready with a sandbox that a user assigned", []metav1.Object{box("", ""), born, ready, claimTold("a", "", ""), taken, readyClaim("a")}, ""},
		{"a sandbox goes from one claim to another", []metav1.Object{pooled, taken, other}, "it left the claim"},
		{"a sandbox goes back to its pool", []metav1.Object{pooled, taken, pooled}, "it left the claim"},
		{"a hand calls a told sandbox retired", []metav1.Object{pooled, born, ready, claimTold("a", "", ""), taken, told, box("SandboxClaim/a", "x")}, ""},
		{"a told sandbox is retired", []metav1.Object{pooled, taken, told, box("SandboxClaim/a", "surplus")}, "it was retired"},
		{"a twin nobody was told of is retired", []metav1.Object{pooled, taken, box("SandboxClaim/a", "surplus")}, ""},
		{"a claim is told of another's sandbox", []metav1.Object{pooled, other, told}, "not its own"},
		{"a claim is told before it has it", []metav1.Object{pooled, told, taken}, "not its own"},
		{"a claim is told of two", []metav1.Object{pooled, taken, told, claimTold("a", "bound", "r")}, "and now of \"r\""},
		{"a claim is told of nothing and lives on", []metav1.Object{pooled, taken, told, claimTold("a", "bound", "")}, "now of nothing"},
		{"a claim that is lost", []metav1.Object{pooled, claimTold("a", "", ""), taken, told, claimTold("a", "stale", "")}, ""},
		{"a claim goes back", []metav1.Object{claimTold("a", "warming", ""), claimTold("a", "binding", "")}, "no edge"},
		{"a pod is born ready", []metav1.Object{podBy("kiln-pod", "ready")}, "born ready"},
		{"a pod skips a state", []metav1.Object{born, podBy("kiln-state", "binding"), podBy("kiln-state", "ready")}, "no edge"},
		{"a pod is moved by the wrong manager", []metav1.Object{born, podBy("kiln-pod", "ready")}, "by [kiln-pod]"},
		{"a hand is not judged", []metav1.Object{born, ready, podBy("hand", "bound")}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var history []Change
			for i, o := range row.history {
				history = append(history, Change{Object: o, Version: uint64(i + 1)})
			}
			found := strings.Join(Violations(history, nil), "\n")
			if row.violation == "" && found != "" || !strings.Contains(found, row.violation) {
				t.Errorf("got %q, want %q in it", found, row.violation)
			}
		})
	}
}

// promised is the sandbox s whose pods are to have a policy, and podOf its pod.
func promised(policy string) metav1.Object {
	return &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s", Annotations: map[string]string{apply.AnnotationPolicy: policy}}}
}

func podOf(owner types.UID) metav1.Object {
	yes := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "s", UID: "pod", OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &yes}},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kiln-pod"}},
	}}
}

func strangers(o metav1.Object) metav1.Object { o.SetManagedFields(nil); return o }

func TestTheJudgeFindsAPodWithoutItsPolicy(t *testing.T) {
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
	for _, row := range []struct {
		name    string
		history []Change
		found   int
	}{
		{"the policy comes first", []Change{{Object: promised("n")}, {Object: policy}, {Object: podOf("s")}}, 0},
		{"it goes when the pod is there", []Change{{Object: promised("n")}, {Object: policy}, {Object: podOf("s")}, {Object: policy, Deleted: true}, {Object: podOf("s")}}, 0},
		{"it comes after", []Change{{Object: promised("n")}, {Object: podOf("s")}, {Object: policy}}, 1},
		{"it is gone", []Change{{Object: promised("n")}, {Object: policy}, {Object: policy, Deleted: true}, {Object: podOf("s")}}, 1},
		{"there shall be none", []Change{{Object: promised("")}, {Object: podOf("s")}}, 0},
		{"a stranger made the pod", []Change{{Object: promised("n")}, {Object: strangers(podOf("s"))}}, 0},
		{"a stranger made the pod, and it is taken over", []Change{{Object: promised("n")}, {Object: strangers(podOf("s"))}, {Object: podOf("s")}}, 0},
		{"the pod is nobody's", []Change{{Object: promised("n")}, {Object: podOf("other")}}, 0},
	} {
		if got := Violations(row.history, nil); len(got) != row.found {
			t.Errorf("%s: %q", row.name, got)
		}
	}
}

func TestTheJudgeFindsADeleteOfWhatWasNotRetired(t *testing.T) {
	history := []Change{{Object: box("SandboxWarmPool/p", ""), Version: 1}}
	if len(Violations(history, []Deletion{{Kind: "sandbox", Name: "s", UID: "s"}})) != 1 {
		t.Error("it was not found")
	}
	history = append(history, Change{Object: box("SandboxWarmPool/p", "surplus"), Version: 2})
	if len(Violations(history, []Deletion{{Kind: "sandbox", Name: "s", UID: "s"}})) != 0 {
		t.Error("it was found where there is none")
	}
}

func TestAfterAGapSeveralEdgesMayLieBetween(t *testing.T) {
	for _, row := range []struct {
		from, to, violation string
	}{{"warming", "bound", ""}, {"ready", "stale", ""}, {"bound", "ready", "no edge"}, {"stale", "bound", "no edge"}} {
		history := []Change{
			{Object: podBy("kiln-pod", "warming"), Version: 1},
			{Object: podBy("kiln-state", row.from), Version: 2, Gap: true},
			{Object: podBy("kiln-state", row.to), Version: 3, Gap: true},
		}
		if found := strings.Join(Violations(history, nil), ""); row.violation == "" && found != "" || !strings.Contains(found, row.violation) {
			t.Errorf("%s to %s: %q", row.from, row.to, found)
		}
	}
}
