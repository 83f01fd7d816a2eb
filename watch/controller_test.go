package watch

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A standby is a controller whose informers never run: the test is its watch.
type standby struct {
	*Controller
	g        Gomega
	registry *prometheus.Registry
}

func alone(t *testing.T, change ...func(*Options)) standby {
	t.Helper()
	g, cfg, registry := NewWithT(t), &rest.Config{Host: "http://localhost"}, prometheus.NewRegistry()
	a, err := apply.New(cfg, apply.Options{Component: "kiln"})
	g.Expect(err).NotTo(HaveOccurred())
	opts := DefaultOptions()
	opts.Metrics = registry
	for _, one := range change {
		one(&opts)
	}
	c, err := New(cfg, a, opts)
	g.Expect(err).NotTo(HaveOccurred())
	return standby{c, g, registry}
}

// depth is how many keys wait in all queues.
func (s standby) depth() (n float64) {
	families, err := s.registry.Gather()
	s.g.Expect(err).NotTo(HaveOccurred())
	for _, f := range families {
		if f.GetName() == "workqueue_depth" {
			for _, m := range f.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: "5"}
}

func owned(o metav1.ObjectMeta, kind, by string) metav1.ObjectMeta {
	o.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: by, UID: types.UID(by), Controller: new(true)}}
	return o
}

// life is what a standby sees of one claim: ten events of the claim, its sandbox and
// its pod, from the first to the last.
func (s standby) life(i int) {
	claim := &ext.SandboxClaim{ObjectMeta: named(fmt.Sprint("c", i))}
	claim.Spec.WarmPoolRef.Name = "p"
	bound := claim.DeepCopy()
	bound.Status.State, bound.Status.SandboxStatus.Name = ext.StateBound, fmt.Sprint("s", i)
	member := &agents.Sandbox{ObjectMeta: owned(named(fmt.Sprint("s", i)), ext.KindPool, "p")}
	ready := member.DeepCopy()
	ready.Status.Conditions = []metav1.Condition{{Type: view.Ready, Status: metav1.ConditionTrue}}
	adopted := ready.DeepCopy()
	adopted.ObjectMeta = owned(adopted.ObjectMeta, ext.KindClaim, claim.Name)
	pod := &corev1.Pod{ObjectMeta: owned(named(member.Name), agents.KindSandbox, member.Name)}
	free := pod.DeepCopy()
	free.Labels = map[string]string{apply.LabelState: string(states.Ready)}
	free.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}

	sees(s, nil, member)
	sees(s, nil, pod)
	sees(s, pod, free)
	sees(s, member, ready)
	sees(s, nil, claim)
	sees(s, ready, adopted)
	sees(s, claim, bound)
	sees(s, bound, nil)
	sees(s, adopted, nil)
	sees(s, free, nil)
}

// sees has a standby's watch show a change.
func sees[T interface {
	comparable
	store.Object
}](s standby, was, is T) {
	var none T
	change := store.Change[T]{Was: was, Is: is, HadWas: was != none, HasIs: is != none}
	switch one := any(change).(type) {
	case store.Change[*corev1.Pod]:
		s.shows(0, change.Newest(), change.HasIs)
		s.sandboxes.PodChanged(one)
	case store.Change[*agents.Sandbox]:
		s.shows(1, change.Newest(), change.HasIs)
		s.sandboxes.SandboxChanged(one)
	case store.Change[*ext.SandboxClaim]:
		s.shows(2, change.Newest(), change.HasIs)
		s.Claims.ClaimChanged(one)
	case store.Change[*ext.SandboxWarmPool]:
		s.shows(3, change.Newest(), change.HasIs)
		s.pools.PoolChanged(one)
	}
}

// shows has one of the informers show an object, or show it no more.
func (s standby) shows(informer int, o any, is bool) {
	indexer := s.stores.Informers()[informer].GetIndexer()
	if is {
		s.g.Expect(indexer.Update(o)).To(Succeed())
	} else {
		s.g.Expect(indexer.Delete(o)).To(Succeed())
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func TestAStandbyThatSawAMillionEventsIsAsItWasBefore(t *testing.T) {
	const lives = 100_000 // of ten events each
	s := alone(t)
	p := &ext.SandboxWarmPool{ObjectMeta: named("p")}
	p.Spec.TemplateRef.Name = "t"
	sees(s, nil, p)
	s.life(0)
	before := heap()
	for i := range lives {
		s.life(i)
	}
	after := heap()
	t.Logf("heap %.1f MB before, %.1f MB after; %v keys wait", before/1e6, after/1e6, s.depth())
	s.g.Expect(s.depth()).To(BeZero())
	s.g.Expect(after-before).To(BeNumerically("<", 1e6), "ten bytes for each claim would be as much")
	runtime.KeepAlive(s.Controller)
}

func TestAControllerOfSandboxesAloneListensToNothingElse(t *testing.T) {
	s := alone(t, func(o *Options) { o.SandboxesOnly = true })
	s.g.Expect(s.synced).To(HaveLen(5))
	s.g.Expect(s.stores.SandboxInformers()).To(HaveLen(5))
}

func TestAClaimRestsWhenItWasToldWhatItHas(t *testing.T) {
	s := alone(t)
	one := &ext.SandboxClaim{ObjectMeta: named("c")}
	rests := func() bool {
		s.shows(2, one.DeepCopy(), true)
		return s.claimRests(view.KeyOf(one))
	}
	for state, want := range map[ext.State]bool{"": false, ext.StateBinding: false, ext.StateWarming: false, ext.StateBound: true, ext.StateStale: true} {
		one.Status.State = state
		s.g.Expect(rests()).To(Equal(want), string(state))
	}
	one.DeletionTimestamp = &metav1.Time{}
	s.g.Expect(rests()).To(BeFalse(), "it is being deleted")
	s.g.Expect(s.claimRests(view.Key{Namespace: "a", Name: "gone"})).To(BeFalse())
}

func TestASandboxRestsWhenItsPodIsBoundAndItsStatusIsOfItsSpec(t *testing.T) {
	s := alone(t)
	b := &agents.Sandbox{ObjectMeta: named("s")}
	pod := &corev1.Pod{ObjectMeta: named("s")}
	rests := func() bool {
		s.shows(0, pod.DeepCopy(), true)
		s.shows(1, b.DeepCopy(), true)
		return s.sandboxRests(view.KeyOf(b))
	}
	b.Generation = 2
	b.Status.Conditions = []metav1.Condition{{Type: view.Ready, ObservedGeneration: 2}}
	s.g.Expect(rests()).To(BeFalse(), "its pod has no state")
	pod.Labels = map[string]string{apply.LabelState: string(states.Bound)}
	s.g.Expect(rests()).To(BeTrue())
	b.Generation = 3
	s.g.Expect(rests()).To(BeFalse(), "somebody changed its spec")
	b.Generation, b.DeletionTimestamp = 2, &metav1.Time{}
	s.g.Expect(rests()).To(BeFalse(), "it is being deleted")
}

// A pool's steps that wait for a place of their writes are as many as its members, and what
// a claim waits for is not behind them.
func TestAStepHurriesThatAClaimWaitsFor(t *testing.T) {
	s := alone(t)
	pool := &ext.SandboxWarmPool{ObjectMeta: named("p")}
	s.shows(3, pool, true)
	member := &agents.Sandbox{ObjectMeta: owned(named("m"), ext.KindPool, "p")}
	member.OwnerReferences[0].APIVersion = ext.SchemeGroupVersion.String()
	s.shows(1, member, true)
	s.shelves.Sync(view.KeyOf(member))
	one := &ext.SandboxClaim{ObjectMeta: named("c")}
	one.Spec.WarmPoolRef.Name = "p"
	s.shows(2, one, true)
	claim, sandbox := view.KeyOf(one), view.KeyOf(member)
	hurries := func() []bool { return []bool{s.claimHurries(claim), s.sandboxHurries(sandbox)} }

	s.g.Expect(hurries()).To(Equal([]bool{false, false}), "it has not asked")
	s.g.Expect(s.shelves.Take(pool, one, time.Now()).Offer).To(Equal(states.OfferInLine))
	s.g.Expect(hurries()).To(Equal([]bool{false, true}), "it waits for the member")

	one = one.DeepCopy()
	one.Status.State = ext.StateWarming
	s.shows(2, one, true)
	s.g.Expect(s.claimHurries(claim)).To(BeTrue(), "its own sandbox starts")
	own := &agents.Sandbox{ObjectMeta: owned(named("own"), ext.KindClaim, "c")}
	own.OwnerReferences[0].APIVersion = ext.SchemeGroupVersion.String()
	s.shows(1, own, true)
	s.g.Expect(s.sandboxHurries(view.KeyOf(own))).To(BeTrue())
	one = one.DeepCopy()
	one.Status.State = ext.StateBound
	s.shows(2, one, true)
	s.g.Expect([]bool{s.claimHurries(claim), s.sandboxHurries(view.KeyOf(own))}).To(Equal([]bool{false, false}), "it was told")
	gone := view.Key{Namespace: "a", Name: "gone"}
	s.g.Expect([]bool{s.claimHurries(gone), s.sandboxHurries(gone)}).To(Equal([]bool{false, false}))
}

func TestTheFlagOfClaimEventsSilencesNoPool(t *testing.T) {
	s := alone(t, func(o *Options) { o.ClaimEvents = false })
	s.g.Expect(s.Claims.Events).To(BeNil())
	s.g.Expect(s.pools.Events).NotTo(BeNil())
}
