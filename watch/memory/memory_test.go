package memory

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		c.Add("u", noon)
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
		c.Add("u", noon)
	}
	later := noon.Add(churnQuiet + time.Second)
	c.Add("u", later)
	g.Expect(c.Wait("u", 1, later)).To(BeZero())
	c.Forget("u")
	g.Expect(c.losses).To(BeEmpty())
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
