package suite

import (
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
	c, b, pod := adoptsMember(t, w)
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
