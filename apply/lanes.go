package apply

import (
	"context"
	"sync"
)

// A Lane is how urgent a write is.
type Lane uint8

// The lanes, most urgent first.
const (
	// ClaimLane carries what a claim waits for.
	ClaimLane Lane = iota
	// WarmLane carries the refill of pools and the start of sandboxes.
	WarmLane
	// BackgroundLane carries what nobody waits for: the words of pods already
	// handed over, pool status, events.
	BackgroundLane
	lanes
)

func (l Lane) String() string { return [...]string{"claim", "warm", "background"}[l] }

// A Width is how many writes of a lane may be under way at once: Most when the
// more urgent lanes are empty, Least while they have work.
type Width struct{ Most, Least int }

// Widths are the widths of the three lanes.
type Widths [lanes]Width

// DefaultWidths suit one API server. One HTTP/2 connection carries about a
// hundred streams, and each lane has its own.
var DefaultWidths = Widths{{Most: 64, Least: 64}, {Most: 32, Least: 4}, {Most: 16, Least: 2}}

// A gate admits writes lane by lane. A lane narrows while a more urgent one has
// work under way or waiting, and stays open by its least width.
type gate struct {
	mu     sync.Mutex
	widths Widths
	busy   [lanes]int
	queue  [lanes][]chan struct{}
}

// enter waits for a place in a lane; it returns the function that gives it up.
func (g *gate) enter(ctx context.Context, l Lane) (leave func(), err error) {
	g.mu.Lock()
	if len(g.queue[l]) == 0 && g.open(l) {
		g.busy[l]++
		g.mu.Unlock()
		return func() { g.leave(l) }, nil
	}
	turn := make(chan struct{})
	g.queue[l] = append(g.queue[l], turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return func() { g.leave(l) }, nil
	case <-ctx.Done():
		if !g.forget(l, turn) {
			g.leave(l) // the turn came in the same moment; pass it on
		}
		return nil, context.Cause(ctx)
	}
}

// open reports whether a lane has a place now.
func (g *gate) open(l Lane) bool {
	width := g.widths[l].Most
	for urgent := range l {
		if g.busy[urgent] > 0 || len(g.queue[urgent]) > 0 {
			width = g.widths[l].Least
		}
	}
	return g.busy[l] < width
}

func (g *gate) leave(l Lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy[l]--
	g.admit()
}

// admit lets waiting writes in, most urgent first.
func (g *gate) admit() {
	for l := range lanes {
		for len(g.queue[l]) > 0 && g.open(l) {
			g.busy[l]++
			close(g.queue[l][0])
			g.queue[l] = g.queue[l][1:]
		}
	}
}

// forget takes a turn out of the queue; it reports false when it has come. A
// queue that got shorter may open a lane behind it.
func (g *gate) forget(l Lane, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, t := range g.queue[l] {
		if t == turn {
			g.queue[l] = append(g.queue[l][:i:i], g.queue[l][i+1:]...)
			g.admit()
			return true
		}
	}
	return false
}
