package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// words are what the Ready condition says for each reason, of a claim that holds a
// sandbox which is Ready: nothing of the facts is in them.
var words = map[states.Reason]string{
	states.ReasonPoolMissing:     `WarmPoolNotFound SandboxWarmPool "p" not found`,
	states.ReasonTemplateMissing: `TemplateNotFound SandboxTemplate "t" not found`,
	states.ReasonInLine:          `AdoptionPending waiting for a warm sandbox of pool "p"; one is starting`,
	states.ReasonSandboxLost:     `SandboxLost Sandbox "s" of this claim is gone, and what was in it is lost; create a new claim to get another`,
	states.ReasonInvalidMetadata: "InvalidMetadata what is wrong",
	states.ReasonEnvRejected:     "EnvVarsInjectionRejected what is wrong",
	states.ReasonEnvInvalid:      "ReconcilerError Error seen: what is wrong",
	states.ReasonExpired:         "ClaimExpired Claim expired. Sandbox cleanup initiated.",
	states.ReasonEnded:           "ClaimExpired Claim expired. Sandbox cleanup initiated.",
	states.ReasonExpiredForeign:  `ClaimExpired Claim expired. sandbox not owned by this claim: Sandbox "c" is owned by nobody; deletion skipped.`,
	states.ReasonVolumesRejected: "VolumeClaimTemplatesError what is wrong",
	states.ReasonTemplateInvalid: "ReconcilerError Error seen: what is wrong",
	states.ReasonNameTaken:       "ReconcilerError Error seen: what is wrong",
	states.ReasonCreateRefused:   "ReconcilerError Error seen: what is wrong",
	states.ReasonHandoverRefused: "ReconcilerError Error seen: what is wrong",
}

// followed are the reasons for which a claim says what its sandbox says.
var followed = []states.Reason{states.ReasonHolds, states.ReasonAdopted, states.ReasonOwnReady, states.ReasonOwnStarting}

// holds is a world whose claim holds a sandbox that is Ready.
func holds(t *testing.T) (*world, *recorder, Snapshot) {
	w := aWorld(t, aClaim(named(ext.StateBound)), aSandbox(owned, ready), aPool(), aTemplate())
	r := w.writing()
	s := w.Observe(key, learned{})
	s.problem.Message, s.stranger = "what is wrong", `Sandbox "c" is owned by nobody`
	return w, r, s
}

func TestTheConditionFollowsTheDecisionsReasonAndNotTheFacts(t *testing.T) {
	NewWithT(t).Expect(slices.Collect(maps.Keys(waiting))).To(ConsistOf(slices.Collect(maps.Keys(words))), "every row of the table is told here")
	for why, want := range words {
		t.Run(string(why), func(t *testing.T) {
			w, r, s := holds(t)
			w.g.Expect(s.Facts.Holds).To(Equal(states.HoldsWarm))
			known, err := w.Do(t.Context(), s, states.Decision{Act: states.Report, Reason: why})
			w.g.Expect(err).NotTo(HaveOccurred())
			w.g.Expect(known.reported).To(Equal(why))
			c := meta.FindStatusCondition(r.status.Conditions, view.Ready)
			w.g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
			w.g.Expect(c.Reason + " " + c.Message).To(Equal(want))
			w.g.Expect(c.Reason).To(Equal(waiting[why].reason))
			w.g.Expect(c.ObservedGeneration).To(BeEquivalentTo(3))
			if waiting[why].keeps {
				w.g.Expect(r.status.SandboxStatus.Name).To(Equal("s"), "it has it all the same")
				return
			}
			w.g.Expect(r.status.SandboxStatus).To(BeZero(), "what it waits for is not what it has")
		})
	}
	for _, why := range followed {
		t.Run(string(why), func(t *testing.T) {
			w, r, s := holds(t)
			_, err := w.Do(t.Context(), s, states.Decision{Act: states.Report, Reason: why})
			w.g.Expect(err).NotTo(HaveOccurred())
			c := meta.FindStatusCondition(r.status.Conditions, view.Ready)
			w.g.Expect(c.Reason+" "+c.Message).To(Equal("DependenciesReady Pod is Ready"), "it says what the sandbox says")
			w.g.Expect(r.status.SandboxStatus).To(Equal(ext.SandboxStatus{Name: "s", UID: "u", PodIPs: []string{"10.0.0.1"}}))
		})
	}
}

func TestAClaimSaysOfASandboxThatSaysNothingThatItIsNotReady(t *testing.T) {
	w := aWorld(t, aClaim(), aSandbox(owned), aPool(), aTemplate())
	r := w.writing()
	_, err := w.Do(t.Context(), w.Observe(key, learned{}), states.Decision{Act: states.Report, Reason: states.ReasonHolds})
	w.g.Expect(err).NotTo(HaveOccurred())
	c := meta.FindStatusCondition(r.status.Conditions, view.Ready)
	w.g.Expect(string(c.Status) + " " + c.Reason + " " + c.Message).To(Equal("False SandboxNotReady Sandbox is not ready"))
}

func TestAClaimTellsOfTheEndOfItsSandbox(t *testing.T) {
	done := view.Condition(view.Finished, metav1.ConditionTrue, "PodSucceeded", "")
	w := aWorld(t, aClaim(), aSandbox(owned, ready, func(b *agents.Sandbox) { b.Status.Conditions = append(b.Status.Conditions, done) }), aPool(), aTemplate())
	r := w.writing()
	_, err := w.Do(t.Context(), w.Observe(key, learned{}), states.Decision{Act: states.Report, Reason: states.ReasonHolds})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(meta.IsStatusConditionTrue(r.status.Conditions, view.Finished)).To(BeTrue())
}

func TestWhatAClaimHasRefusedIsRememberedUntilItHasOneOrIsLost(t *testing.T) {
	for why, keeps := range map[states.Reason]bool{states.ReasonInLine: true, states.ReasonPoolMissing: true, states.ReasonSandboxLost: false, states.ReasonAdopted: false} {
		t.Run(string(why), func(t *testing.T) {
			w, r, s := holds(t)
			s.claim.Status.RefusedSandboxes = append(s.claim.Status.RefusedSandboxes, "x")
			_, err := w.Do(t.Context(), s, states.Decision{Act: states.Report, Reason: why})
			w.g.Expect(err).NotTo(HaveOccurred())
			w.g.Expect(len(r.status.RefusedSandboxes) > 0).To(Equal(keeps))
		})
	}
}

// told are the Events about claims, of the sandbox s.
var told = map[states.Reason]string{
	states.ReasonAdopted:        `c Normal SandboxAdopted Adoption: Adopted warm pool Sandbox "s"`,
	states.ReasonNoneWarm:       `c Normal SandboxProvisioned Provisioning: Created Sandbox "c"`,
	states.ReasonOutdated:       `c Normal SandboxOutdated Adoption: Sandbox "s" is of an older template than the claim may get; taking another`,
	states.ReasonExpired:        "c Normal ClaimExpired Claim Expired: Claim expired",
	states.ReasonExpiredForeign: "c Normal ClaimExpired Claim Expired: Claim expired",
	states.ReasonExpiredGoes:    "c Normal ClaimExpired Deleting: Deleting Claim (ShutdownPolicy=DeleteForeground)",
	states.ReasonSandboxLost:    `c Warning SandboxLost Losing: Sandbox "s" of this claim is gone, and what was in it is lost; create a new claim to get another`,
}

// acts are the decisions that an Event follows, whatever their reason.
var acts = map[string]states.Decision{
	"move":   {Act: states.Move, About: states.About{Event: states.EventLost}},
	"refuse": {Act: states.Refuse},
	"create": {Act: states.Create},
	"delete": {Act: states.Delete},
}

func TestTheEventFollowsTheDecisionsReason(t *testing.T) {
	NewWithT(t).Expect(slices.Collect(maps.Keys(occasions))).To(ConsistOf(slices.Collect(maps.Keys(told))), "every row of the table is told here")
	for why, want := range told {
		for act, d := range acts {
			if (why == states.ReasonNoneWarm) != (act == "create") || (why == states.ReasonExpiredGoes) != (act == "delete") {
				continue // their Events are about another sandbox, and about the claim's end
			}
			t.Run(act+" "+string(why), func(t *testing.T) {
				w, r, s := holds(t)
				d.Reason = why
				s.claim.Spec.Lifecycle = &ext.Lifecycle{ShutdownPolicy: ext.ShutdownDeleteForeground}
				_, err := w.Do(t.Context(), s, d)
				w.g.Expect(err).NotTo(HaveOccurred())
				w.g.Expect(w.told(r)).To(Equal([]string{want}))
				if d.Act == states.Move {
					w.g.Expect(r.decided).To(Equal(d), "the log line is made from it")
				}
			})
		}
	}
}

func TestAReasonWithoutAnOccasionIsNoEventNorIsAWriteThatFailed(t *testing.T) {
	w, r, s := holds(t)
	_, err := w.Do(t.Context(), s, states.Decision{Act: states.Move, About: states.About{Event: states.EventLost}, Reason: states.ReasonOwnReady})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(w.told(r)).To(BeEmpty())
	w, r, s = holds(t)
	r.err = errors.New("no")
	_, err = w.Do(t.Context(), s, states.Decision{Act: states.Move, About: states.About{Event: states.EventLost}, Reason: states.ReasonSandboxLost})
	w.g.Expect(err).To(MatchError("no"))
	w.g.Expect(w.told(r)).To(BeEmpty())
}

func TestEveryReasonToTellAClaimIsWorded(t *testing.T) {
	g := NewWithT(t)
	problems := []states.Reason{"", states.ReasonInvalidMetadata, states.ReasonEnvRejected, states.ReasonVolumesRejected, states.ReasonEnvInvalid,
		states.ReasonTemplateInvalid, states.ReasonNameTaken, states.ReasonCreateRefused, states.ReasonHandoverRefused}
	decided := map[states.Reason]bool{}
	for _, state := range []states.State{states.Warming, states.Binding, states.Bound, states.Stale} {
		for _, held := range states.Holdings {
			for _, sandbox := range states.Presences {
				for _, pool := range states.Presences {
					for _, template := range states.Presences {
						for _, offer := range states.Offers {
							for _, problem := range problems {
								for _, named := range []bool{false, true} {
									d := states.StepClaim(states.ClaimFacts{
										State: state, Holds: held, Sandbox: sandbox, Pool: pool, Template: template, Offer: offer,
										Problem: problem, Named: named, Waited: 5 * time.Second, MaxWait: 10 * time.Second,
									})
									if d.Act == states.Report || d.Act == states.Move {
										decided[d.Reason] = true
									}
								}
							}
						}
					}
				}
			}
		}
	}
	for _, f := range []states.ClaimFacts{{Ended: true}, {Lifetime: states.Lifetime{Ends: true}}, {Lifetime: states.Lifetime{Ends: true}, Foreign: true}} {
		f.State = states.Bound
		decided[states.StepClaim(f).Reason] = true
	}
	for why := range decided {
		_, waits := waiting[why]
		g.Expect(waits || slices.Contains(followed, why)).To(BeTrue(), string(why))
	}
	for why := range waiting {
		g.Expect(decided).To(HaveKey(why), "a row that nothing decides is none")
		g.Expect(states.Remedies).To(HaveKey(why), "every reason has a remedy")
	}
	for _, why := range followed {
		g.Expect(decided).To(HaveKey(why))
	}
}

// lends is a world with a free member on the shelf.
func lends(t testing.TB, all ...metav1.Object) (*world, *recorder) {
	w := aWorld(t, append(all, aTemplate(), aSandbox(ready), aPod())...)
	r := w.writing()
	w.Shelves.Sync(view.KeyOf(aSandbox()))
	return w, r
}

func TestAWarmClaimIsThreeWritesAndTheRestLooksAfterThem(t *testing.T) {
	w, r := lends(t, aClaim(), aPool())
	w.Quiet = func() bool { return false }
	w.Annotate = func(k view.Key) { w.woken = append(w.woken, "annotations "+k.String()) }
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(Equal([]string{"adopt s", "handed s", "bound"}))
	w.g.Expect(r.status.State).To(Equal(ext.StateBound))
	w.g.Expect(w.woken).To(Equal([]string{"sandbox a/s", "pool a/p", "annotations a/c"}))
	w.g.Expect(w.Shelves.Loans("p-uid")).To(BeEmpty())
	w.g.Expect(w.told(r)).To(Equal([]string{told[states.ReasonAdopted]}))
}

func TestAClaimThatIsServedAloneIsAnnotatedBesideTheHandOverAndItsStatusSaysTheSame(t *testing.T) {
	w, r := lends(t, aClaim(), aPool())
	w.Annotate = func(k view.Key) { w.woken = append(w.woken, "annotations "+k.String()) }
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(HaveExactElements(Equal("adopt s"), HavePrefix(""), HavePrefix(""), Equal("bound")))
	w.g.Expect(r.wrote).To(ContainElements("handed s", "annotate s 12:00:00"))
	w.g.Expect(w.woken).To(Equal([]string{"sandbox a/s", "pool a/p"}), "nothing is left to annotate")
	claim, _ := w.Stores.Claims.Get(key)
	w.g.Expect(claim.Annotations[apply.AnnotationFirstReady]).To(Equal(claim.Status.Startup.FirstReadyTime.UTC().Format(time.RFC3339Nano)))
}

func TestAnnotationsThatCannotBeWrittenBesideTheHandOverHoldNothingUp(t *testing.T) {
	w, r := lends(t, aClaim(), aPool())
	w.Writer = annotatesNothing{r}
	w.Annotate = func(k view.Key) { w.woken = append(w.woken, "annotations "+k.String()) }
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(Equal([]string{"adopt s", "handed s", "bound"}))
	w.g.Expect(w.woken).To(ContainElement("annotations a/c"))
}

// annotatesNothing is a writer whose server refuses annotations.
type annotatesNothing struct{ *recorder }

func (r annotatesNothing) AnnotateClaim(context.Context, *ext.SandboxClaim, apply.ClaimAnnotations) (*ext.SandboxClaim, error) {
	return nil, apply.ErrRefused
}

func TestAClaimWhosePodMayNotBecomeItsOwnSaysSoAndIsTriedAgain(t *testing.T) {
	w, r := lends(t, aClaim(), aPool())
	w.Writer = refusesHandover{r}
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{Retry: true}))
	w.g.Expect(r.wrote).To(Equal([]string{"adopt s", "report"}))
	w.g.Expect(r.status.State).NotTo(Equal(ext.StateBound))
	w.g.Expect(r.status.Conditions[0].Message).To(Equal("Error seen: policy: refused"))
}

// refusesHandover is a writer whose server lets no pod change.
type refusesHandover struct{ *recorder }

func (r refusesHandover) MovePod(context.Context, apply.PodMove) (*corev1.Pod, error) {
	return nil, fmt.Errorf("policy: %w", apply.ErrRefused)
}

func TestAClaimWhosePodIsGoneIsToldOnceItsSandboxSaysSo(t *testing.T) {
	w := aWorld(t, aClaim(), aPool(), aTemplate(), aSandbox(owned, ready))
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(BeEmpty(), "the sandbox still says that it is Ready")
	w.put(aSandbox(owned, func(b *agents.Sandbox) { b.ResourceVersion = "6" }))
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(Equal([]string{"bound"}))
	w.g.Expect(r.status.Conditions[0].Status).To(Equal(metav1.ConditionFalse))
}

func TestAStrictClaimProvesBesideItsAdoptionThatItsSandboxIsCurrent(t *testing.T) {
	for _, row := range []struct {
		name   string
		proves states.Freshness
		fails  error
		wrote  []string
	}{
		{"it is", states.FreshnessProven, nil, []string{"adopt s", "handed s", "bound"}},
		{"the watches are behind, and it waits for them", states.FreshnessBehind, nil, []string{"adopt s"}},
		{"nobody can say", states.FreshnessUnknown, errors.New("no"), []string{"adopt s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, r := lends(t, aClaim(), aPool(strict))
			w.Prove = func(_ context.Context, version string, of Subject) (states.Freshness, error) {
				w.g.Expect(version).To(Equal("5"), "as it was at first sight")
				w.g.Expect(of).To(Equal(Subject{Pool: view.KeyOf(aPool()), Template: view.KeyOf(aTemplate())}))
				return row.proves, row.fails
			}
			got := loop.Step(t.Context(), w.Claims, key)
			w.g.Expect(got.Retry).To(Equal(row.fails != nil))
			w.g.Expect(r.wrote).To(Equal(row.wrote))
			w.g.Expect(w.Shelves.Loans("p-uid")).To(BeEmpty(), "the step is over, and so is the loan")
		})
	}
}

func TestAnOutdatedSandboxIsRefusedBeforeAnotherIsTaken(t *testing.T) {
	w := aWorld(t, aClaim(), aPool(strict), aTemplate(), aSandbox(owned, outdated))
	w.passed("5")
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote[:2]).To(Equal([]string{"refuse s", "create c"}))
	w.g.Expect(w.told(r)[0]).To(Equal(told[states.ReasonOutdated]))
}

func TestAClaimWithoutAWarmSandboxGetsOneOfItsOwn(t *testing.T) {
	w := aWorld(t, aClaim(), aPool(), aTemplate())
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote[:2]).To(Equal([]string{"create c", "coldstart"}))
	w.g.Expect(w.told(r)).To(Equal([]string{told[states.ReasonNoneWarm]}))
}

func TestWhatTheServerRefusesIsSaidAndTriedAgain(t *testing.T) {
	w := aWorld(t, aClaim(), aPool(), aTemplate())
	r := w.writing()
	w.Writer = refusing{r}
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{Retry: true}))
	w.g.Expect(r.wrote).To(Equal([]string{"report"}))
	w.g.Expect(r.status.Conditions[0].Message).To(Equal("Error seen: refused"))
}

// refusing is a writer whose server accepts no sandbox.
type refusing struct{ *recorder }

func (r refusing) CreateOwn(context.Context, *ext.SandboxClaim, apply.Blueprint) (*agents.Sandbox, error) {
	return nil, apply.ErrRefused
}

func TestATemplateThatIsNoneIsSaidOfTheClaim(t *testing.T) {
	w := aWorld(t, aClaim(), aPool(), aTemplate(func(t *ext.SandboxTemplate) { t.Spec.PodTemplate.Spec.Raw = []byte("no") }))
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(Equal([]string{"report"}))
	w.g.Expect(r.status.Conditions[0].Reason).To(Equal("ReconcilerError"))
}

func TestAClaimAdoptsOnlyAMemberOfItsPool(t *testing.T) {
	for _, row := range []struct {
		name string
		has  *agents.Sandbox
	}{
		{"it went in this moment", nil},
		{"another claim has it", aSandbox(func(b *agents.Sandbox) {
			owned(b)
			b.OwnerReferences[0].UID = "another"
		})},
		{"another pool made one of its name", aSandbox(func(b *agents.Sandbox) { b.OwnerReferences[0].UID = "another" })},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, aClaim(), aPool(), aTemplate())
			r := w.writing()
			if row.has != nil {
				w.put(row.has)
			}
			s := w.Observe(key, of(func(l *learned) {
				l.offer = shelf.Offer{Offer: states.Offer(states.OfferTaken), Member: view.KeyOf(aSandbox())}
			}))
			known, err := w.Do(t.Context(), s, states.Decision{Act: states.Adopt})
			w.g.Expect(err).NotTo(HaveOccurred())
			w.g.Expect(known.offer.Offer).To(Equal(states.OfferNone), "it asks the shelf again")
			w.g.Expect(r.wrote).To(BeEmpty())
		})
	}
}

func TestAStepThatEndsKeepsItsPlaceInLineAndGivesBackWhatItDoesNotNeed(t *testing.T) {
	w, _ := lends(t, aClaim(), aPool())
	s := w.Observe(key, learned{})
	_, err := w.Do(t.Context(), s, states.Decision{Act: states.AskShelf})
	w.g.Expect(err).NotTo(HaveOccurred())
	for _, keeps := range []states.Act{states.Wait, states.Retry} {
		_, err = w.Do(t.Context(), s, states.Decision{Act: keeps})
		w.g.Expect(err).NotTo(HaveOccurred())
		w.g.Expect(w.Shelves.Loans("p-uid")).To(ConsistOf("s"))
	}
	_, err = w.Do(t.Context(), s, states.Decision{Act: states.Rest})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(w.Shelves.Loans("p-uid")).To(BeEmpty())
}

func TestALossIsToldAndAHandThatEmptiedTheStatusLosesToo(t *testing.T) {
	w := aWorld(t, aClaim(func(c *ext.SandboxClaim) { c.Status.State = ext.StateBound }), aPool(), aTemplate())
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(Equal([]string{"lost"}))
	w.g.Expect(r.status.State).To(Equal(ext.StateStale))
}

func TestAnnotationsAreWrittenOnceWithTheTimeOfTheFirstSight(t *testing.T) {
	w := aWorld(t, aClaim(named(ext.StateBound), toldReady), aSandbox(owned))
	r := &recorder{}
	l := &Annotations{Stores: w.Stores, Writer: r, Metrics: NewMetrics(nil), Now: w.Now}
	l.Metrics.FirstObserved(aClaim(), noon.Add(-time.Minute))
	for range 2 {
		w.g.Expect(loop.Step(t.Context(), l, key)).To(Equal(loop.Result{}))
	}
	w.g.Expect(r.wrote).To(Equal([]string{"annotate s 11:59:00"}))
	w.g.Expect(l.Metrics.observed).To(BeEmpty(), "nothing measures it any more")
}

// late is a writer whose reports and annotations get their place after something has
// happened, and must not be sent then.
type late struct {
	*recorder
	applier *apply.Applier
	happens func()
}

// lately has a world write lately.
func lately(t *testing.T, w *world, r *recorder, happens func()) late {
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Error("asked for ", r.Method, r.URL) }))
	t.Cleanup(h.Close)
	a, err := apply.New(&rest.Config{Host: h.URL}, apply.Options{})
	w.g.Expect(err).NotTo(HaveOccurred())
	return late{r, a, happens}
}

func (l late) AnnotateClaim(ctx context.Context, c *ext.SandboxClaim, of apply.ClaimAnnotations) (*ext.SandboxClaim, error) {
	l.happens()
	return l.applier.AnnotateClaim(ctx, c, of)
}

func (l late) ReportClaim(ctx context.Context, c *ext.SandboxClaim, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	l.happens()
	return l.applier.ReportClaim(ctx, c, want)
}

func TestAClaimThatWasDeletedBeforeItsAnnotationsHadTheirPlaceGetsNone(t *testing.T) {
	claim := aClaim(named(ext.StateBound), toldReady)
	w := aWorld(t, claim, aSandbox(owned))
	l := &Annotations{
		Stores: w.Stores, Writer: lately(t, w, nil, func() { w.Stores.Claims.MarkDeleted(claim) }), Metrics: NewMetrics(nil), Now: w.Now,
	}
	w.g.Expect(loop.Step(t.Context(), l, key)).To(Equal(loop.Result{}))
}

func TestAClaimInLineSaysNothingOfThatOnceItsTurnHasComeOrItIsGone(t *testing.T) {
	for _, row := range []struct {
		name    string
		happens func(w *world)
		wrote   []string
	}{
		{"its turn has come", func(w *world) {
			w.put(aPod())
			w.Shelves.Sync(view.KeyOf(aSandbox()))
		}, []string{"adopt s", "handed s", "bound"}},
		{"it is gone", func(w *world) { w.Stores.Claims.MarkDeleted(aClaim()) }, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, aClaim(), aPool(), aTemplate(), aSandbox(ready))
			r := w.writing()
			w.Shelves.Sync(view.KeyOf(aSandbox())) // its pod is to come
			w.Writer = lately(t, w, r, func() { row.happens(w) })
			w.g.Expect(loop.Step(t.Context(), w.Claims, key).After).To(Equal(states.WaitQuietly))
			w.Now = func() time.Time { return noon.Add(states.WaitQuietly) }
			w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
			w.g.Expect(r.wrote).To(Equal(row.wrote))
		})
	}
}

// toldReady is a claim that says that it is Ready.
func toldReady(c *ext.SandboxClaim) {
	c.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionTrue, "DependenciesReady", "Pod is Ready")}
}

// refusesAdoption is a writer whose server lets nobody adopt anything.
type refusesAdoption struct{ *recorder }

func (r refusesAdoption) Adopt(_ context.Context, of apply.Claimed) (*agents.Sandbox, error) {
	r.wrote = append(r.wrote, "adopt "+of.Sandbox.Name)
	return nil, fmt.Errorf("policy: %w", apply.ErrRefused)
}

func TestAMemberThatTheServerRefusesToHandOutLeavesTheShelfAndTheClaimGetsAnother(t *testing.T) {
	w, r := lends(t, aClaim(), aPool())
	w.Writer = refusesAdoption{r}
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote).To(Equal([]string{"adopt s", "create c", "coldstart"}))
	w.g.Expect(w.woken).To(ContainElements("sandbox a/s after 5s", "pool a/p"))
	said, _ := w.Refusals.Of("p-uid")
	w.g.Expect(said.Member).To(Equal("s"))
	w.g.Expect(w.Shelves.Take(aPool(), aClaim(), noon.Time).Offer).To(Equal(states.Offer(states.OfferEmpty)), "it is on no shelf")
}

// The label is the template's by now, and an older member has another.
func TestAClaimIsNotGivenAMemberThatItsMetadataDoesNotFit(t *testing.T) {
	const k = "sandbox.users.io/tier"
	w := aWorld(t, aClaim(label(k, "lead")), aPool(), aTemplate(), aPod(), aSandbox(ready, func(b *agents.Sandbox) {
		b.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{k: "gold"}
	}))
	r := w.writing()
	w.Shelves.Sync(view.KeyOf(aSandbox()))
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote[:2]).To(Equal([]string{"create c", "coldstart"}), "it is told of no conflict")
	w.g.Expect(w.Shelves.Loans("p-uid")).To(BeEmpty())
	w.g.Expect(w.Shelves.Take(aPool(), aClaim(), noon.Time).Offer).To(Equal(states.Offer(states.OfferTaken)), "others may have it")
}

// The member was given a label after the shelf gave it to the claim.
func TestAClaimGivesBackAMemberThatDoesNotFitAnyMore(t *testing.T) {
	const k = "sandbox.users.io/tier"
	w := aWorld(t, aClaim(label(k, "lead")), aPool(), aTemplate(), aPod(), aSandbox(ready))
	r := w.writing()
	w.Shelves.Sync(view.KeyOf(aSandbox()))
	w.g.Expect(w.Shelves.Take(aPool(), aClaim(label(k, "lead")), noon.Time).Offer).To(Equal(states.Offer(states.OfferTaken)))
	w.g.Expect(w.Stores.Sandboxes.Put(aSandbox(ready, func(b *agents.Sandbox) {
		b.ResourceVersion = "99"
		b.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{k: "gold"}
	}))).To(Succeed())
	w.g.Expect(loop.Step(t.Context(), w.Claims, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.wrote[:2]).To(Equal([]string{"create c", "coldstart"}))
	w.g.Expect(w.Shelves.Loans("p-uid")).To(BeEmpty())
}
