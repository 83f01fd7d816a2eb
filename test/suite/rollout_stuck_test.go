package suite

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

// broken is the image of a template whose pods never become ready.
const broken = "image:broken"

// hasty is not patient with a rollout that does not get on.
func hasty(r *ext.RollingUpdate) { r.ProgressDeadlineSeconds = new(int32(1)) }

// open lets claims have old members while a rollout is under way.
func open(r *ext.RollingUpdate) { r.ClaimPolicy = ext.ClaimAny }

// stuckRollout is a world whose pool of 4 is stuck in the middle of a rollout to a
// template that does not work: 3 old members are left, and 2 new ones starve.
func stuckRollout(t *testing.T, with ...func(*ext.RollingUpdate)) (w *kit.World, c *kit.Controller, old []string) {
	t.Helper()
	w, c = rollable(t, rolling("p", 4, append(with, hasty)...))
	w.Kubelet.Break(broken)
	bad := w.ChangeTemplate("t", broken)
	w.Await(world.Progress("p", metav1.ConditionFalse, "ProgressDeadlineExceeded"), stopped(3, 2, bad))
	w.Look(func(s *world.Snapshot) { old = s.Free("p") })
	return w, c, old
}

func TestATemplateThatDoesNotWorkStopsTheRolloutAndClaimsGetOldOnesIfTheyMay(t *testing.T) {
	w, _, old := stuckRollout(t, open)
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	if !slices.Contains(old, w.SandboxOf("a")) {
		t.Errorf("the claim got %s, and %q were free", w.SandboxOf("a"), old)
	}
	good := w.ChangeTemplate("t", "image:3")
	w.Await(world.Fresh("p", good), world.Converged("p", 4, "held", "a"), world.Progress("p", metav1.ConditionFalse, "Complete"))
}

func TestATemplateThatDoesNotWorkStopsTheRolloutAndClaimsWaitIfTheyMustHaveANewOne(t *testing.T) {
	w, c, old := stuckRollout(t)
	taken := c.Wire.Count("sandbox", "adopt")
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasReason("a", "AdoptionPending"))
	if n := c.Wire.Count("sandbox", "adopt"); n != taken {
		t.Error("the claim took one of the old members")
	}
	good := w.ChangeTemplate("t", "image:3")
	w.Await(world.Bound("a"), world.Fresh("p", good), world.Converged("p", 4, "held", "a"))
	if got := w.Sandbox(w.SandboxOf("a")); got.Labels[apply.LabelRevision] != good || slices.Contains(old, got.Name) {
		t.Error("the claim got an old sandbox")
	}
}

func TestARolloutThatIsRolledBackKeepsTheMembersThatAreLeft(t *testing.T) {
	w, _, old := stuckRollout(t)
	first := w.ChangeTemplate("t", "image")
	w.Await(world.Fresh("p", first), world.Converged("p", 4, "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
	for _, name := range old {
		if !slices.Contains(w.Members("p"), name) {
			t.Errorf("%s is gone, and it was of the right revision again", name)
		}
	}
}

func TestARolloutIsFinishedWhateverHappensInTheMiddleOfIt(t *testing.T) {
	for _, row := range []struct {
		name string
		then func(w *kit.World)
		size int
	}{
		{"the pool grows", func(w *kit.World) { w.Scale("p", 6) }, 6},
		{"the pool shrinks", func(w *kit.World) { w.Scale("p", 2) }, 2},
		{"the pool shrinks to nothing", func(w *kit.World) { w.Scale("p", 0) }, 0},
		{"the template changes twice more", func(w *kit.World) { w.ChangeTemplate("t", "image:4"); w.ChangeTemplate("t", broken) }, 4},
		{"it is paused and goes on", func(w *kit.World) {
			w.Pause("p", true)
			w.Await(world.Progress("p", metav1.ConditionUnknown, "Paused"))
			w.Pause("p", false)
		}, 4},
		{"all old members are claimed", func(w *kit.World) {
			w.PatchPool("p", `{"updateStrategy":{"rollingUpdate":{"claimPolicy":"Any"}}}`)
			w.Create(world.Claim("a", "p"), world.Claim("b", "p"), world.Claim("c", "p"))
			w.Await(world.Bound("a", "b", "c"))
			w.Delete(w.Claims(), "a", "b", "c")
		}, 4},
		{"the strategy becomes Recreate", func(w *kit.World) { w.PatchPool("p", `{"updateStrategy":{"type":"Recreate","rollingUpdate":null}}`) }, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, _, _ := stuckRollout(t)
			row.then(w)
			good := w.ChangeTemplate("t", "image:3")
			w.Await(world.Fresh("p", good), world.Converged("p", row.size, "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
		})
	}
}

func TestAPoolThatIsDeletedInTheMiddleOfARolloutTakesItsMembersWithItAndNoMore(t *testing.T) {
	w, _, _ := stuckRollout(t)
	pool := w.Pool("p")
	w.Delete(w.Pools(), "p")
	w.Await(world.Deleted(pool), world.Bound("held"), func(s *world.Snapshot) error {
		if len(s.Sandboxes) != 1 || len(s.Pods) != 1 {
			return errWaits
		}
		return nil
	})
}

// The first new member is promised to a claim before it is ready: it makes good
// for no old one, although it looks free.
func TestAnOldMemberIsNotGivenUpForANewOneThatAClaimIsTaking(t *testing.T) {
	w, c := rollable(t, world.Rolling(world.Pool("p", 2), intstr.FromInt32(0), one))
	old := w.Members("p")
	w.Kubelet.Release(append(old, w.SandboxOf("held"))...)
	w.Kubelet.Hold()
	now := w.ChangeTemplate("t", "image:2")
	w.Await(stopped(2, 1, now), pods(4), warming("p", 1))
	w.Create(world.Claim("a", "p"))
	w.Await(world.HasReason("a", "AdoptionPending"))

	gate := c.Hold("sandbox", "adopt")
	for _, m := range w.Members("p") {
		w.Kubelet.Release(m)
	}
	w.Await(gate.Reached(), warming("p", 0)) // the pool has seen that the new one is ready
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d old members were given up, and the only new one is a claim's", n)
	}
	gate.Open()
	w.Await(world.Bound("a"))
	w.Kubelet.Release()
	w.Await(world.Fresh("p", now), world.Converged("p", 2, "held", "a"))
}

// What does not work is no less stuck when the last old member is gone.
func TestARolloutThatIsStuckStillSaysSoWhenClaimsHaveTakenTheLastOldMember(t *testing.T) {
	w, _, old := stuckRollout(t, open)
	bad := w.Revision("t")
	w.Create(world.Claim("a", "p"), world.Claim("b", "p"), world.Claim("c", "p"))
	w.Await(world.Bound("a", "b", "c"), stopped(0, 4, bad), counted("p", 4, 0))
	for _, claim := range []string{"a", "b", "c"} {
		if !slices.Contains(old, w.SandboxOf(claim)) {
			t.Errorf("claim %s got %s, and %q were free", claim, w.SandboxOf(claim), old)
		}
	}
	if err := progress(w, "p"); err != nil {
		t.Error(err)
	}
	good := w.ChangeTemplate("t", "image:3")
	w.Await(world.Fresh("p", good), world.Converged("p", 4, "held", "a", "b", "c"))
}

// progress returns an error if a pool does not say that its rollout is stuck.
func progress(w *kit.World, pool string) (err error) {
	w.Look(func(s *world.Snapshot) {
		err = world.Progress(pool, metav1.ConditionFalse, "ProgressDeadlineExceeded")(s)
	})
	return err
}
