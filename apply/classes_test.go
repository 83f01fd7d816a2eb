package apply

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// narrow are widths that a test can fill.
var narrow = widths{
	classTell: {most: 1, least: 1}, classTake: {most: 2, least: 1}, classHand: {most: 2, least: 1},
	classWarm: {most: 2, least: 1}, classTrail: {most: 3, least: 1},
}

// entered reports whether a class lets a write in at once.
func entered(g *gate, c class) (leave func(), ok bool) { return enteredFor(g, c, "a") }

// flowOf is a flow from its namespace, and its pool behind a slash if it has one.
func flowOf(of string) flow {
	ns, pool, _ := strings.Cut(of, "/")
	return flow{ns, pool}
}

func enteredFor(g *gate, c class, of string) (leave func(), ok bool) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	p, err := g.enter(gone, ofClass(c, flowOf(of)))
	if err != nil {
		return nil, false
	}
	return p.leave, true
}

// ofClass is a write of a class and a flow.
func ofClass(c class, of flow) write {
	return write{urgency: urgency{class: c}, key: types.NamespacedName{Namespace: of.ns}, pool: of.pool}
}

func TestAClassIsAsWideAsItMayBeWhileNothingMoreUrgentIsThere(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	for range 3 {
		_, ok := entered(gate, classTrail)
		g.Expect(ok).To(BeTrue())
	}
	_, ok := entered(gate, classTrail)
	g.Expect(ok).To(BeFalse())
}

func TestAPodIsHandedOverBeforeTheNextSandboxIsTaken(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	hand, _ := entered(gate, classHand)
	taken, ok := entered(gate, classTake)
	g.Expect(ok).To(BeTrue(), "take stays open")
	_, ok = entered(gate, classTake)
	g.Expect(ok).To(BeFalse(), "take is narrow while hand has work")
	waits := queued(gate, classTake, "a")
	taken()
	g.Expect(waits.came).To(BeClosed())
	hand()
	_, ok = entered(gate, classTake)
	g.Expect(ok).To(BeTrue())
	g.Expect(gate.quiet()).To(BeFalse(), "sandboxes are being taken")
	g.Expect(newGate(narrow).quiet()).To(BeTrue())
}

func TestAClassNarrowsWhileAMoreUrgentOneHasWorkAndNeverCloses(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	leave, ok := entered(gate, classTake)
	g.Expect(ok).To(BeTrue())
	_, ok = entered(gate, classTrail)
	g.Expect(ok).To(BeTrue(), "its least width stays open")
	_, ok = entered(gate, classTrail)
	g.Expect(ok).To(BeFalse())
	leave()
	_, ok = entered(gate, classTrail)
	g.Expect(ok).To(BeTrue(), "the urgent work is over")
}

func TestFromItsTakeUntilAClaimIsToldNothingSlipsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, gate := NewWithT(t), newGate(narrow)
		a := &Applier{gate: gate}
		places := func() (n int) {
			for {
				leave, ok := entered(gate, classWarm)
				if !ok {
					return n
				}
				defer leave()
				n++
			}
		}
		ctx, end := a.ClaimStep(t.Context())
		took(ctx, ofClass(classTell, flow{}))
		g.Expect(places()).To(Equal(2), "nothing was taken")
		took(ctx, ofClass(classTake, flow{}))
		took(ctx, ofClass(classTake, flow{}))
		g.Expect(places()).To(Equal(1), "its claim does not know yet")
		leave, _ := entered(gate, classWarm)
		second := queued(gate, classWarm, "a")
		end()
		g.Expect(second.came).To(BeClosed(), "the step is over")
		gate.place(classWarm, flow{ns: "a"}).leave()
		leave()

		slow, end := a.ClaimStep(t.Context())
		took(slow, ofClass(classTake, flow{}))
		time.Sleep(patience + 1)
		synctest.Wait()
		g.Expect(places()).To(Equal(2), "others wait no longer for a claim that something else holds up")
		end()
		g.Expect(gate.untold).To(BeZero())
		took(t.Context(), ofClass(classTake, flow{}))
		g.Expect(places()).To(Equal(2), "what brings a pod up is no step of a claim")
	})
}

func TestALessUrgentClassNeverHoldsUpAMoreUrgentOne(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	for range 3 {
		entered(gate, classTrail)
	}
	_, ok := entered(gate, classTake)
	g.Expect(ok).To(BeTrue())
}

func TestWritesOfAPoolGoInTheOrderTheyCame(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	leave, _ := entered(gate, classTell)
	first, second := queued(gate, classTell, "a"), queued(gate, classTell, "a")
	leave()
	g.Expect(first.came).To(BeClosed())
	g.Expect(second.came).NotTo(BeClosed())
	gate.place(classTell, flow{ns: "a"}).leave()
	g.Expect(second.came).To(BeClosed())
}

// queued is a write that waits for a class.
func queued(g *gate, c class, of string) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &waiter{came: make(chan struct{}), urgency: urgency{class: c}}
	g.lines[c].wait(flowOf(of), t)
	return t
}

func TestWaitingTellWritesAreAdmittedBeforeWaitingTakeWrites(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	taken, _ := entered(gate, classTake)
	_, ok := entered(gate, classTake)
	g.Expect(ok).To(BeTrue(), "both places of take are in use")
	told, ok := entered(gate, classTell)
	g.Expect(ok).To(BeTrue(), "take never holds up tell")
	take, tell := queued(gate, classTake, "a"), []*waiter{queued(gate, classTell, "a"), queued(gate, classTell, "a")}
	taken()
	g.Expect(take.came).NotTo(BeClosed(), "take is narrow while tell has work")
	told()
	g.Expect(tell[0].came).To(BeClosed())
	g.Expect(take.came).NotTo(BeClosed())
	gate.place(classTell, flow{ns: "a"}).leave()
	g.Expect(tell[1].came).To(BeClosed())
	g.Expect(take.came).NotTo(BeClosed())
	gate.place(classTell, flow{ns: "a"}).leave()
	g.Expect(take.came).To(BeClosed(), "tell has no work left")
}

func TestAPlaceGoesToTheNamespaceThatHasTheFewestWritesUnderWay(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	leave, _ := enteredFor(gate, classTrail, "a")
	enteredFor(gate, classTrail, "a")
	enteredFor(gate, classTrail, "b")
	var burst []*waiter
	for range 100 {
		burst = append(burst, queued(gate, classTrail, "a"))
	}
	b, c := queued(gate, classTrail, "b"), queued(gate, classTrail, "c")
	leave()
	g.Expect(c.came).To(BeClosed(), "it has none")
	g.Expect(b.came).NotTo(BeClosed())
	gate.place(classTrail, flow{ns: "c"}).leave()
	g.Expect(burst[0].came).To(BeClosed(), "a and b have one each, and a came first")
	gate.place(classTrail, flow{ns: "a"}).leave()
	g.Expect(b.came).To(BeClosed(), "now it is the turn of b")
}

// A slow admission webhook must not hold up another namespace, in this class or in
// one behind it.
func TestAWriteThatTakesLongGivesItsPlaceToAnotherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, gate := NewWithT(t), newGate(narrow)
		one, _ := enteredFor(gate, classTake, "slow")
		two, _ := enteredFor(gate, classTake, "slow")
		more, other := queued(gate, classTake, "slow"), queued(gate, classTake, "b")
		trail, _ := enteredFor(gate, classTrail, "c")
		_, ok := enteredFor(gate, classTrail, "c")
		g.Expect(ok).To(BeFalse(), "take has work, so trail is narrow")
		time.Sleep(patience)
		synctest.Wait()
		g.Expect(other.came).To(BeClosed())
		g.Expect(more.came).NotTo(BeClosed(), "nobody has more under way than the class is wide")
		gate.place(classTake, flow{ns: "b"}).leave()
		_, ok = enteredFor(gate, classTrail, "c")
		g.Expect(ok).To(BeTrue(), "writes that wait for a webhook narrow nothing")
		one()
		g.Expect(more.came).To(BeClosed())
		gate.place(classTake, flow{ns: "slow"}).leave()
		two()
		trail()
		g.Expect(gate.lines[classTake].busy).To(BeZero())
		g.Expect(gate.lines[classTake].spaces).To(BeEmpty())
		g.Expect(gate.lines[classTake].flows).To(BeEmpty())
		g.Expect(gate.lines[classTake].waiting).To(BeEmpty())
	})
}

// Pools of one namespace hang, as many as it takes. It has others.
func TestWritesThatHangHoldUpNoOtherPoolOfTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, gate := NewWithT(t), newGate(narrow)
		var hang []func()
		var more []*waiter
		for _, pool := range []string{"a/s1", "a/s2", "a/s3", "a/s4", "a/s5"} {
			for range 2 {
				if leave, ok := enteredFor(gate, classTake, pool); ok {
					hang = append(hang, leave)
				}
			}
			more = append(more, queued(gate, classTake, pool))
			time.Sleep(patience)
			synctest.Wait()
		}
		g.Expect(hang).To(HaveLen(breadth*2+1), "the first have as many as the class is wide, the last has one")
		for _, t := range more {
			g.Expect(t.came).NotTo(BeClosed())
		}
		one, ok := enteredFor(gate, classTake, "a/p")
		g.Expect(ok).To(BeTrue(), "the namespace has narrowed, and not closed")
		two, other := queued(gate, classTake, "a/p"), queued(gate, classTake, "b/p")
		one()
		g.Expect(two.came).To(BeClosed())
		g.Expect(other.came).To(BeClosed())
		gate.place(classTake, flowOf("a/p")).leave()
		gate.place(classTake, flowOf("b/p")).leave()
		for _, leave := range hang {
			leave()
		}
		for i, t := range more {
			g.Expect(t.came).To(BeClosed(), "what waited is not forgotten")
			gate.place(classTake, flowOf(fmt.Sprint("a/s", i+1))).leave()
		}
		g.Expect(gate.lines[classTake].busy).To(BeZero())
		g.Expect(gate.lines[classTake].spaces).To(BeEmpty())
		g.Expect(gate.lines[classTake].flows).To(BeEmpty())
	})
}

func TestAGateThatIsDrainedBeginsOnlyWhatSomebodyWaitsFor(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	leave, _ := entered(gate, classWarm)
	entered(gate, classWarm)
	given := make(chan error)
	go func() {
		_, err := gate.enter(context.Background(), ofClass(classWarm, flow{ns: "a"}))
		given <- err
	}()
	for gate.waits(classWarm) == 0 {
		runtime.Gosched()
	}
	gate.drain()
	g.Expect(<-given).To(MatchError(ErrStopped))
	leave()
	for c := range classes {
		_, err := gate.enter(context.Background(), ofClass(c, flow{ns: "b"}))
		if c < classWarm {
			g.Expect(err).NotTo(HaveOccurred(), c.String())
		} else {
			g.Expect(err).To(MatchError(ErrStopped), c.String())
		}
	}
}

// waits is how many writes wait for a class.
func (g *gate) waits(c class) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, all := range g.lines[c].waiting {
		n += len(all)
	}
	return n
}

func TestEveryMoveOfAPodHasAClass(t *testing.T) {
	g := NewWithT(t)
	for _, event := range states.Pod.Events() {
		g.Expect(podClass).To(HaveKey(event))
	}
	g.Expect(podClass).To(HaveLen(len(states.Pod.Events())))
}

func TestWhatBringsUpTheSandboxOfAClaimIsAsUrgentAsTakingOne(t *testing.T) {
	g := NewWithT(t)
	own := made[agents.Sandbox](t, ownConfig(aClaim(), aBlueprint(t)), "sandbox")
	a := &Applier{}
	g.Expect(a.launch(own, classTake).now()).To(Equal(classTake))
	g.Expect(a.launch(aMember(t), classTake).now()).To(Equal(classWarm))
	g.Expect(a.launch(aUsersSandbox(), classTake).now()).To(Equal(classWarm))
}

func TestEveryClassHasANameAndPlacesThatNeverClose(t *testing.T) {
	g := NewWithT(t)
	var names []string
	for c := range classes {
		names = append(names, c.String())
		g.Expect(startWidths[c].least).To(BeNumerically(">", 0), c.String())
		g.Expect(startWidths[c].most).To(BeNumerically(">=", startWidths[c].least), c.String())
	}
	g.Expect(names).To(Equal([]string{"tell", "hand", "take", "warm", "trail"}))
}

func TestAWriteThatGivesUpWaitingLeavesItsPlaceToTheNext(t *testing.T) {
	g, gate := NewWithT(t), newGate(narrow)
	entered(gate, classWarm)
	leave, _ := entered(gate, classWarm)
	gone, cancel := context.WithCancelCause(context.Background())
	given := make(chan error)
	go func() {
		_, err := gate.enter(gone, ofClass(classWarm, flow{ns: "a"}))
		given <- err
	}()
	cancel(errors.New("told to stop"))
	g.Expect(<-given).To(MatchError("told to stop"))
	leave()
	_, ok := entered(gate, classWarm)
	g.Expect(ok).To(BeTrue())
	g.Expect(gate.waits(classWarm)).To(BeZero())
}
