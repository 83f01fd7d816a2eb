package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
	"github.com/kiln-sandbox/kiln/watch"
)

// marks are the labels that say for good what a sandbox was made from. Those with
// the hashes of a blueprint are a pool's, and end with the membership.
var marks = []string{apply.LabelRevision, apply.LabelTemplate}

var one = intstr.FromInt32(1)

// rolling is a pool that gives up one member at a time, and has one too many.
func rolling(name string, replicas int32, with ...func(*ext.RollingUpdate)) *ext.SandboxWarmPool {
	return world.Rolling(world.Pool(name, replicas), one, one, with...)
}

// rollable is a world with a full pool from the template t, and a claim "held"
// that was bound before anything changed.
func rollable(t *testing.T, pool *ext.SandboxWarmPool) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(world.Template("t"), pool, world.Claim("held", pool.Name))
	w.Await(world.Converged(pool.Name, int(*pool.Spec.Replicas), "held"))
	held := onServer(t, w, w.SandboxOf("held"))
	t.Cleanup(func() { // before the world ends
		if now := onServer(t, w, held.Name); now.ResourceVersion != held.ResourceVersion {
			t.Errorf("the sandbox of the claim was written to: it was\n  %s\nand is\n  %s", world.Change{Object: held}, world.Change{Object: now})
		}
	})
	return w, c
}

func onServer(t *testing.T, w *kit.World, sandbox string) *agents.Sandbox {
	t.Helper()
	s, err := w.Sandboxes().Get(w.Context(), sandbox, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnReplenishKeepsOldMembersAndHandsThemOutAsWhatTheyAre(t *testing.T) {
	w, c := rollable(t, world.Pool("p", 2))
	old, before := w.Members("p"), w.Revision("t")
	was := w.Sandbox(old[0]).Labels
	now := w.ChangeTemplate("t", "image:2")
	w.Await(world.Follows("p", now))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 2, "held", "a"))

	got := w.Sandbox(w.SandboxOf("a"))
	if !slices.Contains(old, got.Name) {
		t.Errorf("the claim got %s, and only %q were there", got.Name, old)
	}
	for _, label := range marks {
		if got.Labels[label] != was[label] {
			t.Errorf("the label %s of an old sandbox became %q", label, got.Labels[label])
		}
	}
	for _, label := range []string{apply.LabelBlueprintHash, apply.LabelPodTemplateHash} {
		if value, ok := got.Labels[label]; ok {
			t.Errorf("an adopted sandbox still has the label %s=%s", label, value)
		}
	}
	NewWithT(t).Expect(revisions(w)).To(ConsistOf(before, now))
	w.Create(world.Claim("b", "p"))
	w.Await(world.Converged("p", 2, "held", "a", "b"))
	if r := w.Sandbox(w.SandboxOf("b")).Labels[apply.LabelRevision]; r != now {
		t.Error("the claim got an old sandbox, and there was a new one")
	}
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d members were retired", n)
	}
}

// revisions are those of the members of p.
func revisions(w *kit.World) (all []string) {
	w.Look(func(s *world.Snapshot) {
		for _, name := range s.Members("p") {
			all = append(all, s.Sandboxes[name].Labels[apply.LabelRevision])
		}
	})
	return all
}

func TestRecreateReplacesAllOldMembersAtOnceAndWaitsForNoDeletion(t *testing.T) {
	w, c := rollable(t, world.Recreating(world.Pool("p", 3)))
	gate := kit.NewGate()
	for range 3 {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "delete"), Do: kit.Hold(gate)})
	}
	old := w.Members("p")
	now := w.ChangeTemplate("t", "image:2")
	w.Await(world.Full("p", 3), world.Fresh("p", now), func(s *world.Snapshot) error {
		for _, name := range old {
			if s.Sandboxes[name] == nil || s.PodState(name) != string(states.Stale) {
				return fmt.Errorf("%s does not wait for its deletion", name)
			}
		}
		return nil
	})
	w.Create(world.Claim("a", "p"))
	w.Await(world.Bound("a"))
	gate.Open()
	w.Await(world.Converged("p", 3, "held", "a"), world.Fresh("p", now), world.Progress("p", metav1.ConditionFalse, "Complete"))
	if r := w.Sandbox(w.SandboxOf("a")).Labels[apply.LabelRevision]; r != now {
		t.Error("the claim got an old sandbox")
	}
}

// Labels and annotations can be changed on a pod that runs, and nothing is changed at
// all by what stands on the template itself.
func TestLabelsMakeNoMemberOldUnlessThePoolAsksForThat(t *testing.T) {
	w, c := rollable(t, world.Recreating(world.Pool("p", 2)))
	old := w.Members("p")
	edit := func(patch string) {
		t.Helper()
		_, err := w.Templates().Patch(w.Context(), "t", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	edit(`{"metadata":{"annotations":{"example.com/note":"1"}}}`)
	edit(`{"spec":{"podTemplate":{"metadata":{"labels":{"team":"a"},"annotations":{"example.com/note":"1"}}}}}`)
	w.Await(observes(w, "t"), world.Converged("p", 2, "held"))
	if n := c.Wire.Count("sandbox", "retire"); n != 0 || !slices.Equal(w.Members("p"), old) {
		t.Errorf("%d members were retired", n)
	}
	_, err := w.Pools().Patch(w.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"annotations":{"agents.x-k8s.io/roll-on-metadata":"true"}}}`), metav1.PatchOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(world.All(world.Converged("p", 2, "held"), func(s *world.Snapshot) error {
		for _, m := range s.Members("p") {
			if pod, ok := s.Pods[m]; !ok || pod.Labels["team"] != "a" {
				return fmt.Errorf("member %s was not replaced", m)
			}
		}
		return nil
	}))
}

// Whoever changes a template and waits for the end must not take the end of the
// rollout before for it. The clock stands still: no pause of the status ever ends.
func TestAPoolSaysAtOnceThatItHasSeenAnotherTemplateOrSpec(t *testing.T) {
	for _, pool := range []*ext.SandboxWarmPool{world.Recreating(world.Pool("p", 2)), rolling("p", 2)} {
		t.Run(string(pool.Spec.UpdateStrategy.Type), func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			stands := time.Now()
			w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return stands } })
			w.Create(world.Template("t"), pool)
			w.Await(world.Full("p", 2), observes(w, "t"))
			w.Kubelet.Release(w.Members("p")...)
			w.Kubelet.Hold() // the next ones
			w.ChangeTemplate("t", "image:2")
			w.Await(world.All(observes(w, "t"), world.Progress("p", metav1.ConditionTrue, "RollingOut")))
			w.PatchPool("p", `{"updateStrategy":{"type":"OnReplenish","rollingUpdate":null}}`)
			w.Await(observes(w, "t"))
		})
	}
}

func TestARollingUpdateReplacesEveryMemberWithinItsBudget(t *testing.T) {
	for _, row := range []struct {
		size               int32
		unavailable, surge intstr.IntOrString
	}{
		{4, intstr.FromInt32(1), intstr.FromInt32(1)},
		{4, intstr.FromInt32(0), intstr.FromInt32(1)},
		{4, intstr.FromInt32(1), intstr.FromInt32(0)},
		{4, intstr.FromInt32(0), intstr.FromInt32(0)},
		{5, intstr.FromString("25%"), intstr.FromString("25%")},
		{3, intstr.FromString("100%"), intstr.FromString("100%")},
		{1, intstr.FromInt32(1), intstr.FromInt32(0)},
		{1, intstr.FromString("25%"), intstr.FromString("0%")},
	} {
		name := fmt.Sprintf("%d members, %s unavailable, %s surge", row.size, row.unavailable.String(), row.surge.String())
		t.Run(name, func(t *testing.T) {
			w, c := rollable(t, world.Rolling(world.Pool("p", row.size), row.unavailable, row.surge))
			now := w.ChangeTemplate("t", "image:2")
			w.Await(world.Fresh("p", now), world.Converged("p", int(row.size), "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
			if n := c.Wire.Count("sandbox", "retire"); n != int(row.size) {
				t.Errorf("%d members were retired, and there were %d", n, row.size)
			}
		})
	}
}

func TestAPausedRolloutReplacesNothingUntilItGoesOn(t *testing.T) {
	w, c := rollable(t, rolling("p", 3, open, func(r *ext.RollingUpdate) { r.Paused = true }))
	old := w.Members("p")
	now := w.ChangeTemplate("t", "image:2")
	w.Await(world.Follows("p", now), world.Progress("p", metav1.ConditionUnknown, "Paused"))
	w.Create(world.Claim("a", "p"))
	w.Await(world.Converged("p", 3, "held", "a"))
	if n := c.Wire.Count("sandbox", "retire"); n != 0 || !slices.Contains(old, w.SandboxOf("a")) {
		t.Errorf("%d members were retired, and the claim got %s", n, w.SandboxOf("a"))
	}
	w.Pause("p", false)
	w.Await(world.Fresh("p", now), world.Converged("p", 3, "held", "a"))
}

func TestAPoolThatIsPointedAtAnEqualTemplateIsRolledOutToo(t *testing.T) {
	for name, pool := range map[string]*ext.SandboxWarmPool{
		"rolling": rolling("p", 3), "all at once": world.Recreating(world.Pool("p", 3)),
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := rollable(t, pool)
			old := w.Members("p")
			w.Create(world.Template("u"))
			w.PatchPool("p", `{"sandboxTemplateRef":{"name":"u"}}`)
			w.Await(func(s *world.Snapshot) error {
				for _, m := range s.Members("p") {
					if slices.Contains(old, m) || s.Sandboxes[m].Annotations[apply.AnnotationTemplate] != "u" {
						return fmt.Errorf("member %s is of the other template", m)
					}
				}
				return nil
			}, world.Converged("p", 3, "held"), world.Progress("p", metav1.ConditionFalse, "Complete"))
		})
	}
}
