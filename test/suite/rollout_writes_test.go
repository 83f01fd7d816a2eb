package suite

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/watch"
)

// replaced is what one member costs when a newer one takes its place.
var replaced = append([]kit.Counter{
	{Manager: "kiln-owner", Kind: "sandbox", Edge: "retire", Result: "ok"},
	{Manager: "kiln-state", Kind: "pod", Edge: "retired", Result: "ok"},
	{Manager: "kiln-owner", Kind: "sandbox", Edge: "delete", Result: "ok"},
}, member...)

// On the controller's clock every launch takes half a minute, and not a moment
// longer: nobody waits for a member's status, so it is told when it is over.
func TestAMemberIsReplacedWithSevenWritesAndNoneInVain(t *testing.T) {
	n := number("KILN_MEMBERS", 30)
	quarter := intstr.FromString("25%")
	for name, pool := range map[string]*ext.SandboxWarmPool{
		"all at once": kit.Recreating(kit.Pool("p", int32(n))),
		"rolling":     kit.Rolling(kit.Pool("p", int32(n)), quarter, quarter),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			stands := time.Now().Add(30 * time.Second)
			c := w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return stands } })
			w.Create(kit.Template("t"), pool)
			w.Await(kit.Full("p", n))
			now := w.Retemplate("t", "image:2")
			w.Await(kit.All(kit.Full("p", n), renewed(now, n)))
			c.Stop() // the last answer is counted by then
			count(t, c.Counts().Less(full(n)), n, replaced)
		})
	}
}

// renewed wishes for a number of sandboxes of a revision and no others.
func renewed(revision string, n int) kit.Wish {
	return func(s *kit.Sight) error {
		for name, sandbox := range s.Sandboxes {
			if len(s.Sandboxes) != n || sandbox.Labels[apply.LabelRevision] != revision {
				return fmt.Errorf("%d sandboxes, and %s is of revision %s", len(s.Sandboxes), name, sandbox.Labels[apply.LabelRevision])
			}
		}
		return nil
	}
}
