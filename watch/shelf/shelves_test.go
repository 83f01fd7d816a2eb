package shelf

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A desk is shelves over stores that nobody watches for: the test is the watch.
// Names are UIDs, and every change is later than the one before it.
type desk struct {
	*Shelves
	g     Gomega
	now   int
	woken []string
	// pools are those that were woken, hurried the members that were hurried.
	pools, hurried []string
}

func aDesk(t *testing.T) *desk {
	t.Helper()
	conn, err := client.Connect(&rest.Config{Host: "http://localhost"}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s, err := store.New(conn, "")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	d := &desk{g: NewWithT(t)}
	d.Shelves = New(s, memory.NewRetirements(),
		func(k view.Key) { d.woken = append(d.woken, k.Name) }, func(k view.Key) { d.pools = append(d.pools, k.String()) })
	d.Hurry = func(k view.Key) { d.hurried = append(d.hurried, k.String()) }
	d.Now = func() time.Time { return noon }
	return d
}

func (d *desk) meta(ns, name string) metav1.ObjectMeta {
	d.now++
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(d.now)}
}

func (d *desk) puts(err error) { d.g.Expect(err).To(Succeed()) }

// pool makes a pool known.
func (d *desk) pool(name string, changes ...func(*ext.SandboxWarmPool)) *ext.SandboxWarmPool {
	p := &ext.SandboxWarmPool{ObjectMeta: d.meta("a", name)}
	for _, change := range changes {
		change(p)
	}
	d.puts(d.Stores.Pools.Put(p))
	return p
}

func recreate(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = ext.Recreate }

func claim(name string) *ext.SandboxClaim {
	return &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
}

var (
	poolKind  = ext.SchemeGroupVersion.WithKind(ext.KindPool)
	claimKind = ext.SchemeGroupVersion.WithKind(ext.KindClaim)
)

// sandbox shows a sandbox of the pool p, before a change.
func (d *desk) sandbox(name string, changes ...func(*agents.Sandbox)) {
	b := &agents.Sandbox{ObjectMeta: d.meta("a", name)}
	d.owned(b, "p")
	for _, change := range changes {
		change(b)
	}
	d.puts(d.Stores.Sandboxes.Put(b))
	d.Sync(view.KeyOf(b))
}

func (d *desk) owned(b *agents.Sandbox, pool string) {
	owner := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: pool, UID: types.UID(pool)}}
	b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, poolKind)}
}

func adoptedBy(name string) func(*agents.Sandbox) {
	return func(b *agents.Sandbox) {
		b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(claim(name), claimKind)}
	}
}

func retired(b *agents.Sandbox) {
	b.Annotations = map[string]string{apply.AnnotationRetired: "surplus"}
}

// pod shows a sandbox's pod, free unless it says otherwise.
func (d *desk) pod(ns, name string, changes ...func(*corev1.Pod)) {
	p := &corev1.Pod{ObjectMeta: d.meta(ns, name)}
	p.Labels = map[string]string{apply.LabelState: string(states.Ready)}
	owner := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, agents.SchemeGroupVersion.WithKind(agents.KindSandbox))}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	for _, change := range changes {
		change(p)
	}
	d.puts(d.Stores.Pods.Put(p))
	d.Sync(view.KeyOf(p))
}

func warming(p *corev1.Pod) { p.Labels[apply.LabelState] = string(states.Warming) }

// free shows members that are free to take.
func (d *desk) free(names ...string) {
	for _, name := range names {
		d.sandbox(name)
		d.pod("a", name)
	}
}

func at(name string) view.Key { return view.Key{Namespace: "a", Name: name} }

// offered is the answer to a claim: a sandbox, or what there is instead.
func (d *desk) offered(p *ext.SandboxWarmPool, c *ext.SandboxClaim) string {
	o := d.Take(p, c, noon)
	switch o.Offer {
	case states.OfferTaken:
		d.g.Expect(o.Member.Namespace).To(Equal(c.Namespace))
		return o.Member.Name
	case states.OfferInLine:
		d.g.Expect(o.Since).To(Equal(noon))
		return "in line"
	case states.OfferEmpty:
		return "empty"
	case states.OfferNone:
	}
	return "none"
}

func (d *desk) empty() {
	d.g.Expect(d.shelf).To(BeEmpty())
	d.g.Expect(d.on).To(BeEmpty())
	d.g.Expect(d.visits).To(BeEmpty())
}

func TestAClaimIsAnsweredFromTheShelfOfItsPool(t *testing.T) {
	d := aDesk(t)
	p, q := d.pool("p"), d.pool("q")
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("empty"))
	d.free("m")
	d.g.Expect(d.offered(q, claim("c"))).To(Equal("empty"), "another pool's members are not its own")
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("m"))
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("m"), "asked again it answers the same")
	d.sandbox("n")
	d.g.Expect(d.offered(p, claim("d"))).To(Equal("in line"))
	d.g.Expect(d.offered(p, claim("e"))).To(Equal("empty"), "no more wait than members are starting")
}

func TestTheShelfHoldsWhatMayBeTaken(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*desk)
		want string
	}{
		{"a member that is free", func(d *desk) { d.free("m") }, "m"},
		{"a member whose pod is not free yet is coming", func(d *desk) { d.sandbox("m"); d.pod("a", "m", warming) }, "in line"},
		{"a member that lost its readiness is coming again", func(d *desk) {
			d.free("m")
			d.pod("a", "m", func(p *corev1.Pod) { p.Status.Conditions = nil })
		}, "in line"},
		{"one that is retired is not there", func(d *desk) { d.sandbox("m", retired); d.pod("a", "m") }, "empty"},
		{"one that was retired is gone from there", func(d *desk) { d.free("m"); d.sandbox("m", retired) }, "empty"},
		{"a retirement that is pending keeps it off", func(d *desk) {
			d.Retirements.Add("m", memory.Retirement{Reason: states.ReasonSurplus})
			d.free("m")
		}, "empty"},
		{"one whose pod the server refuses is not coming", func(d *desk) {
			d.sandbox("m", func(b *agents.Sandbox) {
				b.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionFalse, view.ReasonReconcilerError, "")}
			})
		}, "empty"},
		{"a strict pool has no place for what is not current", func(d *desk) { d.pool("p", recreate); d.free("m") }, "empty"},
		{"one that is deleted is gone from there", func(d *desk) {
			d.free("m")
			d.Stores.Sandboxes.MarkDeleted(&agents.Sandbox{ObjectMeta: d.meta("a", "m")})
			d.Sync(at("m"))
		}, "empty"},
		{"one of a pool of that name that is no more is nobody's", func(d *desk) {
			d.sandbox("m", func(b *agents.Sandbox) { b.OwnerReferences[0].UID = "before" })
			d.pod("a", "m")
		}, "empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := aDesk(t)
			d.pool("p")
			row.do(d)
			p, _ := d.Stores.Pools.Get(at("p"))
			d.g.Expect(d.offered(p, claim("c"))).To(Equal(row.want))
		})
	}
}

// Owner references are free text: anybody may name the UID of another one's pool.
func TestASandboxOfAnotherNamespaceIsNeverOnThePoolsShelf(t *testing.T) {
	for _, owner := range []string{"p", "no such pool"} {
		t.Run("it names "+owner, func(t *testing.T) {
			d := aDesk(t)
			p := d.pool("p")
			d.pool("x", func(p *ext.SandboxWarmPool) { p.Namespace, p.Name = "b", "p" })
			d.sandbox("m", func(b *agents.Sandbox) { b.Namespace, b.OwnerReferences[0].Name = "b", owner })
			d.pod("b", "m")
			d.g.Expect(d.offered(p, claim("c"))).To(Equal("empty"))
			d.GiveBack(at("c"))
			d.empty()
		})
	}
}

func TestWhatAClaimHasTakenStaysLentUntilItIsDone(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m")
	d.g.Expect(d.Loan(at("m"))).To(Equal(states.LoanClosed))
	d.g.Expect(d.Loans("p")).To(BeEmpty())
	d.offered(p, claim("c"))
	d.sandbox("m", adoptedBy("c"))
	d.g.Expect(d.Loan(at("m"))).To(Equal(states.LoanOpen), "the sandbox is the claim's by now, and nobody has told it")
	d.g.Expect(d.Loans("p")).To(ConsistOf("m"))
	d.g.Expect(d.Done(at("c"), "m")).To(BeTrue())
	d.g.Expect(d.Loan(at("m"))).To(Equal(states.LoanClosed))
	d.g.Expect(d.Done(at("c"), "m")).To(BeFalse(), "there is nothing to end any more")
	d.g.Expect(d.woken).To(BeEmpty())
	d.empty()
}

func TestWhatAnotherClaimAdoptsIsLentNoMore(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m")
	d.offered(p, claim("c"))
	d.sandbox("m", adoptedBy("d")) // another leader was first
	d.g.Expect(d.Loan(at("m"))).To(Equal(states.LoanClosed))
	d.g.Expect(d.woken).To(Equal([]string{"c"}), "it looks again")
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("empty"))
}

func TestAClaimThatHasAnotherSandboxGivesBackTheOneItTook(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m")
	d.offered(p, claim("c"))
	d.g.Expect(d.Done(at("c"), "other")).To(BeTrue())
	d.g.Expect(d.offered(p, claim("d"))).To(Equal("m"))
}

func TestWhatIsGivenBackIsFreeOnlyWhereItStillIsThePools(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*desk)
		want string
	}{
		{"nothing has happened to it", func(*desk) {}, "m"},
		{"the claim owns it by now, and ended", func(d *desk) { d.sandbox("m", adoptedBy("c")) }, "empty"},
		{"it lost its readiness", func(d *desk) { d.pod("a", "m", warming) }, "in line"},
		{"its pool waits to retire it", func(d *desk) { d.Retirements.Add("m", memory.Retirement{Reason: states.ReasonStuck}); d.Sync(at("m")) }, "empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := aDesk(t)
			p := d.pool("p")
			d.free("m")
			d.offered(p, claim("c"))
			row.do(d)
			d.GiveBack(at("c"))
			d.GiveBack(at("c"))
			d.g.Expect(d.offered(p, claim("d"))).To(Equal(row.want))
		})
	}
}

// The events of pods and of sandboxes come in any order: the pool may have looked for the
// last time when the sandbox goes.
func TestAPoolLooksAgainWhenWhatAClaimHasTakenIsGone(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m")
	d.offered(p, claim("c"))
	d.sandbox("m", adoptedBy("c"))
	d.g.Expect(d.pools).To(BeEmpty())
	b, _ := d.Stores.Sandboxes.Get(at("m"))
	d.Stores.Sandboxes.MarkDeleted(b)
	d.Sync(at("m"))
	d.g.Expect(d.Loans(p.UID)).To(BeEmpty())
	d.g.Expect(d.pools).To(Equal([]string{"a/p"}))
}

func TestTheNextInLineIsWokenOnce(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.sandbox("m")
	d.sandbox("n")
	d.g.Expect(d.offered(p, claim("first"))).To(Equal("in line"))
	d.g.Expect(d.offered(p, claim("second"))).To(Equal("in line"))
	d.pod("a", "m")
	d.pod("a", "m")
	d.g.Expect(d.woken).To(Equal([]string{"first"}))
	d.g.Expect(d.offered(p, claim("first"))).To(Equal("m"))
	d.g.Expect(d.offered(p, claim("second"))).To(Equal("in line"))
	d.woken = nil
	d.GiveBack(at("first"))
	d.g.Expect(d.woken).To(Equal([]string{"second"}), "what is given back is the next one's")
	d.g.Expect(d.offered(p, claim("second"))).To(Equal("m"))
}

func TestWhoWaitsForWhatIsNotComingLooksAgain(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.sandbox("m")
	d.offered(p, claim("c"))
	d.sandbox("m", retired)
	d.g.Expect(d.woken).To(Equal([]string{"c"}))
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("empty"))
}

func TestAClaimThatChangesItsPoolLeavesTheFirstShelf(t *testing.T) {
	d := aDesk(t)
	p, q := d.pool("p"), d.pool("q")
	d.free("m")
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("m"))
	d.g.Expect(d.offered(q, claim("c"))).To(Equal("empty"))
	d.g.Expect(d.Loan(at("m"))).To(Equal(states.LoanClosed))
	d.g.Expect(d.offered(p, claim("d"))).To(Equal("m"))
}

func TestAClaimThatIsMadeAgainUnderItsNameIsAnotherOne(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m", "n")
	first := d.offered(p, claim("c"))
	d.g.Expect(d.offered(p, claim("d"))).NotTo(Equal(first))
	again := claim("c")
	again.UID = "another"
	d.g.Expect(d.offered(p, again)).To(Equal(first), "what the one before had taken is free again")
	d.GiveBack(at("c"))
	d.g.Expect(d.Loan(at(first))).To(Equal(states.LoanClosed))
}

func TestAPoolWithdrawsWhatIsNotLent(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m", "n")
	took := d.offered(p, claim("c"))
	other := map[string]string{"m": "n", "n": "m"}[took]
	d.g.Expect(d.Withdraw(at(took))).To(BeFalse(), "a claim has it")
	d.g.Expect(d.Loan(at(took))).To(Equal(states.LoanOpen))
	d.g.Expect(d.Withdraw(at(other))).To(BeTrue())
	d.g.Expect(d.offered(p, claim("d"))).To(Equal("empty"), "it is not on offer any more")
	d.g.Expect(d.Withdraw(at("unknown"))).To(BeTrue(), "nobody can have taken it")
}

func TestWhoWaitsForAMemberThatIsWithdrawnLooksAgain(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.sandbox("m")
	d.offered(p, claim("c"))
	d.g.Expect(d.Withdraw(at("m"))).To(BeTrue())
	d.g.Expect(d.woken).To(Equal([]string{"c"}))
}

func TestAMemberThatMovesToAnotherPoolMovesToItsShelf(t *testing.T) {
	d := aDesk(t)
	p, q := d.pool("p"), d.pool("q")
	d.free("m")
	d.sandbox("m", func(b *agents.Sandbox) { d.owned(b, "q") })
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("empty"))
	d.g.Expect(d.offered(q, claim("c"))).To(Equal("m"))
}

func TestNothingIsRememberedWhenEverythingIsGone(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m", "n")
	d.sandbox("coming")
	for _, c := range []string{"c", "d", "e", "f"} {
		d.offered(p, claim(c))
	}
	for _, name := range []string{"m", "n", "coming"} {
		d.Stores.Sandboxes.MarkDeleted(&agents.Sandbox{ObjectMeta: d.meta("a", name)})
		d.Sync(at(name))
	}
	for _, c := range []string{"c", "d", "e", "f"} {
		d.GiveBack(at(c))
	}
	d.empty()
}

func TestAsManyMembersAreAwaitedAsClaimsAreInLine(t *testing.T) {
	d := aDesk(t)
	pool := d.pool("p")
	one, two := at("one"), at("two")
	awaited := func() []bool { return []bool{d.Awaited(one), d.Awaited(two)} }
	d.g.Expect(awaited()).To(Equal([]bool{false, false}))
	d.sandbox("one")
	d.Sync(one)
	d.sandbox("two")
	d.Sync(two)
	d.g.Expect(awaited()).To(Equal([]bool{false, false}), "two are coming, and nobody waits for them")
	d.g.Expect(d.Take(pool, claim("c"), noon).Offer).To(Equal(states.OfferInLine))
	d.g.Expect(awaited()).To(Equal([]bool{true, false}))
	d.g.Expect(d.Take(pool, claim("d"), noon).Offer).To(Equal(states.OfferInLine))
	d.g.Expect(awaited()).To(Equal([]bool{true, true}))
	d.GiveBack(at("c"))
	d.g.Expect(awaited()).To(Equal([]bool{true, false}))
}

func TestAMemberIsHurriedWhenAClaimBeginsToWaitForIt(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	for _, name := range []string{"one", "two", "three"} {
		d.sandbox(name)
	}
	d.g.Expect(d.hurried).To(BeEmpty(), "nobody waits")
	d.offered(p, claim("c"))
	d.offered(p, claim("d"))
	d.offered(p, claim("d"))
	d.g.Expect(d.hurried).To(Equal([]string{"a/one", "a/two"}))
	d.sandbox("one", retired)
	d.g.Expect(d.hurried[2:]).To(Equal([]string{"a/three"}), "it is waited for instead")
	d.g.Expect(d.Withdraw(at("two"))).To(BeTrue())
	d.g.Expect(d.woken).To(Equal([]string{"d"}))
	d.g.Expect(d.hurried[3:]).To(BeEmpty(), "there is no other")
}

func TestALineStandsStillFromWhenItsLastClaimWasServed(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.sandbox("m")
	d.sandbox("n")
	d.offered(p, claim("c"))
	d.g.Expect(d.Take(p, claim("d"), noon).Still).To(Equal(noon))
	later := noon.Add(time.Minute)
	d.Now = func() time.Time { return later }
	d.pod("a", "m")
	offer := d.Take(p, claim("d"), later)
	d.g.Expect([]time.Time{offer.Since, offer.Still}).To(Equal([]time.Time{noon, later}))
	later = later.Add(time.Minute)
	d.GiveBack(at("c"))
	d.g.Expect(d.Serves(at("d"))).To(BeTrue())
	d.g.Expect(d.Serves(at("c"))).To(BeFalse())
}

func TestAMemberIsAClaimsToTakeUntilItHasIt(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.free("m")
	d.sandbox("n")
	d.g.Expect(d.Serves(at("c"))).To(BeFalse(), "it has not asked")
	d.offered(p, claim("c"))
	d.offered(p, claim("d"))
	d.g.Expect(d.Serves(at("c"))).To(BeTrue())
	d.g.Expect(d.Serves(at("d"))).To(BeFalse(), "it waits")
	d.Done(at("c"), "m")
	d.g.Expect(d.Serves(at("c"))).To(BeFalse())
}

// Until its claim's step ends a pool counts a member that was taken. The claim went
// meanwhile, and the member with it: nothing else tells the pool.
func TestAPoolLooksAgainWhenAHandOverEndsWithoutItsClaim(t *testing.T) {
	d := aDesk(t)
	p := d.pool("p")
	d.sandbox("m")
	d.pod("a", "m")
	d.g.Expect(d.offered(p, claim("c"))).To(Equal("m"))
	d.sandbox("m", adoptedBy("c"))
	d.g.Expect(d.Loans("p")).To(Equal([]string{"m"}), "the pool counts it still")
	d.g.Expect(d.pools).To(BeEmpty())
	d.GiveBack(at("c"))
	d.g.Expect(d.Loans("p")).To(BeEmpty())
	d.g.Expect(d.pools).To(Equal([]string{"a/p"}))
}
