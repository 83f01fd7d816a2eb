package suite

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
)

// spoilt is the image of a template whose pods never become ready.
const spoilt = "image:spoilt"

// hasty is not patient with a rollout that does not get on.
func hasty(r *ext.RollingUpdate) { r.ProgressDeadlineSeconds = new(int32(1)) }

// open lets claims have old members while a rollout is under way.
func open(r *ext.RollingUpdate) { r.ClaimPolicy = ext.ClaimAny }

// halfway is a world whose pool of 4 is stuck in the middle of a rollout to a
// template that does not work: 3 old members are left, and 2 new ones starve.
func halfway(t *testing.T, with ...func(*ext.RollingUpdate)) (w *kit.World, c *kit.Controller, old []string) {
	t.Helper()
	w, c = rollable(t, rolling("p", 4, append(with, hasty)...))
	w.Kubelet.Spoil(spoilt)
	bad := w.Retemplate("t", spoilt)
	w.Await(kit.Progress("p", metav1.ConditionFalse, "ProgressDeadlineExceeded"), stopped(3, 2, bad))
	w.Look(func(s *kit.Sight) { old = s.Free("p") })
	return w, c, old
}

// stopped wishes for p to have so many old members, all free, and so many new
// ones, none of them ready.
func stopped(old, fresh int, revision string) kit.Wish {
	return func(s *kit.Sight) error {
		of := 0
		for _, name := range s.Members("p") {
			if s.Sandboxes[name].Labels[apply.LabelRevision] == revision {
				of++
			}
		}
		if free, all := len(s.Free("p")), len(s.Members("p")); free != old || of != fresh || all != old+fresh {
			return fmt.Errorf("%d members, %d of them free and %d new; it should have %d and %d", all, free, of, old, fresh)
		}
		return nil
	}
}

func TestATemplateThatDoesNotWorkStopsTheRolloutAndClaimsGetOldOnesIfTheyMay(t *testing.T) {
	w, _, old := halfway(t, open)
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Bound("a"))
	if !slices.Contains(old, w.Told("a")) {
		t.Errorf("the claim got %s, and %q were free", w.Told("a"), old)
	}
	good := w.Retemplate("t", "image:3")
	w.Await(kit.Fresh("p", good), kit.Right("p", 4, "held", "a"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
}

func TestATemplateThatDoesNotWorkStopsTheRolloutAndClaimsWaitIfTheyMustHaveANewOne(t *testing.T) {
	w, c, old := halfway(t)
	taken := c.Wire.Count("sandbox", "adopt")
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Says("a", "AdoptionPending"))
	if n := c.Wire.Count("sandbox", "adopt"); n != taken {
		t.Error("the claim took one of the old members")
	}
	good := w.Retemplate("t", "image:3")
	w.Await(kit.Bound("a"), kit.Fresh("p", good), kit.Right("p", 4, "held", "a"))
	if got := w.Sandbox(w.Told("a")); got.Labels[apply.LabelRevision] != good || slices.Contains(old, got.Name) {
		t.Error("the claim got an old sandbox")
	}
}
