package pool

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// randomEvents has anything happen to the members of two pools, and compares the
// roster with a look at every object after each event.
func randomEvents(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 21))
	now := noon.Time
	strategy := [...]ext.UpdateStrategyType{ext.OnReplenish, ext.Recreate, ext.Rolling}[seed%3]
	w := aWorld(t, aPool(func(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = strategy }, replicas(1+int(seed%5))), aTemplate(), aPool(func(p *ext.SandboxWarmPool) { p.Name, p.UID = "q", "other" }))
	w.Now = func() time.Time { return now }
	for version := 6; version < 90; version++ {
		name := fmt.Sprint("m", r.IntN(5))
		switch k := (view.Key{Namespace: "a", Name: name}); r.IntN(9) {
		case 0, 1, 2:
			w.put(later(version)(randomSandbox(r, name)))
		case 3, 4:
			w.put(later(version)(randomPod(r, name, now)))
		case 5:
			if b, ok := w.Stores.Sandboxes.Get(k); ok {
				w.Stores.Sandboxes.MarkDeleted(b)
			}
		case 6:
			if p, ok := w.Stores.Pods.Get(k); ok {
				w.Stores.Pods.MarkDeleted(p)
			}
		case 7:
			now = now.Add(time.Duration(r.IntN(200)) * time.Second)
			w.put(later(version)(aTemplate(func(t *ext.SandboxTemplate) {
				t.Generation = int64(version)
				t.Spec.PodTemplate.Spec.Raw = fmt.Appendf(nil, `{"nodeName":"%d"}`, r.IntN(2))
			})))
		case 8:
			uid := types.UID(fmt.Sprint(name, "-", r.IntN(2)))
			if w.Retirements.Reason(uid) != "" {
				w.Retirements.Drop(uid)
			} else {
				w.Retirements.Add(uid, memory.Retirement{Member: k, Pool: "u", Reason: states.ReasonSurplus})
			}
		}
		for _, pool := range []view.Key{key, {Namespace: "a", Name: "q"}} {
			lent := fmt.Sprint("m", r.IntN(6))
			w.agrees(t, seed, pool, lent)
			w.chooses(t, seed, pool, lent)
		}
	}
}

func randomSandbox(r *rand.Rand, name string) *agents.Sandbox {
	return member(name, func(b *agents.Sandbox) {
		b.UID = types.UID(fmt.Sprint(name, "-", r.IntN(2)))
		switch r.IntN(6) {
		case 0:
			b.OwnerReferences[0].UID = "other"
		case 1:
			b.OwnerReferences[0].Kind = ext.KindClaim
		case 2:
			retired(b)
		case 3:
			refused(b)
		case 4:
			old(b)
		}
	})
}

func randomPod(r *rand.Rand, name string, now time.Time) *corev1.Pod {
	return free(name, func(p *corev1.Pod) {
		p.OwnerReferences[0].UID = types.UID(fmt.Sprint(name, "-", r.IntN(2)))
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Duration(r.IntN(400)) * time.Second))
		switch r.IntN(5) {
		case 0, 1:
			starting(p)
		case 2:
			noRoom(p)
		case 3:
			p.Labels[apply.LabelState] = string(states.Stale)
		}
	})
}

// chooses compares the plan from the members that it asks for with the plan from all.
func (w *world) chooses(t *testing.T, seed uint64, pool view.Key, lent string) {
	t.Helper()
	s := w.Observe(pool, learned{loansKnown: true, loans: []string{lent}})
	all := s.Facts
	all.Members = w.Roster.Select(store.ID(s.pool), states.Choice{All: true}, []string{lent}).Members
	a, b := states.PlanPool(s.Facts), states.PlanPool(all)
	if a.Create != b.Create || !maps.Equal(reasons(a), reasons(b)) || reasons(a)[states.ReasonStuck] == 0 && !slices.Equal(names(a), names(b)) {
		t.Fatalf("seed %d: %+v of %+v, and %+v of all %+v", seed, a, s.Facts.Members, b, all.Members)
	}
}

// reasons counts what a plan retires by why; which of those that are stuck it names
// first does not matter.
func reasons(p states.PoolPlan) map[states.Reason]int {
	n := map[states.Reason]int{}
	for _, l := range p.Retire {
		n[l.Reason]++
	}
	return n
}

func names(p states.PoolPlan) (all []string) {
	for _, l := range p.Retire {
		all = append(all, l.Name)
	}
	slices.Sort(all)
	return all
}

// agrees compares a pool's counts with those of all objects.
func (w *world) agrees(t *testing.T, seed uint64, pool view.Key, lent string) {
	t.Helper()
	s := w.Observe(pool, learned{loansKnown: true, loans: []string{lent}})
	id := store.ID(s.pool)
	var all []states.Member
	former, handing, next := 0, 1, time.Duration(0)
	for _, b := range w.Stores.Sandboxes.By(store.ByOwner, id) {
		if apply.OwnerOf(b).Kind != states.OwnerPool {
			continue
		}
		pod, _ := w.Stores.Pods.Get(view.KeyOf(b))
		m := view.Member(b, pod, s.blueprint.Matches(b, s.pool))
		m.Terminating = m.Terminating || w.Retirements.Reason(b.UID) != ""
		if m.Taken = m.Name == lent; m.Taken {
			handing = 0
		}
		if !m.Terminating && m.Pod != states.PodNone && m.Pod != states.PodForeign {
			var in time.Duration
			if m.Stuck, in = view.Health(b, pod).Stuck(w.Grace, w.Now()); in > 0 && (next == 0 || in < next) {
				next = in
			}
		}
		all = append(all, m)
	}
	for _, pod := range w.Stores.Pods.By(store.ByBirth, id) {
		if owner := apply.OwnerOf(pod); !w.exists(view.OwnerKey(pod), types.UID(owner.UID)) {
			former++
		}
	}
	f := s.Facts
	if *f.Counted != states.CensusOf(all) || f.Former != former || f.Handing != handing || f.StuckIn != next {
		t.Fatalf("seed %d: %+v, %d former, %d handing, stuck in %s; want %+v, %d, %d, %s", seed, *f.Counted, f.Former, f.Handing, f.StuckIn,
			states.CensusOf(all), former, handing, next)
	}
}
