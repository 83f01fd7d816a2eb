package pool

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func TestAMembersNameAlwaysFits(t *testing.T) {
	g := NewWithT(t)
	g.Expect(len(memberName(strings.Repeat("p", 253)))).To(Equal(253))
	g.Expect(memberName("python")).To(MatchRegexp("^python-[a-z0-9]{5}$"))
}

func TestANameWithoutAnAnswerIsUsedAgain(t *testing.T) {
	g := NewWithT(t)
	m := NewMemory()
	m.keep("u", "p-one")
	m.keep("u", "p-two")
	g.Expect(m.names(aPool(), 1)).To(Equal([]string{"p-one"}))
	names := m.names(aPool(), 2)
	g.Expect(names[0]).To(Equal("p-two"))
	g.Expect(names[1]).NotTo(HavePrefix("p-one"))
	g.Expect(m.names(aPool(), 1)).NotTo(ContainElement("p-two"), "it was answered by now")
}

func TestARefusalIsRememberedUntilACreationGoesWell(t *testing.T) {
	g := NewWithT(t)
	m := NewMemory()
	g.Expect(m.refusal("u")).To(BeEmpty())
	m.created("u", apply.ErrRefused)
	m.created("u", errors.New("no"))
	g.Expect(m.refusal("u")).To(Equal("refused"), "an error says nothing of it")
	m.created("u", nil)
	g.Expect(m.refusal("u")).To(BeEmpty())
	m.forget("u")
	g.Expect(m.all).To(BeEmpty())
}

func TestAReportSaysWhatWasInTheWayBefore(t *testing.T) {
	g := NewWithT(t)
	m := NewMemory()
	g.Expect(m.reported("u", states.PoolReport{Degraded: states.ReasonUnschedulable})).To(BeEmpty(), "a new leader says again what it finds")
	g.Expect(m.reported("u", states.PoolReport{Degraded: states.ReasonAsPlanned})).To(Equal(states.ReasonUnschedulable))
	g.Expect(m.reported("u", states.PoolReport{})).To(Equal(states.ReasonAsPlanned))
}

// rolling is a pool whose status was in a phase when an earlier leader left: 2 of its
// 4 members were of revision r and ready, since an hour.
func rolling(phase states.Phase, arrived string) *ext.SandboxWarmPool {
	p := aPool()
	ago := metav1.NewTime(noon.Add(-time.Hour))
	p.Status = ext.SandboxWarmPoolStatus{
		CurrentRevision: "r", Replicas: 4, UpdatedReplicas: 2, UpdatedReadyReplicas: 2,
		Rollout: ext.RolloutStatus{Phase: string(phase), CompletedRevision: arrived, LastProgressTime: &ago},
	}
	return p
}

// looks is what a status says at a look at a pool of 4 members that rolls: so many
// are of the revision, and ready.
func looks(m *Memory, pool *ext.SandboxWarmPool, revision string, updated int) states.Progress {
	f := states.PoolStatusFacts{
		PoolFacts: states.PoolFacts{Replicas: 4, Template: states.PresenceShown, Strategy: states.Rolling, Budget: states.Budget{Surge: 1}},
		Revision:  revision, Deadline: 10 * time.Minute, Now: noon.Time, Progress: m.progress(pool),
	}
	for i := range 4 {
		f.Members = append(f.Members, states.Member{State: states.Ready, Current: i < updated})
	}
	r := states.StepPoolStatus(f).About.Report
	m.reported(pool.UID, *r)
	return r.Progress
}

func TestWhatTheStatusSaysOfARolloutCountsAfterARestart(t *testing.T) {
	for _, row := range []struct {
		phase    states.Phase
		exceeded bool // nothing has moved for longer than the deadline
	}{
		{"", false},
		{states.PhaseWarming, false},
		{states.PhaseComplete, false},
		{states.PhaseScalingDown, false},
		{states.PhasePaused, false},
		{states.PhaseRollingOut, true},
		{states.PhaseDeadlineExceeded, true},
		{"a phase yet to be", false},
	} {
		t.Run(string(row.phase), func(t *testing.T) {
			g := NewWithT(t)
			next := states.PhaseRollingOut
			if row.exceeded {
				next = states.PhaseDeadlineExceeded
			}
			pool := rolling(row.phase, "")
			g.Expect(looks(NewMemory(), pool, "r", 2).Phase).To(Equal(next))
			g.Expect(looks(NewMemory(), pool, "r", 3).Phase).To(Equal(states.PhaseRollingOut), "a step since then counts")
			g.Expect(looks(NewMemory(), pool, "another", 2).Phase).To(Equal(states.PhaseRollingOut), "so does another revision")
			g.Expect(looks(NewMemory(), rolling(row.phase, "r"), "r", 2).Phase).To(Equal(states.PhaseComplete), "it has arrived once, and claims take what they like")
			g.Expect(looks(NewMemory(), rolling(row.phase, "r"), "another", 2).Phase).To(Equal(states.PhaseRollingOut))
		})
	}
}

func TestARolloutThatTurnsBackHasYetToArrive(t *testing.T) {
	g := NewWithT(t)
	m, pool := NewMemory(), rolling(states.PhaseComplete, "r")
	look := func(revision string, updated int) states.Phase {
		p := looks(m, pool, revision, updated)
		pool = pool.DeepCopy()
		pool.Status.Rollout, pool.Status.CurrentRevision = rollout(p), revision
		pool.Status.UpdatedReadyReplicas = int32(updated)
		return p.Phase
	}
	g.Expect(look("r", 4)).To(Equal(states.PhaseComplete))
	g.Expect(look("r", 3)).To(Equal(states.PhaseComplete), "claims may take what they like")
	g.Expect(look("bad", 0)).To(Equal(states.PhaseRollingOut))
	g.Expect(pool.Status.Rollout.CompletedRevision).To(BeEmpty())
	g.Expect(look("r", 3)).To(Equal(states.PhaseRollingOut))
	m = NewMemory()
	g.Expect(look("r", 3)).To(Equal(states.PhaseRollingOut), "nor does a new leader take it for arrived")
	g.Expect(look("r", 4)).To(Equal(states.PhaseComplete))
}

func TestWhatIsRememberedOfARolloutCountsWhileTheStatusSaysThePhase(t *testing.T) {
	g := NewWithT(t)
	m := NewMemory()
	last := states.Progress{Phase: states.PhaseRollingOut, Revision: "r", UpdatedReady: 2, Since: noon.Time}
	m.reported("u", states.PoolReport{Progress: last})
	g.Expect(m.progress(rolling(states.PhaseRollingOut, ""))).To(Equal(last), "to the nanosecond")
	g.Expect(m.progress(rolling(states.PhaseComplete, "r")).Phase).To(Equal(states.PhaseComplete), "another leader has been here")
}

func TestAStatusKeepsOfARolloutWhatANewLeaderNeeds(t *testing.T) {
	g := NewWithT(t)
	since := noon.Add(time.Millisecond)
	for phase, timed := range map[states.Phase]bool{
		states.PhaseRollingOut: true, states.PhaseDeadlineExceeded: true, states.PhaseComplete: false, states.PhasePaused: false,
	} {
		r := rollout(states.Progress{Phase: phase, Arrived: "q", Since: since})
		g.Expect([]string{r.Phase, r.CompletedRevision}).To(Equal([]string{string(phase), "q"}))
		g.Expect(r.LastProgressTime != nil).To(Equal(timed))
		if timed {
			g.Expect(*r.LastProgressTime).To(Equal(noon), "to the second, as conditions are")
		}
	}
}
