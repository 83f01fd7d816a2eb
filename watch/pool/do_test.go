package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// words are what the conditions Degraded, Progressing and Ready say for each code of
// a report, of a pool that is as it shall be: nothing of the facts is in them.
var (
	problemWords = map[states.Reason]string{
		states.ReasonTemplateInvalid: "InvalidTemplate what is wrong",
		states.ReasonTemplateMissing: `TemplateNotFound SandboxTemplate "t" not found; create it in namespace a, or change spec.sandboxTemplateRef.name`,
		states.ReasonTemplateUnreadable: `TemplateUnreadable SandboxTemplate "t" cannot be read, and nothing is created meanwhile: no; ` +
			"it is tried again: if it stays, look at the API server, and at what the controller may get",
		states.ReasonPolicyRefused:  "NetworkPolicyRefused what is wrong with the policy",
		states.ReasonMembersRefused: "SandboxRefused the API server refuses to create sandboxes: refused",
		states.ReasonPodsRefused:    "PodRefused 1 pods cannot be created: ",
		states.ReasonAdoptionRefused: `AdoptionRefused the API server refuses to hand out Sandbox "m": no; it is tried again ever more rarely, and claims get others: ` +
			"mend what refuses, or delete the Sandbox",
		states.ReasonMembersEnd:    "MembersEnd members end as fast as they are made, so the next are made ever more slowly; look at the pods' events and logs",
		states.ReasonUnschedulable: "Unschedulable no node has room for some members: 0 of 3 nodes",
		states.ReasonAsPlanned:     "AsExpected nothing is in the way",
	}
	phaseWords = map[states.Phase]string{
		states.PhaseComplete:         "False Complete 2 of 2 members are ready",
		states.PhaseWarming:          "True Warming 2 of 2 members are ready",
		states.PhaseScalingDown:      "True ScalingDown 3 members are leaving",
		states.PhaseRollingOut:       "True RollingOut 1 of 2 members are of the current revision, 1 of them ready, and 3 are leaving",
		states.PhasePaused:           "Unknown Paused 1 of 2 members are of the current revision, 1 of them ready, and 3 are leaving; spec.updateStrategy.rollingUpdate.paused holds the rollout",
		states.PhaseDeadlineExceeded: "False ProgressDeadlineExceeded 1 of 2 members are of the current revision, 1 of them ready, and 3 are leaving, and no other has become ready for 10m0s; the old members stay: mend the template",
	}
	readyWords = map[states.Reason]string{
		states.ReasonMembersReady:   "MembersReady 2 of 2 members are ready",
		states.ReasonMembersMissing: "MembersNotReady 2 of 2 members are ready",
	}
	counted = states.PoolCount{Replicas: 2, Ready: 2, Updated: 1, UpdatedReady: 1, Terminating: 3, Refused: 1}
)

// full is a world whose pool is as it shall be.
func full(t *testing.T) (*world, *recorder, Snapshot) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"), member("n"), free("n"))
	r := w.writing()
	s := Status{w.Pools}.Observe(key, learned{})
	w.g.Expect(Status{w.Pools}.Decide(s).Reason).To(Equal(states.ReasonMembersReady))
	w.Memory.created("u", apply.ErrRefused)
	w.Refusals = memory.NewRefusals(w.Now)
	w.Refusals.Add(s.pool.UID, member("m"), "no", "no")
	s.problem, s.count.Unschedulable, s.unreadable = "what is wrong", "0 of 3 nodes", errors.New("no")
	s.policyProblem = "what is wrong with the policy"
	return w, r, s
}

// says is what the conditions say when a report is written.
func (w *world) says(t *testing.T, r *recorder, s Snapshot, report states.PoolReport) map[string]string {
	t.Helper()
	report.Count = counted
	d := states.Decision{Act: states.Report, About: states.About{Report: &report}, Reason: report.Ready}
	known, err := Status{w.Pools}.Do(t.Context(), s, d)
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(known.reported).To(BeTrue())
	w.g.Expect(r.decided).To(Equal(d), "the log line is made from it")
	all := map[string]string{}
	for _, c := range r.status.Conditions {
		w.g.Expect(c.ObservedGeneration).To(BeEquivalentTo(3))
		all[c.Type] = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	return all
}

func TestTheConditionsFollowTheDecisionsReasonsAndNotTheFacts(t *testing.T) {
	g := NewWithT(t)
	g.Expect(slices.Collect(maps.Keys(problems))).To(ConsistOf(slices.Collect(maps.Keys(problemWords))), "every row of the tables is told here")
	g.Expect(slices.Collect(maps.Keys(phases))).To(ConsistOf(slices.Collect(maps.Keys(phaseWords))))
	g.Expect(slices.Collect(maps.Keys(members))).To(ConsistOf(slices.Collect(maps.Keys(readyWords))))
	complete := states.Progress{Phase: states.PhaseComplete}
	for why, want := range problemWords {
		t.Run("degraded "+string(why), func(t *testing.T) {
			w, r, s := full(t)
			said := w.says(t, r, s, states.PoolReport{Degraded: why, Ready: states.ReasonMembersReady, Progress: complete})
			degraded := map[bool]string{true: "False ", false: "True "}[why == states.ReasonAsPlanned]
			w.g.Expect(said[view.Degraded]).To(Equal(degraded + want))
			w.g.Expect(said[view.Ready]).To(Equal("True " + readyWords[states.ReasonMembersReady]))
			progressing := phaseWords[states.PhaseComplete]
			if why == states.ReasonTemplateUnreadable {
				progressing = "Unknown " + want // what is current is not known
			}
			w.g.Expect(said[view.Progressing]).To(Equal(progressing))

			if why == states.ReasonAsPlanned {
				return
			}
			w, r, s = full(t)
			said = w.says(t, r, s, states.PoolReport{Degraded: why, Ready: why, Progress: complete})
			w.g.Expect(said[view.Ready]).To(HaveSuffix(want), "it keeps members from being ready")
			w.g.Expect(said[view.Progressing]).To(HaveSuffix(want))
		})
	}
	for at, want := range phaseWords {
		t.Run("progressing "+string(at), func(t *testing.T) {
			w, r, s := full(t)
			said := w.says(t, r, s, states.PoolReport{
				Degraded: states.ReasonAsPlanned, Ready: states.ReasonMembersReady, Progress: states.Progress{Phase: at},
			})
			w.g.Expect(said[view.Progressing]).To(Equal(want))
			w.g.Expect(r.status.Rollout.Phase).To(Equal(string(at)))
		})
	}
	for why, want := range readyWords {
		t.Run("ready "+string(why), func(t *testing.T) {
			w, r, s := full(t)
			said := w.says(t, r, s, states.PoolReport{Degraded: states.ReasonAsPlanned, Ready: why, Progress: complete})
			w.g.Expect(said[view.Ready]).To(HaveSuffix(want))
		})
	}
}

func TestEveryReasonToReportAPoolIsWorded(t *testing.T) {
	g := NewWithT(t)
	bits := []bool{false, true}
	degraded, ready, at := map[states.Reason]bool{}, map[states.Reason]bool{}, map[states.Phase]bool{}
	all := [][]states.Member{
		nil, {{State: states.Ready, Current: true}}, {{State: states.Ready}}, {{State: states.Warming, Refused: true}},
		{{State: states.Ready, Current: true}, {State: states.Ready, Current: true, Terminating: true}},
	}
	for _, template := range states.Presences {
		for _, strategy := range states.Strategies {
			for _, has := range all {
				for _, was := range []states.Phase{states.PhaseComplete, states.PhaseRollingOut} {
					for flags := range 1 << 8 {
						on := func(bit int) bool { return bits[flags>>bit&1] }
						f := states.PoolStatusFacts{
							Revision: "r", Deadline: time.Minute, Now: noon.Time, Unschedulable: on(3), AdoptionRefused: on(6),
							Progress: states.Progress{Phase: was, Revision: "r"}, // nothing has moved since long ago
						}
						f.PoolFacts = states.PoolFacts{
							Replicas: 1, Template: template, Strategy: strategy, Members: has, Budget: states.Budget{Paused: on(5)},
							TemplateInvalid: on(0), TemplateUnreadable: on(1), CreationsRefused: on(2), PolicyRefused: on(7),
						}
						if on(4) {
							f.Hold = time.Second
						}
						d := states.StepPoolStatus(f)
						if d.Act == states.Report {
							degraded[d.About.Report.Degraded], ready[d.About.Report.Ready], at[d.About.Report.Progress.Phase] = true, true, true
							g.Expect(d.Reason).To(BeElementOf(d.About.Report.Degraded, d.About.Report.Ready))
							g.Expect(d.Reason).NotTo(Equal(states.ReasonAsPlanned), "that tells nothing")
						}
					}
				}
			}
		}
	}
	g.Expect(slices.Collect(maps.Keys(degraded))).To(ConsistOf(slices.Collect(maps.Keys(problems))))
	g.Expect(slices.Collect(maps.Keys(at))).To(ConsistOf(slices.Collect(maps.Keys(phases))))
	for why := range ready {
		_, own := members[why]
		_, problem := problems[why]
		g.Expect(own || problem).To(BeTrue(), string(why))
	}
}

func TestAnEventTellsWhenAPoolComesToWantRoomAndWhenItHasGotIt(t *testing.T) {
	const lacks = "p Warning WarmPoolNotProgressing Reconciling: no node has room for some members: 0 of 3 nodes"
	const goesOn = "p Normal WarmPoolProgressing Reconciling: Warm pool is progressing again"
	w, r, s := full(t)
	for _, why := range []states.Reason{
		states.ReasonAsPlanned, states.ReasonUnschedulable, states.ReasonUnschedulable, states.ReasonMembersEnd, states.ReasonAsPlanned,
	} {
		w.says(t, r, s, states.PoolReport{
			Degraded: why, Ready: states.ReasonMembersReady, Progress: states.Progress{Phase: states.PhaseComplete},
		})
	}
	w.g.Expect(w.told(r)).To(ConsistOf([]string{lacks, goesOn}), "of the decisions' reasons, while the facts were the same")
}

func TestNoEventTellsOfAStatusThatWasNotWritten(t *testing.T) {
	w, r, s := full(t)
	r.err = errors.New("no")
	d := states.Decision{Act: states.Report, About: states.About{Report: &states.PoolReport{
		Degraded: states.ReasonUnschedulable, Ready: states.ReasonUnschedulable, Progress: states.Progress{Phase: states.PhaseWarming},
	}}}
	_, err := Status{w.Pools}.Do(t.Context(), s, d)
	w.g.Expect(err).To(MatchError("no"))
	w.g.Expect(w.told(r)).To(BeEmpty())
}

func TestThePodThatIsRefusedIsNamedByTheFirstMemberThatSaysSo(t *testing.T) {
	says := func(text string) func(*agents.Sandbox) {
		return func(b *agents.Sandbox) { refused(b); b.Status.Conditions[0].Message = view.ErrorSeen + text }
	}
	w := aWorld(t, aPool(), aTemplate(), member("l", says("retired"), retired), member("m", says("quota")), member("n", says("other")))
	r := w.writing()
	got := loop.Step(t.Context(), Status{w.Pools}, key)
	w.g.Expect(got).To(Equal(loop.Result{}))
	w.g.Expect(meta.FindStatusCondition(r.status.Conditions, view.Degraded).Message).To(Equal("2 pods cannot be created: quota"))
}

func TestAStatusCountsWhatThereIs(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"), member("n", old), free("n", starting), member("o", retired), free("o"))
	r := w.writing()
	loop.Step(t.Context(), Status{w.Pools}, key)
	got := r.status
	got.Conditions = nil
	w.g.Expect(got).To(Equal(ext.SandboxWarmPoolStatus{
		Replicas: 2, ReadyReplicas: 1, UpdatedReplicas: 1, UpdatedReadyReplicas: 1, WarmingReplicas: 1, StaleReplicas: 1,
		CurrentRevision: revision(), Selector: apply.LabelPool + "=" + apply.Hash("p"), ObservedGeneration: 3, ObservedTemplateGeneration: 3,
		Rollout: ext.RolloutStatus{Phase: string(states.PhaseScalingDown)},
	}))
}

func TestATemplateThatCannotBeReadLeavesOpenWhatIsCurrent(t *testing.T) {
	p := aPool(func(p *ext.SandboxWarmPool) {
		p.Status = ext.SandboxWarmPoolStatus{
			CurrentRevision: "r", ObservedGeneration: 2, ObservedTemplateGeneration: 7, UpdatedReplicas: 5, UpdatedReadyReplicas: 1,
			Rollout: ext.RolloutStatus{Phase: string(states.PhaseRollingOut), LastProgressTime: &noon},
		}
	})
	w := aWorld(t, p, member("m"), free("m"))
	r := w.writing()
	known := learned{unreadable: errors.New("no")}
	s := Status{w.Pools}.Observe(key, known)
	_, err := Status{w.Pools}.Do(t.Context(), s, Status{w.Pools}.Decide(s))
	w.g.Expect(err).NotTo(HaveOccurred())
	got := r.status
	w.g.Expect([]any{got.CurrentRevision, got.ObservedGeneration, got.ObservedTemplateGeneration}).To(Equal([]any{"r", int64(2), int64(7)}))
	w.g.Expect([]int32{got.UpdatedReplicas, got.UpdatedReadyReplicas}).To(Equal([]int32{1, 1}), "but there are no more than there are members")
	w.g.Expect(got.Rollout).To(Equal(p.Status.Rollout))
}

func TestAConditionKeepsItsTimeWhileItsStatusStays(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"), member("n"), free("n"))
	r := w.writing()
	loop.Step(t.Context(), Status{w.Pools}, key)
	w.Now = func() time.Time { return noon.Add(time.Hour) }
	w.Stores.Pods.MarkDeleted(free("m"))
	loop.Step(t.Context(), Status{w.Pools}, key)
	since := func(kind string) metav1.Time {
		return meta.FindStatusCondition(r.status.Conditions, kind).LastTransitionTime
	}
	w.g.Expect(since(view.Degraded)).To(Equal(noon))
	w.g.Expect(since(view.Ready)).To(Equal(metav1.NewTime(noon.Add(time.Hour))))
}

func TestAPoolMakesWhatIsMissingOnce(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"))
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), Members{w.Pools}, key).Err).NotTo(HaveOccurred())
	w.g.Expect(r.made).To(HaveLen(1))
	w.g.Expect(w.woken).To(Equal([]string{"sandbox a/" + r.made[0], "status in 250ms of a/p"}))
}

func TestWhatTheServerRefusesIsTriedAgainOneAtATime(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate())
	w.writing().err = apply.ErrRefused
	w.g.Expect(loop.Step(t.Context(), Members{w.Pools}, key)).To(Equal(loop.Result{Retry: true, Err: apply.ErrRefused}))
	w.g.Expect(w.Memory.refusal("u")).To(Equal("refused"))
	w.g.Expect(w.woken).To(Equal([]string{"status in 250ms of a/p"}))
	r := w.writing()
	w.g.Expect(loop.Step(t.Context(), Members{w.Pools}, key).Err).NotTo(HaveOccurred())
	w.g.Expect(r.made).To(HaveLen(2), "and all of them once one was made")
	w.g.Expect(w.Memory.refusal("u")).To(BeEmpty())
}

func TestANameThatWasAskedForInVainIsAskedForAgain(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"))
	r := w.writing()
	r.err = errors.New("no answer")
	got := loop.Step(t.Context(), Members{w.Pools}, key)
	w.g.Expect(got.Retry).To(BeTrue())
	w.g.Expect(got.Err).To(MatchError("no answer"))
	r.err = nil
	loop.Step(t.Context(), Members{w.Pools}, key)
	w.g.Expect(r.made).To(HaveLen(2))
	w.g.Expect(r.made[1]).To(Equal(r.made[0]))
}

func TestAPoolGivesUpWhatNoClaimIsTaking(t *testing.T) {
	one := func(p *ext.SandboxWarmPool) { n := int32(0); p.Spec.Replicas = &n }
	w := aWorld(t, aPool(one), aTemplate(), member("m"), free("m"), member("n"), free("n"))
	w.writing()
	claim := &ext.SandboxClaim{ObjectMeta: made("c", "c")}
	took := w.Shelves.Take(aPool(one), claim, noon.Time).Member.Name
	other := map[string]string{"m": "n", "n": "m"}[took]
	s := w.Observe(key, learned{loansKnown: true})
	plan := &states.PoolPlan{Retire: []states.Retirement{{Name: took, Reason: states.ReasonSurplus}, {Name: other, Reason: states.ReasonStuck}}}
	_, err := Members{w.Pools}.Do(t.Context(), s, states.Decision{Act: states.Retire, About: states.About{Plan: plan}})
	w.g.Expect(err).NotTo(HaveOccurred())
	w.g.Expect(w.Retirements.Reason(s.members[took].UID)).To(BeEmpty(), "a claim has it")
	w.g.Expect(w.Retirements.Reason(s.members[other].UID)).To(Equal(states.ReasonStuck))
	w.g.Expect(w.woken).To(Equal([]string{"sandbox a/" + other, "status in 250ms of a/p"}), "its own loop writes that, and the status may have waited for the other")
	w.g.Expect(w.Churn.Wait("u", 0, noon.Time)).To(Equal(time.Second), "a member that is stuck is a loss")
}

func TestAPoolAsksWhatClaimsAreTakingBeforeItDoesAnything(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"))
	r := w.writing()
	w.Shelves.Take(aPool(), &ext.SandboxClaim{ObjectMeta: made("c", "c")}, noon.Time)
	adopted := member("m", func(b *agents.Sandbox) {
		b.ResourceVersion = "6"
		b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&ext.SandboxClaim{ObjectMeta: made("c", "c")}, ext.SchemeGroupVersion.WithKind(ext.KindClaim))}
	})
	w.put(adopted)
	loop.Step(context.Background(), Members{w.Pools}, key)
	w.g.Expect(r.made).To(HaveLen(1), "the refill of what a claim is being told of waits")
}

// What comes after a status that says that another spec was observed was decided on
// that: neither a creation nor a retirement of before may trail behind it.
func TestAStatusWaitsForWhatWasDecidedOnAnOlderSpec(t *testing.T) {
	w := aWorld(t, aPool(), aTemplate(), member("m"), free("m"))
	w.writing()
	superseded := func() bool {
		status := Status{w.Pools}
		return status.Decide(status.Observe(key, learned{})).Reason == states.ReasonSuperseded
	}
	before := w.Observe(key, learned{})
	end := w.Memory.begin("u", before.basis())
	w.Retirements.Add("m", memory.Retirement{Pool: "u", Reason: states.ReasonSurplus, Basis: before.basis()})
	w.g.Expect(superseded()).To(BeFalse(), "they were decided on what it says")
	w.g.Expect(w.overtaken(before)).To(BeFalse())

	w.g.Expect(w.Stores.Pools.Put(aPool(func(p *ext.SandboxWarmPool) { p.Generation++; p.ResourceVersion = "99" }))).To(Succeed())
	w.g.Expect(superseded()).To(BeTrue())
	w.g.Expect(w.overtaken(before)).To(BeTrue(), "and nothing more is begun on the old ground")
	end()
	w.g.Expect(superseded()).To(BeTrue(), "a member is still given up")
	w.Retirements.Drop("m")
	w.g.Expect(superseded()).To(BeFalse())
}
