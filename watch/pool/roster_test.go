package pool

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// replicas is a pool of a size.
func replicas(n int) func(*ext.SandboxWarmPool) {
	return func(p *ext.SandboxWarmPool) { all := int32(n); p.Spec.Replicas = &all }
}

// later is an object of a resource version; n is later than all that are lower.
func later(n int) func(o metav1.Object) metav1.Object {
	return func(o metav1.Object) metav1.Object { o.SetResourceVersion(strconv.Itoa(n)); return o }
}

// large is a full pool of a size, and both loops have looked at it.
func large(t *testing.T, size int) (*world, *recorder) {
	t.Helper()
	w := aWorld(t, aPool(replicas(size)), aTemplate())
	for i := range size {
		name := fmt.Sprint("m", i)
		w.put(member(name))
		w.put(free(name))
	}
	r := w.writing()
	w.look(t)
	return w, r
}

// look has both loops step the pool.
func (w *world) look(t *testing.T) {
	t.Helper()
	w.g.Expect(loop.Step(t.Context(), Members{w.Pools}, key).Err).NotTo(HaveOccurred())
	w.g.Expect(loop.Step(t.Context(), Status{w.Pools}, key).Err).NotTo(HaveOccurred())
}

// visited is how often members were looked at since it was last asked.
func (w *world) visited() int {
	n := w.Roster.visits
	w.Roster.visits = 0
	return n
}

// claimed has a claim take a member, and what comes of it happen: both loops look
// after each event.
func (w *world) claimed(t *testing.T, name string) {
	t.Helper()
	claim := &ext.SandboxClaim{ObjectMeta: made("c", "c")}
	adopted := member(name, func(b *agents.Sandbox) {
		b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(claim, ext.SchemeGroupVersion.WithKind(ext.KindClaim))}
	})
	w.put(later(6)(adopted))
	w.look(t)
	w.put(later(7)(free(name, func(p *corev1.Pod) { p.Labels[apply.LabelState] = string(states.Bound) })))
	w.look(t)
}

func TestAClaimCostsAPoolTheSameHoweverManyMembersItHas(t *testing.T) {
	cost := func(size int) int {
		w, r := large(t, size)
		w.g.Expect(w.visited()).To(BeNumerically(">=", size), "the visits are counted")
		w.claimed(t, "m7")
		w.g.Expect(r.made).To(HaveLen(1), "the claim's is replaced")
		w.put(free(r.made[0]))
		w.look(t)
		w.g.Expect(r.status.ReadyReplicas).To(BeEquivalentTo(size))
		return w.visited()
	}
	few, many := cost(100), cost(10000)
	t.Logf("%d visits of 100 members, %d of 10000", few, many)
	NewWithT(t).Expect(many).To(Equal(few))
	NewWithT(t).Expect(many).To(BeNumerically("<=", 8))
}

func TestAScaleDownVisitsEachMemberABoundedNumberOfTimes(t *testing.T) {
	const size = 10000
	w, r := large(t, size)
	w.visited()
	w.put(later(999)(aPool(replicas(0), func(p *ext.SandboxWarmPool) { p.Generation++ })))
	w.look(t)
	w.g.Expect(w.Retirements.Len()).To(Equal(size), "all of them, by one plan")
	w.g.Expect(w.visited()).To(BeNumerically("<=", 3*size))
	for i := range size {
		w.leaves(fmt.Sprint("m", i))
		if i%100 == 0 {
			w.look(t)
		}
	}
	w.look(t)
	visits := w.visited()
	t.Logf("%.1f visits of each member on its way out", float64(visits)/size)
	w.g.Expect(visits).To(BeNumerically("<=", 6*size))
	w.g.Expect(r.made).To(BeEmpty())
	w.g.Expect(w.Roster.Len()).To(BeZero(), "nothing is remembered of them")
}

// leaves takes a member out that was given up.
func (w *world) leaves(name string) {
	gone := later(7)(member(name, retired)).(*agents.Sandbox)
	w.put(gone)
	w.Retirements.Drop(gone.UID)
	w.put(later(7)(free(name, func(p *corev1.Pod) { p.Labels[apply.LabelState] = string(states.Stale) })))
	w.Stores.Sandboxes.MarkDeleted(gone)
	w.Stores.Pods.MarkDeleted(free(name))
}

// Both loops look whenever a new member has become ready, and whenever an old one is
// gone.
func TestARollingUpdateVisitsEachMemberABoundedNumberOfTimes(t *testing.T) {
	cost := func(size int) float64 {
		w := aWorld(t, aPool(replicas(size), func(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = ext.Rolling }), aTemplate())
		left := map[string]bool{}
		for i := range size {
			name := fmt.Sprint("m", i)
			left[name] = true
			w.put(member(name, old))
			w.put(free(name))
		}
		r := w.writing()
		w.visited()
		w.look(t)
		for ready := 0; len(left) > 0 || ready < len(r.made); {
			w.g.Expect(len(r.made)).To(BeNumerically(">", ready), "the rollout goes on")
			for ; ready < len(r.made); ready++ {
				w.put(free(r.made[ready]))
				w.look(t)
			}
			for name := range left {
				if w.Retirements.Reason(types.UID(name)) != "" {
					delete(left, name)
					w.leaves(name)
					w.look(t)
				}
			}
		}
		w.g.Expect(r.status.Replicas).To(BeEquivalentTo(size), "some names were asked for twice")
		w.g.Expect(r.status.UpdatedReadyReplicas).To(BeEquivalentTo(size))
		return float64(w.visited()) / float64(2*size)
	}
	few, many := cost(100), cost(1000)
	t.Logf("%.1f visits of each member in a pool of 100, %.1f in one of 10000", few, many)
	NewWithT(t).Expect(many).To(BeNumerically("<=", few+2))
	NewWithT(t).Expect(many).To(BeNumerically("<=", 6))
}

// A change of the template looks at every member once, however often both loops look.
func TestAChangeOfTheTemplateVisitsEachMemberOnce(t *testing.T) {
	const size = 1000
	w, _ := large(t, size)
	w.visited()
	w.put(later(6)(aTemplate(func(t *ext.SandboxTemplate) {
		t.Generation++
		t.Spec.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"c","image":"new"}]}`)
	})))
	for range 5 {
		w.look(t)
	}
	w.g.Expect(w.visited()).To(Equal(size))
	w.g.Expect(w.Observe(key, learned{}).Facts.Counted.OldReady).To(Equal(size))
}

// What is counted member by member is what a look at all the objects finds, whatever
// has happened.
func TestARosterAgreesWithALookAtEverything(t *testing.T) {
	for seed := range uint64(150) {
		randomEvents(t, seed)
	}
}

func TestWhatIsSaidOfMembersIsSaidOfTheFirst(t *testing.T) {
	g := NewWithT(t)
	var s sayings
	g.Expect(s.first()).To(BeEmpty())
	s.say("b", "two")
	s.say("a", "one")
	s.say("c", "three")
	g.Expect(s.first()).To(Equal("one"))
	s.say("a", "")
	g.Expect(s.first()).To(Equal("two"))
	s.say("b", "")
	s.say("c", "")
	g.Expect(s.first()).To(BeEmpty())
	s.say("d", "four")
	g.Expect(s.first()).To(Equal("four"))
}

func TestAMemberCountsAsStuckWhenItsTimeHasCome(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m", starting, func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = noon
	}))
	now := noon.Time
	w.Now = func() time.Time { return now }
	f := w.Observe(key, learned{}).Facts
	w.g.Expect([]any{f.Counted.Stuck, f.StuckIn}).To(Equal([]any{0, 5 * time.Minute}))
	now = now.Add(5 * time.Minute)
	f = w.Observe(key, learned{}).Facts
	w.g.Expect([]any{f.Counted.Stuck, f.StuckIn}).To(Equal([]any{1, time.Duration(0)}))
	w.put(later(6)(free("m")))
	f = w.Observe(key, learned{}).Facts
	w.g.Expect([]any{f.Counted.Stuck, f.StuckIn}).To(Equal([]any{0, time.Duration(0)}))
	w.g.Expect(w.Observe(view.Key{Namespace: "b", Name: "p"}, learned{}).Facts.Gone).To(BeTrue())
}
