package apply

import (
	"context"
	"sync"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A class is how urgent a write is.
type class uint8

// The classes, most urgent first.
const (
	// classTell tells a claim of what it has: its status is written.
	classTell class = iota
	// classTake takes or makes a sandbox for a claim.
	classTake
	// classHand has the pod follow what its claim was told.
	classHand
	// classWarm refills pools.
	classWarm
	// classTrail is what nobody waits for.
	classTrail
	classes
)

// String is the class's name in logs and metrics.
func (c class) String() string { return [...]string{"tell", "take", "hand", "warm", "trail"}[c] }

// podClass is the class of each move of a pod.
var podClass = map[states.Event]class{
	states.EventHanded:   classHand,
	states.EventReserved: classHand,
	states.EventReleased: classHand,
	states.EventWarmed:   classWarm,
	states.EventCooled:   classWarm,
	states.EventRetired:  classTrail,
}

// launchClass is the class of what brings a sandbox up: of one that was made for a
// claim it is as urgent as making it.
func launchClass(s *agents.Sandbox) class {
	if OwnerOf(s).Kind == states.OwnerClaim {
		return classTake
	}
	return classWarm
}

// A width is how many writes of a class may be under way at once: most while the
// more urgent classes are empty, least while one of them has work.
type width struct{ most, least int }

// widths are the widths of all classes.
type widths [classes]width

// startWidths are small: the server's cores are few, and more writes in flight
// only wait longer. Hand, warm and trail make room for the claims of a burst.
var startWidths = widths{
	classTell:  {most: 16, least: 16},
	classTake:  {most: 12, least: 12},
	classHand:  {most: 8, least: 2},
	classWarm:  {most: 12, least: 1},
	classTrail: {most: 4, least: 1},
}

// A gate admits writes class by class. A class narrows while a more urgent one has
// work under way or waiting, and stays open by its least width.
type gate struct {
	mu     sync.Mutex
	widths widths
	busy   [classes]int
	queue  [classes][]chan struct{}
}

// enter waits for a place in a class; it returns the function that gives it up.
func (g *gate) enter(ctx context.Context, c class) (leave func(), err error) {
	g.mu.Lock()
	if len(g.queue[c]) == 0 && g.open(c) {
		g.busy[c]++
		g.mu.Unlock()
		return func() { g.leave(c) }, nil
	}
	turn := make(chan struct{})
	g.queue[c] = append(g.queue[c], turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return func() { g.leave(c) }, nil
	case <-ctx.Done():
		if !g.forget(c, turn) {
			g.leave(c) // the turn came in the same moment; pass it on
		}
		return nil, context.Cause(ctx)
	}
}

// open reports whether a class has a place now.
func (g *gate) open(c class) bool {
	places := g.widths[c].most
	for urgent := range c {
		if g.busy[urgent] > 0 || len(g.queue[urgent]) > 0 {
			places = g.widths[c].least
		}
	}
	return g.busy[c] < places
}

func (g *gate) leave(c class) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy[c]--
	g.admit()
}

// admit lets waiting writes in, most urgent first.
func (g *gate) admit() {
	for c := range classes {
		for len(g.queue[c]) > 0 && g.open(c) {
			g.busy[c]++
			close(g.queue[c][0])
			g.queue[c] = g.queue[c][1:]
		}
	}
}

// forget takes a turn out of the queue; it reports false when it has come. A
// queue that got shorter may open a class behind it.
func (g *gate) forget(c class, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, t := range g.queue[c] {
		if t == turn {
			g.queue[c] = append(g.queue[c][:i:i], g.queue[c][i+1:]...)
			g.admit()
			return true
		}
	}
	return false
}
