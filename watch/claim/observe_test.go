package claim

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func inB(o metav1.Object) metav1.Object { o.SetNamespace("b"); return o }

// of is what a step has learned of the claim.
func of(change func(*learned)) learned {
	known := learned{uid: "c-uid", version: "5"}
	change(&known)
	return known
}

// A row names the facts that differ from those of a new claim whose pool and template
// are there.
func TestWhatIsGatheredOfAClaim(t *testing.T) {
	fresh := states.ClaimFacts{State: states.Binding, Pool: states.PresenceShown, Template: states.PresenceShown, MaxWait: 10 * time.Second}
	but := func(change func(*states.ClaimFacts)) states.ClaimFacts { f := fresh; change(&f); return f }
	with := func(all ...metav1.Object) []metav1.Object { return append(all, aPool(), aTemplate()) }
	strictly := func(all ...metav1.Object) []metav1.Object { return append(all, aPool(strict), aTemplate()) }
	for _, row := range []struct {
		name  string
		has   []metav1.Object
		known learned
		want  states.ClaimFacts
	}{
		{"none", with(), learned{}, states.ClaimFacts{Gone: true}},
		{"a new one", with(aClaim()), learned{}, fresh},
		{"one that is being deleted", with(aClaim(func(c *ext.SandboxClaim) { c.DeletionTimestamp = &noon })), learned{},
			but(func(f *states.ClaimFacts) { f.Terminating = true })},
		{"one that names a sandbox", with(aClaim(named(ext.StateBound))), of(func(l *learned) { l.sandboxIs = states.PresenceHidden }),
			but(func(f *states.ClaimFacts) { f.State, f.Named, f.Sandbox = states.Bound, true, states.PresenceHidden })},
		{"one that needs a sandbox of its own", with(aClaim(env)), learned{}, but(func(f *states.ClaimFacts) {
			f.NeedsOwn, f.Problem = true, states.ReasonEnvRejected
		})},
		{"one that cannot be served as it is", with(aClaim(label("who", "me"))), learned{}, but(func(f *states.ClaimFacts) { f.Problem = states.ReasonInvalidMetadata })},
		{"one whose own sandbox was refused in this step", with(aClaim()), of(func(l *learned) {
			l.failure, l.reported = view.Problem{Reason: states.ReasonCreateRefused}, states.ReasonCreateRefused
		}), but(func(f *states.ClaimFacts) {
			f.Problem, f.Reported = states.ReasonCreateRefused, states.ReasonCreateRefused
		})},
		{"one that is in line", with(aClaim()), of(func(l *learned) {
			l.offer = shelf.Offer{Offer: states.OfferInLine, Since: noon.Add(-time.Minute), Still: noon.Add(-time.Second)}
		}), but(func(f *states.ClaimFacts) { f.Offer, f.Waited, f.Still = states.OfferInLine, time.Minute, time.Second })},
		{"one that was given a sandbox to take", with(aClaim()), of(func(l *learned) {
			l.offer = shelf.Offer{Offer: states.OfferTaken, Since: noon.Add(-time.Second)}
		}), but(func(f *states.ClaimFacts) { f.Offer = states.OfferTaken })},

		{"no pool", []metav1.Object{aClaim(), aTemplate()}, learned{}, but(func(f *states.ClaimFacts) {
			f.Pool, f.Template, f.Strict = states.PresenceUnseen, states.PresenceUnseen, true
		})},
		{"a pool of its name in another namespace", []metav1.Object{aClaim(), inB(aPool()), aTemplate()}, learned{}, but(func(f *states.ClaimFacts) {
			f.Pool, f.Template, f.Strict = states.PresenceUnseen, states.PresenceUnseen, true
		})},
		{"no pool, as the server says", []metav1.Object{aClaim()}, of(func(l *learned) { l.poolIs = states.PresenceMissing }), but(func(f *states.ClaimFacts) {
			f.Pool, f.Template, f.Strict = states.PresenceMissing, states.PresenceUnseen, true
		})},
		{"no template, as the server says", []metav1.Object{aClaim(), aPool()}, of(func(l *learned) { l.templateIs = states.PresenceMissing }),
			but(func(f *states.ClaimFacts) { f.Template = states.PresenceMissing })},
		{"a template of its name in another namespace", []metav1.Object{aClaim(), aPool(), inB(aTemplate())}, learned{},
			but(func(f *states.ClaimFacts) { f.Template = states.PresenceUnseen })},
		{"a strict pool", strictly(aClaim()), learned{}, but(func(f *states.ClaimFacts) { f.Strict = true })},

		{"a sandbox that it was given", with(aClaim(), aSandbox(owned)), learned{}, but(func(f *states.ClaimFacts) { f.Holds = states.HoldsWarm })},
		{"a sandbox of its own", with(aClaim(), aSandbox(owned, cold)), learned{}, but(func(f *states.ClaimFacts) { f.Holds = states.HoldsStarting })},
		{"a sandbox of its own that is Ready", with(aClaim(), aSandbox(owned, cold, ready)), learned{}, but(func(f *states.ClaimFacts) { f.Holds = states.HoldsReady })},
		{"a sandbox of another namespace that names its UID", with(aClaim(), inB(aSandbox(owned))), learned{}, fresh},
		{"a sandbox that a pool of its UID owns", with(aClaim(), aSandbox(func(b *agents.Sandbox) { b.OwnerReferences[0].UID = "c-uid" })), learned{}, fresh},
		{"a sandbox that it has refused", with(aClaim(func(c *ext.SandboxClaim) { c.Status.RefusedSandboxes = append(c.Status.RefusedSandboxes, "u") }), aSandbox(owned)), learned{}, fresh},
		{"a sandbox that is retired", with(aClaim(), aSandbox(owned, func(b *agents.Sandbox) { b.Annotations[apply.AnnotationRetired] = "surplus" })), learned{}, fresh},
		{"an outdated sandbox", with(aClaim(), aSandbox(owned, outdated)), learned{}, but(func(f *states.ClaimFacts) { f.Holds = states.HoldsWarm })},
		{"an outdated sandbox of a strict pool", strictly(aClaim(), aSandbox(owned, outdated)), learned{}, but(func(f *states.ClaimFacts) {
			f.Holds, f.Strict, f.Outdated = states.HoldsWarm, true, true
		})},
		{"a current sandbox of a strict pool", strictly(aClaim(), aSandbox(owned)), learned{}, but(func(f *states.ClaimFacts) {
			f.Holds, f.Strict = states.HoldsWarm, true
		})},
		{"a current sandbox of a pool that is gone", []metav1.Object{aClaim(), aSandbox(owned), aTemplate()}, learned{}, but(func(f *states.ClaimFacts) {
			f.Holds, f.Strict, f.Pool, f.Template = states.HoldsWarm, true, states.PresenceUnseen, states.PresenceUnseen
		})},
		{"a sandbox whose template is in another namespace, of a pool that is gone", []metav1.Object{aClaim(), aSandbox(owned), inB(aTemplate())}, learned{}, but(func(f *states.ClaimFacts) {
			f.Holds, f.Strict, f.Outdated, f.Pool, f.Template = states.HoldsWarm, true, true, states.PresenceUnseen, states.PresenceUnseen
		})},
		{"a sandbox whose labels somebody has changed", with(aClaim(named(ext.StateBound)), aSandbox(owned, func(b *agents.Sandbox) { b.Labels[apply.LabelLaunch] = "x" })), learned{}, but(func(f *states.ClaimFacts) {
			f.State, f.Named, f.Holds, f.Mislabelled = states.Bound, true, states.HoldsStarting, true
		})},
		{"one that another program has ended", with(aClaim(func(c *ext.SandboxClaim) {
			c.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionFalse, "ClaimExpired", "")}
		})), learned{}, but(func(f *states.ClaimFacts) { f.Ended = true })},
		{"a claim without annotations, where nobody writes them", with(aClaim(named(ext.StateBound)), aSandbox(owned)), learned{}, but(func(f *states.ClaimFacts) {
			f.State, f.Named, f.Holds = states.Bound, true, states.HoldsWarm
		})},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			w.g.Expect(w.Observe(key, row.known).Facts).To(Equal(row.want))
		})
	}
}

func TestAClaimMadeAgainUnderItsNameForgetsWhatTheStepHadLearned(t *testing.T) {
	w := aWorld(t, aClaim(func(c *ext.SandboxClaim) { c.UID, c.ResourceVersion = "again", "9" }), aPool(), aTemplate())
	s := w.Observe(key, learned{
		uid: "c-uid", version: "5", poolIs: states.PresenceMissing, sandboxIs: states.PresenceMissing, freshness: states.FreshnessProven,
		offer: shelf.Offer{Offer: states.OfferTaken}, failure: view.Problem{Reason: states.ReasonNameTaken}, reported: states.ReasonNameTaken,
	})
	w.g.Expect(s.learned).To(Equal(learned{uid: "again", version: "9"}))
	w.g.Expect(s.Facts).To(Equal(states.ClaimFacts{
		State: states.Binding, Pool: states.PresenceShown, Template: states.PresenceShown, MaxWait: 10 * time.Second,
	}))
}

func TestAnAnnotationOfOurOwnMakesNoClaimNewer(t *testing.T) {
	w := aWorld(t, aClaim(), aPool(strict), aTemplate())
	w.passed("5")
	s := w.Observe(key, learned{})
	w.g.Expect(s.Facts.Freshness).To(Equal(states.FreshnessProven), "both watches have passed it: nobody needs to ask")
	w.put(aClaim(func(c *ext.SandboxClaim) { c.ResourceVersion = "9" }))
	w.g.Expect(w.Observe(key, s.learned).Facts.Freshness).To(Equal(states.FreshnessProven))
	w.g.Expect(w.Observe(key, learned{}).Facts.Freshness).To(Equal(states.FreshnessUnknown), "another step begins with the claim as it is")
}

func TestTheAnnotationsOfAClaimAreAskedForOnce(t *testing.T) {
	w := aWorld(t, aClaim(named(ext.StateBound), toldReady), aSandbox(owned), aPool(), aTemplate())
	w.Annotate = func(view.Key) {}
	w.g.Expect(w.Observe(key, learned{}).Facts.Misannotated).To(BeTrue())
	w.g.Expect(w.Observe(key, of(func(l *learned) { l.annotating = true })).Facts.Misannotated).To(BeFalse())
}

func TestWhatIsGatheredOfAClaimsAnnotations(t *testing.T) {
	bound := named(ext.StateBound)
	for _, row := range []struct {
		name string
		has  []metav1.Object
		want states.AnnotationFacts
	}{
		{"none", nil, states.AnnotationFacts{Gone: true}},
		{"one that is being deleted", []metav1.Object{aClaim(bound, func(c *ext.SandboxClaim) { c.DeletionTimestamp = &noon }), aSandbox(owned)}, states.AnnotationFacts{Gone: true}},
		{"one that holds nothing", []metav1.Object{aClaim(bound)}, states.AnnotationFacts{Gone: true}},
		{"one whose sandbox is in another namespace", []metav1.Object{aClaim(bound), inB(aSandbox(owned))}, states.AnnotationFacts{Gone: true}},
		{"one that is bound and Ready", []metav1.Object{aClaim(bound, toldReady), aSandbox(owned)}, states.AnnotationFacts{Misannotated: true}},
		{"one that was never Ready has not all to say yet", []metav1.Object{aClaim(bound), aSandbox(owned)}, states.AnnotationFacts{}},
		{"one that is not bound yet has nothing to say", []metav1.Object{aClaim(), aSandbox(owned)}, states.AnnotationFacts{}},
		{"one whose annotations name it", []metav1.Object{aClaim(bound, toldReady, noted), aSandbox(owned)}, states.AnnotationFacts{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			l := &Annotations{Stores: w.Stores}
			w.g.Expect(l.Observe(key, struct{}{}).Facts).To(Equal(row.want))
		})
	}
}

func TestAClaimWakesItselfAndWhatItOwns(t *testing.T) {
	w := aWorld(t, aSandbox(owned), inB(aSandbox(owned)))
	w.ClaimChanged(store.Change[*ext.SandboxClaim]{Is: aClaim(), HasIs: true})
	w.g.Expect(w.woken).To(Equal([]string{"claim a/c", "sandbox a/s"}))
	w.g.Expect(w.Metrics.observed).To(HaveKey(aClaim().UID))
	w.ClaimChanged(store.Change[*ext.SandboxClaim]{Was: aClaim(), HadWas: true})
	w.g.Expect(w.Metrics.observed).To(BeEmpty(), "nothing is remembered of one that is gone")
}

func TestAPoolWakesTheClaimsThatHaveNoSandboxOrWhoseOwnStarts(t *testing.T) {
	other := func(name string, changes ...func(*ext.SandboxClaim)) *ext.SandboxClaim {
		c := aClaim(changes...)
		c.Name = name
		return c
	}
	w := aWorld(t, other("waits"), other("starts", named(ext.StateWarming)), other("ended", func(c *ext.SandboxClaim) { c.Status.State = ext.StateStale }), other("has", named(ext.StateBound)), inB(other("elsewhere")),
		other("another", func(c *ext.SandboxClaim) { c.Spec.WarmPoolRef.Name = "q" }))
	w.WakeWaiting(view.Key{Namespace: "a", Name: "p"})
	w.g.Expect(w.woken).To(ConsistOf("claim a/waits", "claim a/starts"))
}

func TestClaimsAreServedInTheOrderInWhichTheyWereMade(t *testing.T) {
	at := func(name, version string, seconds int, changes ...func(*ext.SandboxClaim)) *ext.SandboxClaim {
		return aClaim(append(changes, func(c *ext.SandboxClaim) {
			c.Name, c.ResourceVersion = name, version
			c.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
		})...)
	}
	reported := func(c *ext.SandboxClaim) { c.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }
	all := []*ext.SandboxClaim{
		at("sixth", "9", 2), at("fifth", "30", 1), at("fourth", "20", 1), at("third", "100", 1),
		at("second", "200", 1, reported), at("first", "500", 0),
	}
	all[3].ResourceVersion = "10"
	slices.SortFunc(all, Older)
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	NewWithT(t).Expect(names).To(Equal([]string{"first", "second", "third", "fourth", "fifth", "sixth"}))
}

func TestAClockThatJumpsWakesTheClaimsThatEnd(t *testing.T) {
	other := func(name string, change func(*ext.SandboxClaim)) *ext.SandboxClaim {
		c := aClaim(change)
		c.Name = name
		return c
	}
	w := aWorld(t, aClaim(), other("own", func(c *ext.SandboxClaim) { c.Spec.Lifecycle = &ext.Lifecycle{} }),
		other("given", func(c *ext.SandboxClaim) { c.Status.Lifecycle = &ext.Lifecycle{} }))
	w.WakeEnding()
	w.g.Expect(w.woken).To(ConsistOf("claim a/own", "claim a/given"))
}

// An hour is an hour, whatever was waited for it, and what a timer does that fires
// too early is wait again.
func TestAClaimEndsAtTheEarlierOfItsTwoEnds(t *testing.T) {
	hour := func(at time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(at)} }
	seconds := func(n int32) *int32 { return &n }
	done := view.Condition(view.Finished, metav1.ConditionTrue, "PodFailed", "Pod failed")
	done.LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
	finished := func(b *agents.Sandbox) { b.Status.Conditions = append(b.Status.Conditions, done) }
	for _, row := range []struct {
		name  string
		is    ext.Lifecycle
		has   *agents.Sandbox
		state ext.State
		want  states.Lifetime
	}{
		{"an hour to come", ext.Lifecycle{ShutdownTime: hour(time.Hour)}, aSandbox(owned), ext.StateBound, states.Lifetime{Ends: true, Left: time.Hour}},
		{"an hour that is over", ext.Lifecycle{ShutdownTime: hour(-time.Hour), ShutdownPolicy: ext.ShutdownDelete}, aSandbox(owned), ext.StateBound, states.Lifetime{Ends: true, Left: -time.Hour, Deletes: true}},
		{"work that goes on", ext.Lifecycle{TTLSecondsAfterFinished: seconds(90), ShutdownPolicy: ext.ShutdownRetain}, aSandbox(owned), ext.StateBound, states.Lifetime{}},
		{"work that is over", ext.Lifecycle{TTLSecondsAfterFinished: seconds(90)}, aSandbox(owned, finished), ext.StateBound, states.Lifetime{Ends: true, Left: 30 * time.Second}},
		{"work that has been over for long enough", ext.Lifecycle{TTLSecondsAfterFinished: seconds(0), ShutdownPolicy: ext.ShutdownDeleteForeground}, aSandbox(owned, finished), ext.StateBound, states.Lifetime{Ends: true, Left: -time.Minute, Deletes: true}},
		{"work that ends it before its hour", ext.Lifecycle{ShutdownTime: hour(time.Hour), TTLSecondsAfterFinished: seconds(90)}, aSandbox(owned, finished), ext.StateBound, states.Lifetime{Ends: true, Left: 30 * time.Second}},
		{"an hour that comes before", ext.Lifecycle{ShutdownTime: hour(time.Second), TTLSecondsAfterFinished: seconds(90)}, aSandbox(owned, finished), ext.StateBound, states.Lifetime{Ends: true, Left: time.Second}},
		{"work that its status remembers", ext.Lifecycle{TTLSecondsAfterFinished: seconds(90)}, nil, ext.StateStale, states.Lifetime{Ends: true, Left: 30 * time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := aClaim(named(row.state), func(c *ext.SandboxClaim) { c.Status.Lifecycle = &row.is })
			if row.has == nil {
				c.Status.Conditions = append(c.Status.Conditions, done)
			}
			w := aWorld(t, c, aPool(), aTemplate())
			if row.has != nil {
				w.put(row.has)
			}
			w.g.Expect(w.Observe(key, learned{}).Facts.Lifetime).To(Equal(row.want))
			c.Spec.Lifecycle, c.ResourceVersion = &ext.Lifecycle{}, "9"
			w.put(c)
			w.g.Expect(w.Observe(key, learned{}).Facts.Lifetime).To(Equal(states.Lifetime{}), "its own always wins")
		})
	}
}
