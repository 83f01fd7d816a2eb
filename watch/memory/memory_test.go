package memory

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestEachLossBeyondTheFreeOnesDoublesTheWait(t *testing.T) {
	g := NewWithT(t)
	c := NewChurn()
	g.Expect(c.Wait("u", 2, noon)).To(BeZero(), "nothing was lost")
	var waits []time.Duration
	for range 14 {
		c.Add("u", 2, noon)
		waits = append(waits, c.Wait("u", 2, noon))
	}
	g.Expect(waits[:6]).To(Equal([]time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}))
	g.Expect(waits[13]).To(Equal(churnMost))
	g.Expect(c.Wait("u", 2, noon.Add(time.Minute))).To(Equal(churnMost-time.Minute), "the wait runs out")
	g.Expect(c.Wait("other", 0, noon)).To(BeZero())
}

func TestAQuietTimeForgivesAllLosses(t *testing.T) {
	g := NewWithT(t)
	c := NewChurn()
	for range 9 {
		c.Add("u", 1, noon)
	}
	later := noon.Add(churnQuiet + time.Second)
	c.Add("u", 1, later)
	g.Expect(c.Wait("u", 1, later)).To(BeZero())
	c.Live("u")
	c.Forget("u")
	g.Expect(c.Len()).To(BeZero())
}

// A pool of a hundred on spot nodes loses a member every four minutes, for a month,
// and every one of them before it was ready.
func TestAMonthOfOrdinaryLossesHoldsNothingUp(t *testing.T) {
	c, now := NewChurn(), noon
	for now.Before(noon.Add(30 * 24 * time.Hour)) {
		now = now.Add(4 * time.Minute)
		c.Add("p", 103, now)
		if wait := c.Wait("p", 103, now); wait > 0 {
			t.Fatalf("held for %s after %s", wait, now.Sub(noon))
		}
	}
}

// Members that end as soon as they are made are made ever more slowly: a day of it
// costs a pool no more than its size once an hour.
func TestAPoolThatOnlyLosesIsHeldBack(t *testing.T) {
	for _, size := range []int{1, 100, 10000} {
		c, now, made := NewChurn(), noon, 0
		free := size + 3
		for day := noon.Add(24 * time.Hour); now.Before(day); made++ {
			c.Add("p", free, now)
			now = now.Add(max(c.Wait("p", free, now), 10*time.Millisecond))
		}
		t.Logf("a pool of %d loses %d in a day", size, made)
		if most := 25*free + 24*60/5; made > most {
			t.Errorf("a pool of %d loses %d in a day, and %d is the most", size, made, most)
		}
	}
}

func TestAPoolThatIsMadeSmallerHasLostNoMoreThanBefore(t *testing.T) {
	g := NewWithT(t)
	c := NewChurn()
	for range 90 {
		c.Add("p", 103, noon)
	}
	g.Expect(c.Wait("p", 4, noon)).To(BeZero())
	for range 4 {
		c.Add("p", 4, noon)
	}
	g.Expect(c.Wait("p", 4, noon)).To(BeNumerically(">", 0), "what it loses then counts for its size")
}

func TestAMemberHasLivedOnceItWasReady(t *testing.T) {
	g := NewWithT(t)
	c := NewChurn()
	g.Expect(c.Lived("m")).To(BeFalse())
	c.Live("m")
	g.Expect(c.Lived("m")).To(BeTrue())
	c.Restart("m")
	g.Expect(c.Lived("m")).To(BeFalse(), "its next pod has not")
}

// member is a sandbox that names a pool of a UID as its controller.
func member(ns string, uid, pool types.UID) *agents.Sandbox {
	owner := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: pool}}
	return &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "s", UID: uid,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, ext.SchemeGroupVersion.WithKind(ext.KindPool))},
	}}
}

func TestAPodIsInFlightFromTheCallToTheAnswer(t *testing.T) {
	g := NewWithT(t)
	f, one, two := NewPodsInFlight(), member("a", "1", "p"), member("a", "2", "q")
	pool := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "a", UID: "p"}}
	f.Begin(one)
	f.Begin(two)
	g.Expect(f.Of(pool)).To(ConsistOf(one))
	f.End(one)
	g.Expect(f.Of(pool)).To(BeEmpty())
	f.End(two)
	g.Expect(f.all).To(BeEmpty())
}

// Owner references are free text: a sandbox of another namespace may name any UID.
func TestAPodInFlightCountsInItsOwnNamespaceAlone(t *testing.T) {
	f := NewPodsInFlight()
	f.Begin(member("b", "1", "p"))
	NewWithT(t).Expect(f.Of(&ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "a", UID: "p"}})).To(BeEmpty())
}

func TestARetirementIsRememberedUntilItIsWritten(t *testing.T) {
	g := NewWithT(t)
	r := NewRetirements()
	g.Expect(r.Reason("u")).To(BeEmpty())
	r.Add("u", Retirement{Reason: states.ReasonStuck})
	g.Expect(r.Reason("u")).To(Equal(states.ReasonStuck))
	r.Drop("u")
	g.Expect(r.Reason("u")).To(BeEmpty())
	g.Expect(r.all).To(BeEmpty())
}

func TestAMemberWhoseAdoptionWasRefusedIsHeldLongerEachTimeUntilItChanges(t *testing.T) {
	g := NewWithT(t)
	now := noon
	r, m := NewRefusals(func() time.Time { return now }), member("a", "1", "p")
	g.Expect(r.Holds(m)).To(BeFalse())
	add := func(message string) time.Duration {
		hold, _ := r.Add("p", m, message, message)
		return hold
	}
	g.Expect(add("no")).To(Equal(refusedFirst))
	g.Expect(r.Holds(m)).To(BeTrue())
	changed := m.DeepCopy()
	changed.ResourceVersion = "9"
	g.Expect(r.Holds(changed)).To(BeFalse(), "it may go better now")
	now = now.Add(refusedFirst)
	g.Expect(r.Holds(m)).To(BeFalse(), "it is tried again")
	g.Expect(add("no")).To(Equal(2 * refusedFirst))
	for range 100 {
		add("still no")
	}
	g.Expect(add("still no")).To(Equal(refusedMost))
	said, ok := r.Of("p")
	g.Expect(ok).To(BeTrue())
	g.Expect(said).To(Equal(Refusal{"s", "still no"}))
	_, ok = r.Of("q")
	g.Expect(ok).To(BeFalse())
	r.Drop("1")
	g.Expect(r.all).To(BeEmpty())
}

func TestACauseOfRefusalsIsNewsOnceInAPool(t *testing.T) {
	g := NewWithT(t)
	r := NewRefusals(func() time.Time { return noon })
	one, two := member("a", "1", "p"), member("a", "2", "p")
	for _, row := range []struct {
		pool   types.UID
		member *agents.Sandbox
		cause  string
		news   bool
	}{{"p", one, "quota", true}, {"p", one, "quota", false}, {"p", two, "quota", false}, {"p", two, "webhook", true}, {"q", two, "quota", true}} {
		_, news := r.Add(row.pool, row.member, "no", row.cause)
		g.Expect(news).To(Equal(row.news), "%v", row)
	}
	r.Drop("1")
	r.Drop("2")
	_, news := r.Add("p", one, "no", "quota")
	g.Expect(news).To(BeTrue(), "all was well in between")
}

func TestNewsIsToldOnce(t *testing.T) {
	g := NewWithT(t)
	n := NewNews()
	g.Expect(n.Tell("u", "a")).To(BeTrue())
	g.Expect(n.Tell("u", "a")).To(BeFalse())
	g.Expect(n.Tell("v", "a")).To(BeTrue(), "another object")
	g.Expect(n.Tell("u", "b")).To(BeTrue(), "another text")
	n.Forget("u")
	g.Expect(n.Tell("u", "b")).To(BeTrue())
	n.Forget("u")
	n.Forget("v")
	g.Expect(n.said).To(BeEmpty())
}

func TestAProblemOfAPolicyIsRememberedUntilItIsNone(t *testing.T) {
	g := NewWithT(t)
	p, key := NewPolicyProblems(), cache.ObjectName{Namespace: "a", Name: "t"}
	g.Expect(p.Of(key)).To(BeZero())
	p.Set(key, PolicyProblem{Reason: states.ReasonPolicyForeign, Message: "m"})
	g.Expect(p.Of(key).Message).To(Equal("m"))
	g.Expect(p.Of(cache.ObjectName{Namespace: "b", Name: "t"})).To(BeZero())
	p.Set(key, PolicyProblem{})
	g.Expect(p.all).To(BeEmpty())
}
