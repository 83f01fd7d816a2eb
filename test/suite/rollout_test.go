package suite

import (
	"errors"
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
	"github.com/kiln-sandbox/kiln/watch"
)

// marks are the labels that say for good what a sandbox was made from. Those with
// the hashes of a blueprint are a pool's, and end with the membership.
var marks = []string{apply.LabelRevision, apply.LabelTemplate}

var one = intstr.FromInt32(1)

// rolling is a pool that gives up one member at a time, and has one too many.
func rolling(name string, replicas int32, with ...func(*ext.RollingUpdate)) *ext.SandboxWarmPool {
	return kit.Rolling(kit.Pool(name, replicas), one, one, with...)
}

// rollable is a world with a full pool from the template t, and a claim "held"
// that was bound before anything changed.
func rollable(t *testing.T, pool *ext.SandboxWarmPool) (*kit.World, *kit.Controller) {
	t.Helper()
	t.Parallel()
	w := kit.New(t)
	c := w.Controller()
	w.Create(kit.Template("t"), pool, kit.Claim("held", pool.Name))
	w.Await(kit.Right(pool.Name, int(*pool.Spec.Replicas), "held"))
	held := onServer(t, w, w.Told("held"))
	t.Cleanup(func() { // before the world ends
		if now := onServer(t, w, held.Name); now.ResourceVersion != held.ResourceVersion {
			t.Errorf("the sandbox of the claim was written to: it was\n  %s\nand is\n  %s", kit.Change{Object: held}, kit.Change{Object: now})
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
	w, c := rollable(t, kit.Pool("p", 2))
	old, before := w.Members("p"), w.Revision("t")
	was := w.Sandbox(old[0]).Labels
	now := w.Retemplate("t", "image:2")
	w.Await(kit.Follows("p", now))
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Right("p", 2, "held", "a"))

	got := w.Sandbox(w.Told("a"))
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
	w.Create(kit.Claim("b", "p"))
	w.Await(kit.Right("p", 2, "held", "a", "b"))
	if r := w.Sandbox(w.Told("b")).Labels[apply.LabelRevision]; r != now {
		t.Error("the claim got an old sandbox, and there was a new one")
	}
	if n := c.Wire.Count("sandbox", "retire"); n != 0 {
		t.Errorf("%d members were retired", n)
	}
}

// revisions are those of the members of p.
func revisions(w *kit.World) (all []string) {
	w.Look(func(s *kit.Sight) {
		for _, name := range s.Members("p") {
			all = append(all, s.Sandboxes[name].Labels[apply.LabelRevision])
		}
	})
	return all
}

func TestRecreateReplacesAllOldMembersAtOnceAndWaitsForNoDeletion(t *testing.T) {
	w, c := rollable(t, kit.Recreating(kit.Pool("p", 3)))
	gate := kit.NewGate()
	for range 3 {
		c.Wire.Inject(kit.Fault{On: kit.On("sandbox", "delete"), Do: kit.Hold(gate)})
	}
	old := w.Members("p")
	now := w.Retemplate("t", "image:2")
	w.Await(kit.Full("p", 3), kit.Fresh("p", now), func(s *kit.Sight) error {
		for _, name := range old {
			if s.Sandboxes[name] == nil || s.Word(name) != string(states.Stale) {
				return fmt.Errorf("%s does not wait for its deletion", name)
			}
		}
		return nil
	})
	w.Create(kit.Claim("a", "p"))
	w.Await(kit.Bound("a"))
	gate.Open()
	w.Await(kit.Right("p", 3, "held", "a"), kit.Fresh("p", now), kit.Progress("p", metav1.ConditionFalse, "Complete"))
	if r := w.Sandbox(w.Told("a")).Labels[apply.LabelRevision]; r != now {
		t.Error("the claim got an old sandbox")
	}
}

// Labels and annotations can be changed on a pod that runs, and nothing is changed at
// all by what stands on the template itself.
func TestLabelsMakeNoMemberOldUnlessThePoolAsksForThat(t *testing.T) {
	w, c := rollable(t, kit.Recreating(kit.Pool("p", 2)))
	old := w.Members("p")
	edit := func(patch string) {
		t.Helper()
		_, err := w.Templates().Patch(w.Context(), "t", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	edit(`{"metadata":{"annotations":{"example.com/note":"1"}}}`)
	edit(`{"spec":{"podTemplate":{"metadata":{"labels":{"team":"a"},"annotations":{"example.com/note":"1"}}}}}`)
	w.Await(observes(w, "t"), kit.Right("p", 2, "held"))
	if n := c.Wire.Count("sandbox", "retire"); n != 0 || !slices.Equal(w.Members("p"), old) {
		t.Errorf("%d members were retired", n)
	}
	_, err := w.Pools().Patch(w.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"annotations":{"agents.x-k8s.io/roll-on-metadata":"true"}}}`), metav1.PatchOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w.Await(kit.Right("p", 2, "held"), func(s *kit.Sight) error {
		for _, m := range s.Members("p") {
			if s.Pods[m].Labels["team"] != "a" {
				return fmt.Errorf("member %s was not replaced", m)
			}
		}
		return nil
	})
}

// Whoever changes a template and waits for the end must not take the end of the
// rollout before for it. The clock stands still: no pause of the status ever ends.
func TestAPoolSaysAtOnceThatItHasSeenAnotherTemplateOrSpec(t *testing.T) {
	for _, pool := range []*ext.SandboxWarmPool{kit.Recreating(kit.Pool("p", 2)), rolling("p", 2)} {
		t.Run(string(pool.Spec.UpdateStrategy.Type), func(t *testing.T) {
			t.Parallel()
			w := kit.New(t)
			stands := time.Now()
			w.Controller(func(o *watch.Options) { o.Now = func() time.Time { return stands } })
			w.Create(kit.Template("t"), pool)
			w.Await(kit.Full("p", 2), observes(w, "t"))
			w.Kubelet.Release(w.Members("p")...)
			w.Kubelet.Hold() // the next ones
			w.Retemplate("t", "image:2")
			w.Await(kit.All(observes(w, "t"), kit.Progress("p", metav1.ConditionTrue, "RollingOut")))
			w.Repool("p", `{"updateStrategy":{"type":"OnReplenish","rollingUpdate":null}}`)
			w.Await(observes(w, "t"))
		})
	}
}

// observes wishes for p to speak of its spec and of a template as they are.
func observes(w *kit.World, template string) kit.Wish {
	t, err := w.Templates().Get(w.Context(), template, metav1.GetOptions{})
	return func(s *kit.Sight) error {
		if p := s.Pools["p"]; err != nil || p.Status.ObservedTemplateGeneration != t.Generation || p.Status.ObservedGeneration != p.Generation {
			return errors.Join(err, errWaits)
		}
		return nil
	}
}
