package pool

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func inB(o metav1.Object) metav1.Object { o.SetNamespace("b"); return o }

func recreate(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = ext.Recreate }

// A row names the facts that differ from those of a pool of two whose template is
// there and that has no member.
func TestWhatIsGatheredOfAPool(t *testing.T) {
	empty := states.PoolFacts{Replicas: 2, Batch: 300, Template: states.PresenceShown, Budget: states.Budget{Surge: 1}}
	but := func(change func(*states.PoolFacts)) states.PoolFacts { f := empty; change(&f); return f }
	born := noon.Add(-time.Hour)
	m := states.Member{Name: "m", Pod: states.PodReady, State: states.Ready, Current: true, Node: "node", Born: born}
	bare := states.Member{Name: "m", State: states.Warming, Current: true, Born: born}
	has := func(m states.Member, changes ...func(*states.Member)) func(*states.PoolFacts) {
		for _, change := range changes {
			change(&m)
		}
		return func(f *states.PoolFacts) { f.Members = append(f.Members, m) }
	}
	with := func(all ...metav1.Object) []metav1.Object { return append(all, aPool(), aTemplate()) }
	for _, row := range []struct {
		name  string
		has   []metav1.Object
		known learned
		want  states.PoolFacts
	}{
		{"none", []metav1.Object{aTemplate()}, learned{}, states.PoolFacts{Gone: true}},
		{"one without members", with(), learned{}, empty},
		{"one that is being deleted", []metav1.Object{aPool(func(p *ext.SandboxWarmPool) { p.DeletionTimestamp = &noon }), aTemplate()}, learned{},
			but(func(f *states.PoolFacts) { f.Terminating = true })},
		{"one that is recreated", []metav1.Object{aPool(recreate), aTemplate()}, learned{}, but(func(f *states.PoolFacts) {
			f.Strategy, f.Budget = states.Recreate, states.Budget{Surge: 2}
		})},
		{"one whose creations were refused in this step", with(), learned{failure: apply.ErrRefused}, but(func(f *states.PoolFacts) { f.Refused = true })},

		{"no template", []metav1.Object{aPool()}, learned{}, but(func(f *states.PoolFacts) { f.Template = states.PresenceUnseen })},
		{"a template of its name in another namespace", []metav1.Object{aPool(), inB(aTemplate())}, learned{}, but(func(f *states.PoolFacts) { f.Template = states.PresenceUnseen })},
		{"no template, as the server says", []metav1.Object{aPool()}, learned{templateIs: states.PresenceMissing}, but(func(f *states.PoolFacts) { f.Template = states.PresenceMissing })},
		{"a template that the server cannot say anything about", []metav1.Object{aPool()}, learned{unreadable: errors.New("no")}, but(func(f *states.PoolFacts) {
			f.Template, f.TemplateUnreadable = states.PresenceUnseen, true
		})},
		{"a template that is none", []metav1.Object{aPool(), aTemplate(broken)}, learned{}, but(func(f *states.PoolFacts) { f.TemplateInvalid = true })},

		{"a member that is free", with(member("m"), free("m")), learned{}, but(has(m))},
		{"a member without a pod", with(member("m")), learned{}, but(has(bare))},
		{"a member whose pod is in another namespace", with(member("m"), inB(free("m"))), learned{}, but(has(bare))},
		{"a member of an older revision", with(member("m", old), free("m")), learned{}, but(has(m, func(m *states.Member) { m.Current = false }))},
		{"a member that is retired", with(member("m", retired), free("m")), learned{}, but(has(m, func(m *states.Member) { m.Terminating = true }))},
		{"a member whose pod is refused", with(member("m", refused)), learned{}, but(has(bare, func(m *states.Member) { m.Refused = true }))},
		{"a member that is stuck", with(member("m"), free("m", starting)), learned{}, but(has(m, func(m *states.Member) {
			m.Pod, m.State, m.Stuck = states.PodStarting, states.Warming, true
		}))},
		{"a member that a claim is taking", with(member("m"), free("m")), learned{loansKnown: true, loans: []string{"m"}}, but(func(f *states.PoolFacts) {
			f.LoansKnown = true
			has(m, func(m *states.Member) { m.Taken = true })(f)
		})},
		{"a member that is a claim's already, which has not been told", with(), learned{loansKnown: true, loans: []string{"m"}}, but(func(f *states.PoolFacts) {
			f.LoansKnown, f.Handing = true, 1
		})},
		{"a sandbox of another namespace that names its UID", with(inB(member("m")), inB(free("m"))), learned{}, empty},
		{"a sandbox of another pool", with(member("m", func(b *agents.Sandbox) { b.OwnerReferences[0].UID = "another" })), learned{}, empty},

		{"a pod that is left of a member", with(free("m")), learned{}, but(func(f *states.PoolFacts) { f.Former = 1 })},
		{"a pod that is left of a member whose name another has", with(member("m", func(b *agents.Sandbox) { b.UID = "another" }), free("m")), learned{},
			but(func(f *states.PoolFacts) {
				f.Former = 1
				has(bare, func(m *states.Member) { m.Pod = states.PodForeign })(f)
			})},
		{"a pod of another namespace that was born for its UID", with(inB(free("m"))), learned{}, empty},
		{"a pod that is left of what a claim had", with(free("m", func(p *corev1.Pod) { p.Labels[apply.LabelClaimUID] = "c" })), learned{}, empty},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			want, got := row.want, w.Observe(key, row.known).Facts
			if !want.Gone {
				members := w.Roster.Select("a/u", states.Choice{All: true}, row.known.loans).Members
				w.g.Expect(members).To(Equal(want.Members))
				census := states.CensusOf(want.Members)
				want.Counted, want.Members = &census, nil
			}
			w.g.Expect(got).To(Equal(want))
		})
	}
}

func TestWhatTheProcessRemembersOfAPoolIsAFact(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"))
	w.Memory.created("u", apply.ErrRefused)
	w.Problems.Set(view.Key{Namespace: "a", Name: "t"}, memory.PolicyProblem{Message: "no"})
	w.Retirements.Add("m", memory.Retirement{Member: view.Key{Namespace: "a", Name: "m"}, Reason: states.ReasonStuck})
	free := view.LossesFree(aPool())
	for range free + 1 {
		w.Churn.Add("u", free, noon.Time)
	}
	w.InFlight.Begin(member("gone"))
	w.InFlight.Begin(member("m"))
	w.InFlight.Begin(inB(member("elsewhere", func(b *agents.Sandbox) { b.UID = "other" })).(*agents.Sandbox))
	f := w.Observe(key, learned{}).Facts
	w.g.Expect(f.CreationsRefused).To(BeTrue())
	w.g.Expect(f.PolicyRefused).To(BeTrue())
	w.g.Expect(f.Counted.Terminating).To(Equal(1), "its pool has given it up")
	w.g.Expect(f.Hold).To(Equal(time.Second))
	w.g.Expect(f.Former).To(Equal(1), "of those whose sandbox is no more, in its own namespace")
}

func TestThePoolLooksAgainWhenTheNextMemberMayBeStuck(t *testing.T) {
	since := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			starting(p)
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-ago))
		}
	}
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m", since(time.Minute)), member("n"), free("n", since(3*time.Minute)))
	w.g.Expect(w.Observe(key, learned{}).Facts.StuckIn).To(Equal(2 * time.Minute))
}

func TestAPoolsStatusIsDecidedFromTheTemplateAndTheScheduler(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m", noRoom))
	f := Status{w.Pools}.Observe(key, learned{reported: true}).StatusFacts
	w.g.Expect(f.Unschedulable).To(BeTrue())
	w.g.Expect(f.Revision).To(Equal(revision()))
	w.g.Expect(f.Deadline).To(Equal(10 * time.Minute))
	w.g.Expect(f.Reported).To(BeTrue())
	w.g.Expect(f.Now).To(Equal(noon.Time))
	gone := Status{aWorld(t).Pools}
	w.g.Expect(gone.Decide(gone.Observe(key, learned{})).Reason).To(Equal(states.ReasonGone))
}

func TestAPoolWakesWhatFollowsItsSpec(t *testing.T) {
	all := []string{"pool a/p", "status in 0s of a/p", "freshness of a/p", "claims of a/p"}
	changed := func(change func(*ext.SandboxWarmPool)) store.Change[*ext.SandboxWarmPool] {
		return store.Change[*ext.SandboxWarmPool]{Was: aPool(), HadWas: true, Is: aPool(change), HasIs: true}
	}
	for _, row := range []struct {
		name   string
		change store.Change[*ext.SandboxWarmPool]
		want   []string
	}{
		{"one that is new", store.Change[*ext.SandboxWarmPool]{Is: aPool(), HasIs: true}, all},
		{"one whose status was written", changed(func(p *ext.SandboxWarmPool) { p.Status.Replicas = 1 }), nil},
		{"one with another spec", changed(func(p *ext.SandboxWarmPool) { p.Generation++ }), all},
		{"one that rolls on metadata from now on", changed(func(p *ext.SandboxWarmPool) {
			p.Annotations = map[string]string{apply.AnnotationRollOnMetadata: "true"}
		}), all},
		{"another of the name", changed(func(p *ext.SandboxWarmPool) { p.UID = "another" }), all},
		{"one that is gone", store.Change[*ext.SandboxWarmPool]{Was: aPool(), HadWas: true}, all},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, member("m"))
			w.writing()
			w.Memory.keep("u", "p-x")
			w.Churn.Add("u", 1, noon.Time)
			w.PoolChanged(row.change)
			w.g.Expect(w.woken).To(Equal(append([]string{"pool a/p"}, row.want...)))
			ended := row.change.Replaced() || !row.change.HasIs
			w.g.Expect(w.Churn.Wait("u", 0, noon.Time) == 0).To(Equal(ended))
			w.g.Expect(len(w.Memory.all) == 0).To(Equal(ended), "nothing is remembered of one that is gone")
		})
	}
}
