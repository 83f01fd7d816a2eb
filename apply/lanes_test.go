package apply

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
)

var narrow = Widths{{Most: 2, Least: 2}, {Most: 2, Least: 1}, {Most: 3, Least: 1}}

// entered reports whether a lane lets a write in at once.
func entered(g *gate, l Lane) (leave func(), ok bool) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	leave, err := g.enter(gone, l)
	return leave, err == nil
}

func TestALaneIsAsWideAsItMayBeWhileNothingMoreUrgentIsThere(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	for range 3 {
		_, ok := entered(gate, BackgroundLane)
		g.Expect(ok).To(BeTrue())
	}
	_, ok := entered(gate, BackgroundLane)
	g.Expect(ok).To(BeFalse())
}

func TestALaneNarrowsWhileAMoreUrgentOneHasWorkAndNeverCloses(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	leave, ok := entered(gate, ClaimLane)
	g.Expect(ok).To(BeTrue())
	_, ok = entered(gate, BackgroundLane)
	g.Expect(ok).To(BeTrue(), "its least width stays open")
	_, ok = entered(gate, BackgroundLane)
	g.Expect(ok).To(BeFalse())
	leave()
	_, ok = entered(gate, BackgroundLane)
	g.Expect(ok).To(BeTrue(), "the urgent work is over")
}

func TestALessUrgentLaneNeverHoldsUpAMoreUrgentOne(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	for range 3 {
		entered(gate, BackgroundLane)
	}
	_, ok := entered(gate, ClaimLane)
	g.Expect(ok).To(BeTrue())
}

func TestWritesOfALaneGoInTheOrderTheyCame(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: Widths{{Most: 1, Least: 1}, {1, 1}, {1, 1}}}
	leave, _ := entered(gate, ClaimLane)
	order := make(chan int, 3)
	for i := range 3 {
		turn := make(chan struct{})
		gate.mu.Lock()
		gate.queue[ClaimLane] = append(gate.queue[ClaimLane], turn)
		gate.mu.Unlock()
		go func() {
			<-turn
			order <- i
			gate.leave(ClaimLane)
		}()
	}
	leave()
	g.Expect([]int{<-order, <-order, <-order}).To(Equal([]int{0, 1, 2}))
}

func TestAWriteThatGivesUpWaitingLeavesItsPlaceToTheNext(t *testing.T) {
	g, gate := NewWithT(t), &gate{widths: narrow}
	entered(gate, WarmLane)
	leave, _ := entered(gate, WarmLane)
	gone, cancel := context.WithCancelCause(context.Background())
	given := make(chan error)
	go func() {
		_, err := gate.enter(gone, WarmLane)
		given <- err
	}()
	cancel(errors.New("told to stop"))
	g.Expect(<-given).To(MatchError("told to stop"))
	leave()
	_, ok := entered(gate, WarmLane)
	g.Expect(ok).To(BeTrue())
	g.Expect(gate.queue[WarmLane]).To(BeEmpty())
}
