package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func (w *world) onShelves() {
	w.Shelves = shelf.New(w.Stores, w.Retirements, func(view.Key) {}, func(view.Key) {})
}

// writing gives a world its shelves and a writer that records.
func (w *world) writing() *recorder {
	w.onShelves()
	r := &recorder{}
	w.Writer = r
	return r
}

// words are what the Ready condition says for each reason, of a sandbox whose pod is
// Ready: nothing of the facts is in them.
var words = map[states.Reason]string{
	states.ReasonPodReady:       "True DependenciesReady Pod is Ready",
	states.ReasonPodProblem:     "False ReconcilerError Error seen: quota",
	states.ReasonPodMultiple:    "False MultiplePods multiple Pods (1) are controlled by this Sandbox; refusing to choose or create a Pod",
	states.ReasonPodForeign:     `False ReconcilerError Error seen: pod "s" is owned by Sandbox s; delete it, or give the sandbox another name`,
	states.ReasonInvalid:        "False InvalidConfiguration Error seen: quota",
	states.ReasonSuspending:     "False SandboxSuspended Sandbox is suspending",
	states.ReasonExpired:        "False SandboxExpired Sandbox has expired",
	states.ReasonServiceMissing: "False DependenciesNotReady Pod is Ready",
	states.ReasonSuspended:      "False SandboxSuspended Sandbox is suspended",
	states.ReasonPodMissing:     "False DependenciesNotReady Pod does not exist",
	states.ReasonPodSucceeded:   "False PodSucceeded Pod completed successfully",
	states.ReasonPodFailed:      "False PodFailed Pod failed",
	states.ReasonPodTerminating: "False DependenciesNotReady Pod is terminating",
	states.ReasonPodPending:     "False DependenciesNotReady Pod exists with phase: Running",
	states.ReasonPodNoAddress:   "False DependenciesNotReady Pod is Ready but has no podIPs yet",
	states.ReasonPodUnready:     "False DependenciesNotReady Pod is Running but not Ready",
}

func TestTheConditionFollowsTheDecisionsReasonAndNotTheFacts(t *testing.T) {
	NewWithT(t).Expect(slices.Collect(maps.Keys(readiness))).To(ConsistOf(slices.Collect(maps.Keys(words))), "every row of the table is told here")
	for why, want := range words {
		t.Run(string(why), func(t *testing.T) {
			w := aWorld(t, aSandbox(), running())
			r := w.writing()
			s := w.Observe(key, learned{})
			s.problem.Message = "quota"
			w.g.Expect(s.Facts.Readiness).To(Equal(states.ReasonPodReady))
			known, err := w.Do(t.Context(), s, states.Decision{Act: states.Report, Reason: why})
			w.g.Expect(err).NotTo(HaveOccurred())
			w.g.Expect(known.reported).To(Equal(why))
			c := meta.FindStatusCondition(r.status.Conditions, view.Ready)
			w.g.Expect(string(c.Status) + " " + c.Reason + " " + c.Message).To(Equal(want))
			w.g.Expect(c.Reason).To(Equal(readiness[why].reason))
		})
	}
}

func TestEveryReasonToReportASandboxIsWorded(t *testing.T) {
	g := NewWithT(t)
	bits := []bool{false, true}
	seen := map[states.Reason]bool{}
	for _, pod := range states.PodViews {
		for _, phase := range []states.PodPhase{states.PodPhasePending, states.PodPhaseRunning, states.PodPhaseSucceeded, states.PodPhaseFailed} {
			for _, ready := range bits {
				for _, problem := range bits {
					for _, more := range []states.PodFacts{{}, {Suspended: true}, {Expired: true}, {Invalid: true}, {ServiceMissing: true}} {
						f := states.PodFacts{View: pod, Phase: phase, SaysReady: ready, Problem: problem}
						f.Suspended, f.Expired, f.Invalid, f.ServiceMissing = more.Suspended, more.Expired, more.Invalid, more.ServiceMissing
						seen[states.ReadinessOf(f)] = true
					}
				}
			}
		}
	}
	reported := map[states.Reason]bool{}
	for why := range seen {
		for _, holder := range states.Holders {
			for _, pod := range states.PodViews {
				for _, halted := range bits {
					d := states.StepSandbox(states.SandboxFacts{Holder: holder, Pod: pod, State: states.Ready, Blocked: halted, Readiness: why})
					if d.Act == states.Report {
						reported[d.Reason] = true
					}
				}
			}
		}
	}
	g.Expect(reported).NotTo(BeEmpty())
	for why := range reported {
		g.Expect(readiness).To(HaveKey(why))
	}
	for why := range readiness {
		g.Expect(reported).To(HaveKey(why), "a row that nothing decides is none")
	}
}

func TestAMoveAndARetirementCarryTheDecisionsReason(t *testing.T) {
	w := aWorld(t, aSandbox(ofPool), running(carries(states.Ready)), aPool())
	r := w.writing()
	w.Retirements.Add("u", memory.Retirement{Reason: states.ReasonStuck})
	s := w.Observe(key, learned{})
	for _, why := range []states.Reason{states.ReasonFree, states.ReasonClaimGone, states.ReasonCooled} {
		_, err := w.Do(t.Context(), s, states.Decision{Act: states.Move, About: states.About{Event: states.EventCooled}, Reason: why})
		w.g.Expect(err).NotTo(HaveOccurred())
	}
	var said []states.Reason
	for _, m := range r.moved {
		said = append(said, m.Decision.Reason)
	}
	w.g.Expect(said).To(Equal([]states.Reason{states.ReasonFree, states.ReasonClaimGone, states.ReasonCooled}), "the log line is made from it")
	_, err := w.Do(t.Context(), s, states.Decision{Act: states.Retire, Reason: states.ReasonOutdated})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(r.retired).To(Equal(states.ReasonOutdated), "and not what its pool asked for")
	w.g.Expect(w.Retirements.Reason("u")).To(BeEmpty(), "it is written")
	w.g.Expect(w.woken).To(HaveEach("pool a/p"))
}

func TestAStepOfASandboxEndsWhereNothingIsLeftToDo(t *testing.T) {
	for _, row := range []struct {
		name  string
		has   []metav1.Object
		err   error
		want  loop.Result
		tells func(w *world, r *recorder)
	}{
		{"none", nil, nil, loop.Result{}, nil},
		{"a user's gets its pod", []metav1.Object{aSandbox()}, nil, loop.Result{}, func(w *world, r *recorder) {
			w.g.Expect(r.pods).To(Equal(1))
			w.g.Expect(r.moved).To(HaveLen(1))
			w.g.Expect(r.status.PodIPs).NotTo(BeEmpty())
			w.g.Expect(w.InFlight.Of(aPool())).To(BeEmpty())
		}},
		{"a member's pod becomes free", []metav1.Object{aSandbox(ofPool), aPool(), running(carries(states.Warming))}, nil, loop.Result{}, func(w *world, r *recorder) {
			pod, _ := w.Stores.Pods.Get(key)
			w.g.Expect(view.StateOf(pod)).To(Equal(states.Ready))
		}},
		{"one whose time is over loses every pod, however many there are", []metav1.Object{aSandbox(ends(noon.Time)), running(), running(second), itsService()}, nil, loop.Result{}, func(w *world, r *recorder) {
			w.g.Expect(r.deleted).To(ConsistOf("pod s", "pod s-2", "service s"))
			w.g.Expect(r.status.Conditions).To(ContainElement(HaveField("Reason", "SandboxExpired")))
		}},
		{"a suspended one loses its pod", []metav1.Object{aSandbox(suspend), running(carries(states.Bound)), itsService()}, nil, loop.Result{}, func(w *world, r *recorder) {
			w.g.Expect(r.deleted).To(Equal([]string{"pod s"}))
			w.g.Expect(r.status.Conditions).To(ContainElement(HaveField("Message", "Sandbox is suspending")))
		}},
		{"storage, a pod and a Service are made in their order", []metav1.Object{aSandbox(stores, serves)}, nil, loop.Result{}, func(w *world, r *recorder) {
			w.g.Expect(r.pods).To(Equal(1))
			w.g.Expect(r.status.Service).To(Equal("s"))
		}},
		{"a refusal is said, and tried again with a back-off", []metav1.Object{aSandbox()}, nil, loop.Result{Retry: true}, func(w *world, r *recorder) {
			w.g.Expect(meta.FindStatusCondition(r.status.Conditions, view.Ready).Message).To(Equal("Error seen: refused"))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			r := w.writing()
			if row.want.Retry {
				w.Writer = refusing{r}
			}
			w.g.Expect(loop.Step(t.Context(), w.Sandboxes, key)).To(Equal(row.want))
			if row.tells != nil {
				row.tells(w, r)
			}
		})
	}
}

// refusing is a writer whose server accepts no pod.
type refusing struct{ *recorder }

func (r refusing) CreatePod(context.Context, *agents.Sandbox) (*corev1.Pod, error) {
	return nil, apply.ErrRefused
}

func TestARetiredSandboxGoesAfterItsPodsState(t *testing.T) {
	w := aWorld(t, aSandbox(ofPool, func(b *agents.Sandbox) { b.Annotations = map[string]string{apply.AnnotationRetired: "stuck"} }),
		aPool(), running(carries(states.Ready)))
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), w.Sandboxes, key)).To(Equal(loop.Result{}))
	w.g.Expect(r.moved).To(HaveLen(1))
	w.g.Expect(r.moved[0].Decision.About.Event).To(Equal(states.EventRetired))
	_, ok := w.Stores.Sandboxes.Get(key)
	w.g.Expect(ok).To(BeFalse())
}

// The sandbox's own watch may be ahead of its pod's: the next step begins before that
// shows what the last one has deleted.
func TestAPodIsDeletedOnceHoweverLateItsWatchIs(t *testing.T) {
	for _, gone := range []bool{false, true} {
		w := aWorld(t, aSandbox(suspend, func(b *agents.Sandbox) { // which the first step says, too
			b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: view.Suspended, Reason: reasonPodTerminating, ObservedGeneration: b.Generation})
		}), running(carries(states.Bound)))
		r := w.writing()
		if w.Writer = r; gone {
			w.Writer = ending{r}
		}
		for range 2 {
			w.g.Expect(loop.Step(t.Context(), w.Sandboxes, key)).To(Equal(loop.Result{}))
		}
		w.g.Expect(r.deleted).To(Equal([]string{"pod s"}))
		w.g.Expect(r.status.Conditions).To(ContainElement(HaveField("Message", map[bool]string{false: "Sandbox is suspending", true: "Sandbox is suspended"}[gone])))
	}
}

// ending is a writer whose server keeps no pod that was deleted: none of them runs.
type ending struct{ *recorder }

func (r ending) DeletePod(ctx context.Context, b *agents.Sandbox, p *corev1.Pod) (*corev1.Pod, error) {
	_, err := r.recorder.DeletePod(ctx, b, p)
	return nil, err
}

// late is a writer whose moves of pods get their place after something has happened.
type late struct {
	Writer
	applier *apply.Applier
	happens func()
}

func (l late) MovePod(ctx context.Context, m apply.PodMove) (*corev1.Pod, error) {
	l.happens()
	return l.applier.MovePod(ctx, m)
}

func TestAPodThatEndsBeforeItsMoveHadItsPlaceIsNotMoved(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Error("asked for ", r.Method, r.URL) }))
	t.Cleanup(h.Close)
	a, err := apply.New(&rest.Config{Host: h.URL}, apply.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := aWorld(t, aSandbox(ofClaim), aClaim(bound), running(carries(states.Ready)))
	s, tried := w.Observe(key, learned{}), 0
	w.Writer = late{w.writing(), a, func() {
		tried++
		w.put(running(carries(states.Ready), deleted, func(p *corev1.Pod) { p.ResourceVersion = "6" }))
	}}
	_, err = w.Do(t.Context(), s, states.Decision{Act: states.Move, About: states.About{Event: states.EventHanded}})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(tried).To(Equal(1))
}

func TestASandboxThatIsNoMemberIsNobodysToRetire(t *testing.T) {
	w := aWorld(t, aSandbox(ofClaim), aClaim(bound), running(carries(states.Bound)))
	w.writing()
	w.Retirements.Add("u", memory.Retirement{Reason: states.ReasonSurplus})
	w.g.Expect(loop.Step(t.Context(), w.Sandboxes, key)).To(Equal(loop.Result{}))
	w.g.Expect(w.Retirements.Reason("u")).To(BeEmpty())
}

func TestADeleteThatIsRefusedEndsTheStep(t *testing.T) {
	w := aWorld(t, aSandbox(suspend), running(carries(states.Bound)))
	r := w.writing()
	r.err = apply.ErrRefused
	w.g.Expect(loop.Step(t.Context(), w.Sandboxes, key).Retry).To(BeTrue())
	w.g.Expect(r.deleted).To(HaveLen(1), "and is not sent again at once")
}

func TestAWriteThatFailsEndsTheStepAndTheOwnerLooksAgain(t *testing.T) {
	w := aWorld(t, aSandbox(ofPool), aPool(), running(carries(states.Warming)))
	no := errors.New("no")
	w.writing().err = no
	got := loop.Step(t.Context(), w.Sandboxes, key)
	w.g.Expect(got.Retry).To(BeTrue())
	w.g.Expect(got.Err).To(MatchError(no))
	w.g.Expect(w.woken).To(ContainElement("pool a/p"))
}

func TestTheShelfSaysWhetherAnAdoptionIsUnderWay(t *testing.T) {
	w := aWorld(t, aSandbox(ofPool), aPool(), running(carries(states.Ready)))
	w.writing()
	w.Shelves.Sync(key)
	w.Shelves.Take(aPool(), aClaim(), noon.Time)
	taken := aSandbox(ofClaim)
	taken.ResourceVersion = "6"
	w.put(taken)
	w.put(aClaim())
	s := w.Observe(key, learned{reported: states.ReasonPodReady})
	d := w.Decide(s)
	w.g.Expect(fmt.Sprint(d.Act, " ", d.Reason)).To(Equal("ask-shelf LoanUnknown"))
	known, err := w.Do(t.Context(), s, d)
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(w.Decide(w.Observe(key, known)).Reason).To(Equal(states.ReasonAdopting), "its pod's state rests")
	w.Shelves.Done(view.KeyOf(aClaim()), "s")
	known, err = w.Do(t.Context(), s, d)
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(w.Decide(w.Observe(key, known)).Reason).To(Equal(states.ReasonClaimUnaware))
}

// Somebody else may own what is in the way, and no write of ours takes it away then.
func TestTheLabelsOfAPodAreMendedAFewTimesInAStepAndNotForEver(t *testing.T) {
	w := aWorld(t, aSandbox(ofPool), running(carries(states.Ready)), aPool())
	r := w.writing()
	w.differs = true
	known := learned{reported: states.ReasonPodReady}
	for range 5 {
		s := w.Observe(key, known)
		d := w.Decide(s)
		if d.Ends() {
			break
		}
		next, err := w.Do(t.Context(), s, d)
		w.g.Expect(err).NotTo(HaveOccurred())
		known = next
	}
	w.g.Expect(r.synced).To(Equal([]states.State{states.Ready, states.Ready, states.Ready}))
}
