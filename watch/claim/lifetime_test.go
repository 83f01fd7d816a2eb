package claim

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func TestTheLifecycleOfAPoolIsForClaimsThatGetTheirSandboxNow(t *testing.T) {
	given := &ext.Lifecycle{ShutdownPolicy: ext.ShutdownDelete}
	pool := aPool(func(p *ext.SandboxWarmPool) { p.Spec.ClaimDefaults.Lifecycle = given })
	for _, row := range []struct {
		name  string
		claim *ext.SandboxClaim
		want  *ext.Lifecycle
	}{
		{"one that is about to be told of its sandbox", aClaim(), given},
		{"one with a lifecycle of its own", aClaim(func(c *ext.SandboxClaim) { c.Spec.Lifecycle = &ext.Lifecycle{} }), nil},
		{"one that is bound", aClaim(named(ext.StateBound)), nil},
		{"one that another program has bound, without a word of state", aClaim(func(c *ext.SandboxClaim) {
			c.Status.SandboxStatus = ext.SandboxStatus{Name: "s"}
			c.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionTrue, "DependenciesReady", "Pod is Ready")}
		}), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.claim, pool, aTemplate(), aSandbox(owned))
			NewWithT(t).Expect(inherited(w.Observe(key, learned{}))).To(Equal(row.want))
		})
	}
}
