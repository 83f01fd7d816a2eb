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

func TestARolloutThatIsRolledBackKeepsTheMembersThatAreLeft(t *testing.T) {
	w, _, old := halfway(t)
	first := w.Retemplate("t", "image")
	w.Await(kit.Fresh("p", first), kit.Right("p", 4, "held"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
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
		{"the template changes twice more", func(w *kit.World) { w.Retemplate("t", "image:4"); w.Retemplate("t", spoilt) }, 4},
		{"it is paused and goes on", func(w *kit.World) {
			w.Pause("p", true)
			w.Await(kit.Progress("p", metav1.ConditionUnknown, "Paused"))
			w.Pause("p", false)
		}, 4},
		{"all old members are claimed", func(w *kit.World) {
			w.Repool("p", `{"updateStrategy":{"rollingUpdate":{"claimPolicy":"Any"}}}`)
			w.Create(kit.Claim("a", "p"), kit.Claim("b", "p"), kit.Claim("c", "p"))
			w.Await(kit.Bound("a", "b", "c"))
			w.Delete(w.Claims(), "a", "b", "c")
		}, 4},
		{"the strategy becomes Recreate", func(w *kit.World) { w.Repool("p", `{"updateStrategy":{"type":"Recreate","rollingUpdate":null}}`) }, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, _, _ := halfway(t)
			row.then(w)
			good := w.Retemplate("t", "image:3")
			w.Await(kit.Fresh("p", good), kit.Right("p", row.size, "held"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
		})
	}
}

func TestAPausedRolloutReplacesNothingUntilItGoesOn(t *testing.T) {
	w, c := rollable(t, rolling("p", 3, open, func(r *ext.RollingUpdate) { r.Paused = true }))
	old := w.Members("p")
	now := w.Retemplate("t", "image:2")
	w.Await(kit.Follows("p", now), kit.Progress("p", metav1.ConditionUnknown, "Paused"))
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 3, "held", "a"))
	if n := c.Wire.Count("sandbox", "retire"); n != 0 || !slices.Contains(old, w.Told("a")) {
		t.Errorf("%d members were retired, and the claim got %s", n, w.Told("a"))
	}
	w.Pause("p", false)
	w.Await(kit.Fresh("p", now), kit.Right("p", 3, "held", "a"))
}

func TestAPoolThatIsDeletedInTheMiddleOfARolloutTakesItsMembersWithItAndNoMore(t *testing.T) {
	w, _, _ := halfway(t)
	pool := w.Pool("p")
	w.Delete(w.Pools(), "p")
	w.Await(kit.Gone(pool), kit.Bound("held"), func(s *kit.Sight) error {
		if len(s.Sandboxes) != 1 || len(s.Pods) != 1 {
			return errWaits
		}
		return nil
	})
}

func TestAPoolThatIsPointedAtAnEqualTemplateIsRolledOutToo(t *testing.T) {
	for name, pool := range map[string]*ext.SandboxWarmPool{
		"rolling": rolling("p", 3), "all at once": kit.Recreating(kit.Pool("p", 3)),
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := rollable(t, pool)
			old := w.Members("p")
			w.Create(kit.Template("u"))
			w.Repool("p", `{"sandboxTemplateRef":{"name":"u"}}`)
			w.Await(func(s *kit.Sight) error {
				for _, m := range s.Members("p") {
					if slices.Contains(old, m) || s.Sandboxes[m].Annotations[apply.NoteTemplate] != "u" {
						return fmt.Errorf("member %s is of the other template", m)
					}
				}
				return nil
			}, kit.Right("p", 3, "held"), kit.Progress("p", metav1.ConditionFalse, "Complete"))
		})
	}
}
