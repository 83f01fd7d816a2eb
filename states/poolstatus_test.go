package states

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A rollout is followed over many looks, at a pool to which anything happens.
type rollout struct {
	PoolStatusFacts
	r *rand.Rand
	// kept is the progress as a status keeps it: after each look the controller is
	// another one.
	kept Progress
	// last is when the rollout made its last step, in the test's own reckoning and in
	// the whole seconds of a status.
	last time.Time
}

func newRollout(seed uint64) *rollout {
	r := rand.New(rand.NewPCG(seed, 6))
	o := &rollout{r: r}
	o.PoolFacts = PoolFacts{
		Replicas: r.IntN(4), Template: PresenceShown, Strategy: Strategies[r.IntN(3)], Batch: 10, Budget: Budget{Surge: 1},
	}
	o.Deadline, o.Revision, o.Now = time.Duration(5+r.IntN(10))*time.Second, "v1", at(1000)
	for range r.IntN(4) {
		o.Members = append(o.Members, Member{State: Ready, Current: true})
	}
	return o
}

// passes lets time pass, and something happen.
func (o *rollout) passes() {
	o.Now = o.Now.Add(time.Duration(o.r.IntN(5000)) * time.Millisecond)
	switch o.r.IntN(24) {
	case 0:
		o.Revision = []string{"v1", "v2", "v3"}[o.r.IntN(3)]
		for i := range o.Members {
			o.Members[i].Current = o.r.IntN(4) == 0
		}
	case 1:
		o.Replicas = o.r.IntN(4)
	case 2:
		o.Budget.Paused = !o.Budget.Paused
	case 3:
		o.Strategy = Strategies[o.r.IntN(3)]
	case 4:
		o.Template = []Presence{PresenceShown, PresenceHidden, PresenceMissing}[o.r.IntN(3)]
	case 5:
		o.TemplateUnreadable = !o.TemplateUnreadable
	case 6:
		o.TemplateInvalid = !o.TemplateInvalid
	case 7, 8:
		if n := len(o.Members); n > 0 {
			o.Members = o.Members[:n-1]
		}
	case 9, 10:
		o.Members = append(o.Members, Member{State: Warming, Current: true})
	case 11, 12:
		if n := len(o.Members); n > 0 {
			m := &o.Members[o.r.IntN(n)]
			m.State, m.Current = Ready, true
		}
	case 13:
		if n := len(o.Members); n > 0 {
			o.Members[o.r.IntN(n)].State = Warming
		}
	case 14:
		if n := len(o.Members); n > 0 {
			o.Members[o.r.IntN(n)].Terminating = o.r.IntN(2) == 0
		}
	case 15:
		o.Former = o.r.IntN(2)
	case 16: // it was quiet for long
		o.Now = o.Now.Add(o.Deadline)
	case 17: // another spec or template may help
		o.Template, o.TemplateUnreadable, o.TemplateInvalid = PresenceShown, false, false
	}
}

// look is what a pool's status says.
func (o *rollout) look(t *testing.T, p Progress) (PoolReport, time.Duration) {
	t.Helper()
	f := o.PoolStatusFacts
	f.Progress = p
	d := StepPoolStatus(f)
	once(t, d.Act == Report && d.About.Report != nil && incomplete(d) == "", f, d)
	f.Reported = true
	end := StepPoolStatus(f)
	once(t, end.Ends() && end.Reason == d.Reason && incomplete(end) == "", f, end)
	return *d.About.Report, end.After
}

func (p Progress) rolls() bool { return p.Phase == PhaseRollingOut || p.Phase == PhaseDeadlineExceeded }

// through is a progress that was written to a status and read from it again.
func (p Progress) through() Progress {
	type status struct {
		phase, completedRevision, currentRevision string
		lastProgressTime                          int64
		updatedReadyReplicas                      int32
	}
	s := status{string(p.Phase), p.Arrived, p.Revision, p.Since.Unix(), int32(p.UpdatedReady)}
	return Progress{
		Phase: ParsePhase(s.phase), Revision: s.currentRevision, UpdatedReady: int(s.updatedReadyReplicas),
		Since: time.Unix(s.lastProgressTime, 0), Arrived: s.completedRevision,
	}
}

func TestARolloutMovesAlongItsChart(t *testing.T) {
	walked := map[Edge]bool{}
	for seed := range uint64(3000) {
		o := newRollout(seed)
		for range 120 {
			o.passes()
			o.checkLook(t, seed, walked)
		}
	}
	for _, e := range Rollout.Edges {
		NewWithT(t).Expect(walked[e]).To(BeTrue(), "no pool went from %s to %s", e.From, e.To)
	}
}

func (o *rollout) checkLook(t *testing.T, seed uint64, walked map[Edge]bool) {
	t.Helper()
	was := o.Progress
	r, after := o.look(t, was)
	is := r.Progress
	from := ParsePhase(string(was.Phase))
	fail := func(why string) {
		t.Fatalf("seed %d: %s: %+v: from %+v to %+v, %v", seed, why, o.PoolStatusFacts, was, is, after)
	}
	if from != is.Phase {
		edge, ok := Rollout.Between(State(from), State(is.Phase))
		if !ok {
			fail("that is no edge")
		}
		walked[edge] = true
	}
	if o.TemplateUnreadable {
		if is.Phase != from || is.Since != was.Since || is.Arrived != was.Arrived {
			fail("a template that cannot be read moves nothing")
		}
	} else {
		o.checkProgress(r, was, after, fail)
	}
	o.Progress = is

	kept, _ := o.look(t, o.kept.through())
	if got := kept.Progress; !got.Since.Equal(is.Since) || got.Phase != is.Phase || got.Arrived != is.Arrived ||
		got.Revision != is.Revision || got.UpdatedReady != is.UpdatedReady {
		fail(fmt.Sprintf("after a restart it would be %+v", got))
	}
	o.kept = kept.Progress
}

func (o *rollout) checkProgress(r PoolReport, was Progress, after time.Duration, fail func(string)) {
	is := r.Progress
	stepped := !was.rolls() || was.Revision != o.Revision || was.UpdatedReady != r.Count.UpdatedReady
	if stepped {
		o.last = o.Now.Truncate(time.Second)
	}
	still := o.Now.Sub(o.last)
	paused := o.Strategy == Rolling && o.Budget.Paused
	switch {
	case is.Revision != o.Revision || is.UpdatedReady != r.Count.UpdatedReady:
		fail("the status counts what the progress does not remember")
	case !is.Since.Equal(o.last):
		fail("a step starts the clock anew, and nothing else does")
	case is.Phase == PhaseDeadlineExceeded && still < o.Deadline:
		fail("it stalls before its deadline")
	case is.Phase == PhaseRollingOut && still >= o.Deadline:
		fail("it does not stall after its deadline")
	case is.Phase == PhaseRollingOut && after != o.Deadline-still:
		fail("it is not looked at when its deadline is over")
	case is.Phase != PhaseRollingOut && after != 0:
		fail("it is looked at although nothing changes by itself")
	case is.rolls() && (paused || o.Strategy == OnReplenish || !o.usable()):
		fail("nothing is replaced here")
	case is.Phase == PhasePaused && !paused:
		fail("nobody has paused it")
	case is.rolls() && is.Arrived == o.Revision:
		fail("it has arrived, and rolls")
	case is.Phase == PhaseComplete && (r.Count.Ready < o.Replicas || r.Count.Replicas > o.Replicas):
		fail("it is not complete")
	case is.Phase == PhaseComplete && o.Strategy != OnReplenish && o.usable() && is.Arrived != o.Revision:
		fail("it is complete without having arrived")
	}
}

func TestStepPoolStatus(t *testing.T) {
	ready := Member{Name: "a", State: Ready, Current: true}
	shown := PoolStatusFacts{PoolFacts: PoolFacts{Replicas: 1, Template: PresenceShown, Members: []Member{ready}}, Revision: "v1", Deadline: time.Minute, Now: at(100)}
	with := func(change func(*PoolStatusFacts)) PoolStatusFacts {
		f := shown
		change(&f)
		return f
	}
	none := func(f *PoolStatusFacts) { f.Members = nil }
	for _, row := range []struct {
		name            string
		facts           PoolStatusFacts
		phase           Phase
		degraded, ready Reason
	}{
		{"a pool that has what it shall have is complete", shown, PhaseComplete, ReasonAsPlanned, ReasonMembersReady},
		{"a pool without members warms", with(none), PhaseWarming, ReasonAsPlanned, ReasonMembersMissing},
		{"a pool with too many scales down", with(func(f *PoolStatusFacts) { f.Replicas = 0 }), PhaseScalingDown, ReasonAsPlanned, ReasonMembersReady},
		{"a pool whose former members are not quite gone scales down", with(func(f *PoolStatusFacts) { f.Former = 1 }), PhaseScalingDown, ReasonAsPlanned, ReasonMembersReady},
		{"a pool that replaces old members rolls out", with(func(f *PoolStatusFacts) { f.Strategy = Recreate; none(f) }), PhaseRollingOut, ReasonAsPlanned, ReasonMembersMissing},
		{"a pool that keeps old members does not", with(func(f *PoolStatusFacts) { f.Members = []Member{{Name: "a", State: Ready}} }), PhaseComplete, ReasonAsPlanned, ReasonMembersReady},
		{"a pool from which a claim has taken one after it arrived warms",
			with(func(f *PoolStatusFacts) { f.Strategy = Recreate; f.Progress.Arrived = "v1"; none(f) }), PhaseWarming, ReasonAsPlanned, ReasonMembersMissing},
		{"a pool that arrived at another revision rolls out",
			with(func(f *PoolStatusFacts) { f.Strategy = Recreate; f.Progress.Arrived = "v0"; none(f) }), PhaseRollingOut, ReasonAsPlanned, ReasonMembersMissing},
		{"a pool that is paused says so",
			with(func(f *PoolStatusFacts) { f.Strategy, f.Budget.Paused = Rolling, true; none(f) }), PhasePaused, ReasonAsPlanned, ReasonMembersMissing},
		{"a rollout without progress for too long has stalled",
			with(func(f *PoolStatusFacts) {
				f.Strategy, f.Progress = Recreate, Progress{Phase: PhaseRollingOut, Revision: "v1", Since: at(40)}
				none(f)
			}), PhaseDeadlineExceeded, ReasonAsPlanned, ReasonMembersMissing},
		{"a rollout that has just begun has not stalled, however old what is remembered is",
			with(func(f *PoolStatusFacts) {
				f.Strategy, f.Progress = Recreate, Progress{Phase: PhaseComplete, Revision: "v1", Since: at(0)}
				none(f)
			}), PhaseRollingOut, ReasonAsPlanned, ReasonMembersMissing},
		{"a rollout whose deadline is no time at all is seen to roll first",
			with(func(f *PoolStatusFacts) { f.Strategy, f.Deadline = Recreate, 0; none(f) }), PhaseRollingOut, ReasonAsPlanned, ReasonMembersMissing},
		{"a phase that nobody knows is read as the first",
			with(func(f *PoolStatusFacts) { f.TemplateUnreadable, f.Progress.Phase = true, "Melted" }), PhaseWarming, ReasonTemplateUnreadable, ReasonMembersReady},

		{"an invalid template is said first", with(func(f *PoolStatusFacts) { f.TemplateInvalid, f.CreationsRefused = true, true; none(f) }), PhaseWarming, ReasonTemplateInvalid, ReasonTemplateInvalid},
		{"a missing template is said", with(func(f *PoolStatusFacts) { f.Template = PresenceMissing; none(f) }), PhaseWarming, ReasonTemplateMissing, ReasonTemplateMissing},
		{"a template that cannot be read is said", with(func(f *PoolStatusFacts) { f.Template, f.TemplateUnreadable = PresenceUnseen, true; none(f) }), PhaseWarming, ReasonTemplateUnreadable, ReasonTemplateUnreadable},
		{"a policy that cannot be is said before what comes of it", with(func(f *PoolStatusFacts) { f.PolicyRefused, f.CreationsRefused = true, true; none(f) }), PhaseWarming, ReasonPolicyRefused, ReasonPolicyRefused},
		{"refused members are said", with(func(f *PoolStatusFacts) { f.CreationsRefused, f.Hold = true, time.Second; none(f) }), PhaseWarming, ReasonMembersRefused, ReasonMembersRefused},
		{"refused pods are said",
			with(func(f *PoolStatusFacts) {
				f.Members = []Member{{Name: "a", State: Warming, Refused: true, Current: true}}
			}), PhaseWarming, ReasonPodsRefused, ReasonPodsRefused},
		{"a member that may not be handed out is said, and makes no pool unready", with(func(f *PoolStatusFacts) { f.AdoptionRefused = true }), PhaseComplete, ReasonAdoptionRefused, ReasonMembersReady},
		{"members that end are said", with(func(f *PoolStatusFacts) { f.Hold, f.Unschedulable = time.Second, true; none(f) }), PhaseWarming, ReasonMembersEnd, ReasonMembersEnd},
		{"members without room are said", with(func(f *PoolStatusFacts) { f.Unschedulable = true; none(f) }), PhaseWarming, ReasonUnschedulable, ReasonUnschedulable},
		{"what is in the way of a pool that has enough does not make it unready", with(func(f *PoolStatusFacts) { f.CreationsRefused = true }), PhaseComplete, ReasonMembersRefused, ReasonMembersReady},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			d := StepPoolStatus(row.facts)
			judged(g, Rollout, "", d, row.facts)
			g.Expect(d.Act).To(Equal(Report))
			why := row.degraded
			if why == ReasonAsPlanned {
				why = row.ready
			}
			g.Expect(d.Reason).To(Equal(why))
			r := d.About.Report
			g.Expect([]any{r.Progress.Phase, r.Degraded, r.Ready}).To(Equal([]any{row.phase, row.degraded, row.ready}))
		})
	}
	for _, row := range []struct {
		name  string
		facts PoolStatusFacts
		want  Decision
	}{
		{"a pool that is gone rests", PoolStatusFacts{PoolFacts: PoolFacts{Gone: true}}, rest(ReasonGone)},
		{"a pool whose template is not shown reads it", with(func(f *PoolStatusFacts) { f.Template = PresenceUnseen }), act(ReadTemplate, ReasonTemplateUnseen)},
		{"a pool whose status was written rests", with(func(f *PoolStatusFacts) { f.Reported = true }), rest(ReasonMembersReady)},
		{"a pool whose template cannot be read tries again", with(func(f *PoolStatusFacts) { f.Reported, f.TemplateUnreadable = true, true }), act(Retry, ReasonTemplateUnreadable)},
		{"a rollout is looked at when its deadline is over",
			with(func(f *PoolStatusFacts) {
				f.Reported, f.Strategy, f.Progress = true, Recreate, Progress{Phase: PhaseRollingOut, Revision: "v1", Since: at(90)}
				none(f)
			}),
			rest(ReasonMembersMissing).in(50 * time.Second)},
		{"a pool whose creations are held is looked at when they need not wait any more",
			with(func(f *PoolStatusFacts) { f.Reported, f.Hold = true, time.Second }), rest(ReasonMembersEnd).in(time.Second)},
	} {
		t.Run(row.name, func(t *testing.T) { NewWithT(t).Expect(StepPoolStatus(row.facts)).To(Equal(row.want)) })
	}
}
