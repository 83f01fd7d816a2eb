package suite

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A field manager is the name of a program, and a fork has another one. What it left is
// taken over all the same.
func TestAMemberOfAForkOfTheIncumbentIsAdopted(t *testing.T) {
	const fork = "sandboxd-manager"
	w := left(t, "by: agent-sandbox-controller", "by: "+fork, "by: sandbox-controller", "by: "+fork)
	before := uids(w)
	c := w.Controller()
	w.Await(taken)
	w.Create(world.Claim("new", "p"))
	w.Await(world.Bound("new"), filled("p", 2), world.Annotated("new"), c.Settled())
	name := w.SandboxOf("new")
	if !slices.Contains([]string{"p-aaaaa", "p-bbbbb"}, name) {
		t.Fatalf("the claim was given %s", name)
	}
	b, pod := w.Sandbox(name), w.Pod(name)
	if b.UID != before["sandbox/"+name] || pod.UID != before["pod/"+name] {
		t.Error("it was made anew")
	}
	if len(b.OwnerReferences) != 1 || b.OwnerReferences[0].UID != w.Claim("new").UID {
		t.Errorf("its owners are %v", b.OwnerReferences)
	}
	has(t, b, map[string]string{apply.LabelClaimUID: string(w.Claim("new").UID), apply.LabelPool: "", apply.LabelBlueprintHash: "", apply.LabelPodTemplateHash: ""})
	has(t, pod, map[string]string{apply.LabelPool: "", "app": "python"})
	if _, still := pod.Annotations[apply.AnnotationSafeToEvict]; still {
		t.Error("its pod is still safe to evict")
	}
	for _, o := range []metav1.Object{b, pod} {
		owned(t, o)
		if apply.Inherited(o) {
			t.Errorf("%s still has owners of old: %v", world.KindOf(o), o.GetManagedFields())
		}
	}
	unhurt(t, c)
}
