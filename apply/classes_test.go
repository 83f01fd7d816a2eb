package apply

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// narrow are widths that a test can fill.
var narrow = widths{
	classTell: {most: 1, least: 1}, classTake: {most: 2, least: 1}, classHand: {most: 2, least: 1},
	classWarm: {most: 2, least: 1}, classTrail: {most: 3, least: 1},
}

// entered reports whether a class lets a write in at once.
func entered(g *gate, c class) (leave func(), ok bool) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	leave, err := g.enter(gone, c)
	return leave, err == nil
}

func TestAClassIsAsWideAsItMayBeWhileNothingMoreUrgentIsThere(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	for range 3 {
		_, ok := entered(gate, classTrail)
		g.Expect(ok).To(BeTrue())
	}
	_, ok := entered(gate, classTrail)
	g.Expect(ok).To(BeFalse())
}

func TestAClassNarrowsWhileAMoreUrgentOneHasWorkAndNeverCloses(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
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

func TestALessUrgentClassNeverHoldsUpAMoreUrgentOne(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	for range 3 {
		entered(gate, classTrail)
	}
	_, ok := entered(gate, classTake)
	g.Expect(ok).To(BeTrue())
}

func TestWritesOfAClassGoInTheOrderTheyCame(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	leave, _ := entered(gate, classTell)
	order := make(chan int, 3)
	for i := range 3 {
		turn := queued(gate, classTell)
		go func() {
			<-turn
			order <- i
			gate.leave(classTell)
		}()
	}
	leave()
	g.Expect([]int{<-order, <-order, <-order}).To(Equal([]int{0, 1, 2}))
}

// queued is a write that waits for a class.
func queued(g *gate, c class) (turn chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	turn = make(chan struct{})
	g.queue[c] = append(g.queue[c], turn)
	return turn
}

func TestWaitingTellWritesAreAdmittedBeforeWaitingTakeWrites(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	taken, _ := entered(gate, classTake)
	_, ok := entered(gate, classTake)
	g.Expect(ok).To(BeTrue(), "both places of take are in use")
	told, ok := entered(gate, classTell)
	g.Expect(ok).To(BeTrue(), "take never holds up tell")
	take, tell := queued(gate, classTake), []chan struct{}{queued(gate, classTell), queued(gate, classTell)}
	taken()
	g.Expect(take).NotTo(BeClosed(), "take is narrow while tell has work")
	told()
	g.Expect(tell[0]).To(BeClosed())
	g.Expect(take).NotTo(BeClosed())
	gate.leave(classTell)
	g.Expect(tell[1]).To(BeClosed())
	g.Expect(take).NotTo(BeClosed())
	gate.leave(classTell)
	g.Expect(take).To(BeClosed(), "tell has no work left")
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
	g.Expect(launchClass(own)).To(Equal(classTake))
	g.Expect(launchClass(aMember(t))).To(Equal(classWarm))
	g.Expect(launchClass(aUsersSandbox())).To(Equal(classWarm))
}

func TestEveryClassHasANameAndPlacesThatNeverClose(t *testing.T) {
	g := NewWithT(t)
	var names []string
	for c := range classes {
		names = append(names, c.String())
		g.Expect(startWidths[c].least).To(BeNumerically(">", 0), c.String())
		g.Expect(startWidths[c].most).To(BeNumerically(">=", startWidths[c].least), c.String())
	}
	g.Expect(names).To(Equal([]string{"tell", "take", "hand", "warm", "trail"}))
}

func TestAWriteThatGivesUpWaitingLeavesItsPlaceToTheNext(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	entered(gate, classWarm)
	leave, _ := entered(gate, classWarm)
	gone, cancel := context.WithCancelCause(context.Background())
	given := make(chan error)
	go func() {
		_, err := gate.enter(gone, classWarm)
		given <- err
	}()
	cancel(errors.New("told to stop"))
	g.Expect(<-given).To(MatchError("told to stop"))
	leave()
	_, ok := entered(gate, classWarm)
	g.Expect(ok).To(BeTrue())
	g.Expect(gate.queue[classWarm]).To(BeEmpty())
}
