package suite

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kiln-sandbox/kiln/apply"
	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// What the server says about who owns what is what the scopes declare, in every
// state that any object of a full run was ever in.
func TestEveryManagerStaysInItsScope(t *testing.T) {
	w, _ := started(t, 3)
	w.Create(world.Pool("empty", 0), world.Sandbox("mine"),
		world.Claim("a", "p", world.WithLabel("sandbox.users.io/team", "blue"), world.WithAnnotation("example.com/note", "hello")),
		world.Claim("b", "p"), world.Claim("own", "empty"))
	w.Await(world.Bound("a", "b", "own"), world.Full("p", 3), world.PodHasState("mine", states.Bound))
	w.Scale("p", 1)
	w.Await(world.Full("p", 1), world.Counted("p", 1))
	w.Delete(w.Sandboxes(), w.SandboxOf("b"))
	w.Await(world.HasState("b", states.Stale))

	met := map[string]bool{}
	for _, c := range w.History() {
		for manager := range owned(t, c.Object) {
			met[manager] = true
		}
		if pod, ok := c.Object.(*corev1.Pod); ok && states.Pod.Parse(pod.Labels[apply.LabelState]) != states.Pod.Initial {
			same(t, world.StateManagers(pod), string(states.StateManager))
		}
	}
	for _, scope := range apply.Scopes {
		if !met[string(scope.Manager)] {
			t.Errorf("%s has written nothing: the run is not a full one", scope.Manager)
		}
	}
}

// owned checks what Kiln's managers own of an object, and returns it.
func owned(t *testing.T, o metav1.Object) map[string]*fieldpath.Set {
	t.Helper()
	all := map[string]*fieldpath.Set{}
	for _, e := range o.GetManagedFields() {
		if !strings.HasPrefix(e.Manager, world.Ours) {
			continue
		}
		kind := world.KindOf(o) + e.Subresource
		if e.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%s %s: %s wrote by %s", kind, o.GetName(), e.Manager, e.Operation)
		}
		set, err := world.Fields(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range outside(e.Manager, kind, set) {
			t.Errorf("%s %s: %s owns %s, which is outside its scope", kind, o.GetName(), e.Manager, field)
		}
		for other, theirs := range all {
			if both := theirs.Leaves().Intersection(set.Leaves()); other != e.Manager && !both.Empty() {
				t.Errorf("%s %s: %s and %s both own %s", kind, o.GetName(), e.Manager, other, both)
			}
		}
		if before := all[e.Manager]; before != nil {
			set = set.Union(before)
		}
		all[e.Manager] = set
	}
	return all
}

func outside(manager, kind string, set *fieldpath.Set) []string {
	for _, scope := range apply.Scopes {
		if string(scope.Manager) == manager && scope.Kind == kind {
			return scope.Covers(set)
		}
	}
	return []string{"anything there"}
}

// The rule that all of it rests on, shown on the server itself: what a manager
// leaves out is removed, and what another one owns stays.
func TestWhatAManagerLeavesOutIsRemovedAndWhatAnotherOwnsStays(t *testing.T) {
	t.Parallel()
	w := kit.New(t)
	w.Create(world.Sandbox("s"))
	note := func(manager string, keys ...string) map[string]string {
		t.Helper()
		notes := map[string]string{}
		for _, k := range keys {
			notes["example.com/"+k] = manager
		}
		got, err := w.Sandboxes().Apply(context.Background(), agentsac.Sandbox("s", w.Namespace).WithAnnotations(notes),
			metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		return got.Annotations
	}
	note("alice", "a", "b")
	note("bob", "c")
	got := note("alice", "a")
	for key, want := range map[string]string{"a": "alice", "b": "", "c": "bob"} {
		if got["example.com/"+key] != want {
			t.Errorf("%s is %q, want %q", key, got["example.com/"+key], want)
		}
	}
}
