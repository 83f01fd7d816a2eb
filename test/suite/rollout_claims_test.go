package suite

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/test/kit"
)

// The first new member is promised to a claim before it is ready: it makes good
// for no old one, although for a moment it looks free.
func TestAnOldMemberIsNotGivenUpForANewOneThatAClaimIsTaking(t *testing.T) {
	w, c := rollable(t, kit.Rolling(kit.Pool("p", 2), intstr.FromInt32(0), one))
	old := w.Members("p")
	w.Kubelet.Release(append(old, w.Told("held"))...)
	w.Kubelet.Hold()
	now := w.Retemplate("t", "image:2")
	w.Await(stopped(2, 1, now), pods(4))
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Says("a", "AdoptionPending"))

	gate := c.Hold("sandbox", "adopt")
	said := c.Wire.Count("poolstatus", "report")
	for _, m := range w.Members("p") {
		w.Kubelet.Release(m)
	}
	w.Await(gate.Reached())
	w.Await(func(*kit.Sight) error { // the pool has looked, and says what it saw
		if c.Wire.Count("poolstatus", "report") == said {
			return errWaits
		}
		return nil
	})
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d old members were given up, and the only new one is a claim's", n)
	}
	gate.Open()
	w.Await(kit.Bound("a"))
	w.Kubelet.Release()
	w.Await(kit.Fresh("p", now), kit.Right("p", 2, "held", "a"))
}

// pods wishes for a number of pods.
func pods(n int) kit.Wish {
	return func(s *kit.Sight) error {
		if len(s.Pods) != n {
			return errWaits
		}
		return nil
	}
}

// What does not work is no less stuck when the last old member is gone.
func TestARolloutThatIsStuckStillSaysSoWhenClaimsHaveTakenTheLastOldMember(t *testing.T) {
	w, _, old := halfway(t, open)
	bad := w.Revision("t")
	w.Create(kit.Claim("a", "p"), kit.Claim("b", "p"), kit.Claim("c", "p"))
	w.Await(kit.Bound("a", "b", "c"), stopped(0, 4, bad), counted("p", 4, 0))
	for _, claim := range []string{"a", "b", "c"} {
		if !slices.Contains(old, w.Told(claim)) {
			t.Errorf("claim %s got %s, and %q were free", claim, w.Told(claim), old)
		}
	}
	if err := progress(w, "p"); err != nil {
		t.Error(err)
	}
	good := w.Retemplate("t", "image:3")
	w.Await(kit.Fresh("p", good), kit.Right("p", 4, "held", "a", "b", "c"))
}

// counted wishes for a pool's status to count so many members, and so many ready.
func counted(pool string, all, ready int32) kit.Wish {
	return func(s *kit.Sight) error {
		if p := s.Pools[pool]; p.Status.Replicas != all || p.Status.ReadyReplicas != ready {
			return errWaits
		}
		return nil
	}
}

// progress returns an error if a pool does not say that its rollout is stuck.
func progress(w *kit.World, pool string) (err error) {
	w.Look(func(s *kit.Sight) { err = kit.Progress(pool, metav1.ConditionFalse, "ProgressDeadlineExceeded")(s) })
	return err
}
