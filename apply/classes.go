package apply

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/states"
)

// A class is how urgent a write is.
type class uint8

// The classes, most urgent first.
const (
	// classTell tells a claim of what it has: its status is written.
	classTell class = iota
	// classHand makes a pod its claim's, which is told next.
	classHand
	// classTake takes or makes a sandbox for a claim.
	classTake
	// classWarm refills pools, and keeps pods in line that no claim waits for.
	classWarm
	// classTrail is what nobody waits for.
	classTrail
	classes
)

// String is the class's name in logs and metrics.
func (c class) String() string { return [...]string{"tell", "hand", "take", "warm", "trail"}[c] }

// podClass is the class of each move of a pod.
var podClass = map[states.Event]class{
	states.EventHanded:   classHand,
	states.EventReserved: classWarm,
	states.EventReleased: classWarm,
	states.EventWarmed:   classWarm,
	states.EventCooled:   classWarm,
	states.EventRetired:  classTrail,
}

// An urgency is how urgent a write is.
type urgency struct {
	class class
	// awaited reports whether a claim waits for the member of a pool that the write is
	// about, and hurried is the class that the write has then. Nil means that it is always
	// of the same class.
	awaited func(member cache.ObjectName) bool
	member  cache.ObjectName
	hurried class
}

// now is the class that a write has now.
func (u urgency) now() class {
	if u.awaited != nil && u.awaited(u.member) {
		return u.hurried
	}
	return u.class
}

// A width is how many writes of a class may be under way at once: most while the
// more urgent classes are empty, least while one of them has work.
type width struct{ most, least int }

// widths are the widths of all classes.
type widths [classes]width

// startWidths are small: the server's cores are few, and more writes in flight
// only wait longer. Warm and trail make room for the claims of a burst.
var startWidths = widths{
	classTell:  {most: 24, least: 24},
	classHand:  {most: 24, least: 24},
	classTake:  {most: 20, least: 20},
	classWarm:  {most: 12, least: 1},
	classTrail: {most: 4, least: 1},
}

// patience is how long a write may take before its place is given to another: it
// waits for a webhook by then and not for the server's cores, which are what the
// widths are for.
const patience = time.Second

// A flow is what shares the places of a class: the writes of one namespace that are
// about one pool, as far as a write says which. It is empty where none is.
type flow struct{ ns, pool string }

// breadth is how many times as many writes as a class is wide one namespace may have
// under way, whatever they wait for. Beyond that each of its flows still has one.
const breadth = 4

// A gate admits writes class by class. A class narrows while a more urgent one has
// work under way, and stays open by its least width. A claim that has taken a sandbox
// is work under way until it is told: between the two writes nothing else slips in.
//
// Within a class the namespaces share, and the pools of each: the next place is for
// the one that has the fewest writes under way, and no pool has more of them than the
// class is wide. So slow writes of one pool hold up its own, and those of others for
// patience at most.
type gate struct {
	mu       sync.Mutex
	widths   widths
	lines    [classes]line
	untold   int // claims that have taken a sandbox and do not know yet
	draining bool
}

// A line is what is under way in a class, and what waits for it.
type line struct {
	// busy are the places in use.
	busy int
	// spaces and flows count what is under way of each namespace, and of each flow.
	spaces map[string]tally
	flows  map[flow]tally
	// waiting are the waiters of each flow, and order the flows that have some, with
	// the one first that had a place longest ago.
	waiting map[flow][]*waiter
	order   []flow
}

// A tally counts writes under way: those that have a place, and those that had to give
// it up because they take so long.
type tally struct{ placed, parked int }

func (t tally) all() int { return t.placed + t.parked }

// A waiter is a write that waits for a place. Why it was refused is set before came is closed.
type waiter struct {
	came    chan struct{}
	refused error
	urgency
}

// A place is a write under way. It is parked when it has taken too long.
type place struct {
	gate   *gate
	class  class
	flow   flow
	parked bool
	left   bool
	late   *time.Timer
}

func newGate(w widths) *gate {
	g := &gate{widths: w}
	for c := range classes {
		g.lines[c] = line{spaces: map[string]tally{}, flows: map[flow]tally{}, waiting: map[flow][]*waiter{}}
	}
	return g
}

// enter waits for a place in the class of a write, which may become more urgent
// meanwhile.
func (g *gate) enter(ctx context.Context, w write) (*place, error) {
	f := flow{w.key.Namespace, w.pool}
	t := &waiter{came: make(chan struct{}), urgency: w.urgency}
	was := w.now()
	t.class = was
	if p, err := g.tryEnter(t, f); p != nil || err != nil {
		return p, err
	}
	if w.now() < was { // it became so before it stood where hurry looks
		g.hurry(w.member)
	}
	select {
	case <-t.came:
	case <-ctx.Done():
		if g.forget(f, t) {
			return nil, context.Cause(ctx)
		}
		if t.refused == nil {
			g.place(t.class, f).leave() // the place came in the same moment; pass it on
		}
		return nil, context.Cause(ctx)
	}
	if t.refused != nil {
		return nil, t.refused
	}
	return g.place(t.class, f), nil
}

// tryEnter gives a write a place that is free. Otherwise it returns none, and the write
// waits.
func (g *gate) tryEnter(t *waiter, f flow) (*place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.lines[t.class]
	switch {
	case g.draining && t.class >= classWarm:
		return nil, ErrStopped
	case g.open(t.class) && l.admits(f, g.widths[t.class].most):
		l.take(f)
		return g.place(t.class, f), nil
	}
	l.wait(f, t)
	return nil, nil
}

// hurry has a claim wait for the member of a pool: of the writes that wait, those that
// launch it become as urgent as that.
func (g *gate) hurry(member cache.ObjectName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.lines[classWarm]
	for f, all := range l.waiting {
		if f.ns != member.Namespace {
			continue
		}
		i := slices.IndexFunc(all, func(t *waiter) bool { return t.awaited != nil && t.member == member })
		if i >= 0 { // a member has one at a time: its steps follow each other
			t := all[i]
			l.unwait(f, t)
			t.class = t.hurried
			g.lines[t.class].wait(f, t)
			g.admit()
			return
		}
	}
}

// drain refuses the writes that nobody waits for, from now on and those that have
// not begun.
func (g *gate) drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
	for c := classWarm; c < classes; c++ {
		l := &g.lines[c]
		for _, all := range l.waiting {
			for _, t := range all {
				t.refused = ErrStopped
				close(t.came)
			}
		}
		clear(l.waiting)
		l.order = nil
	}
}

// open reports whether a class has a place now.
func (g *gate) open(c class) bool {
	places := g.widths[c].most
	if c > classTake && g.untold > 0 {
		places = g.widths[c].least
	}
	for urgent := range c {
		if g.lines[urgent].busy > 0 { // whoever could wait there would have a place
			places = g.widths[c].least
		}
	}
	return g.lines[c].busy < places
}

// quiet reports whether at most one claim is being served: no write that another one
// waits for is under way or waits for its place.
func (g *gate) quiet() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range classWarm {
		if g.lines[c].busy > 0 || len(g.lines[c].order) > 0 {
			return false
		}
	}
	return g.untold <= 1
}

// owe counts a claim that is to be told, or one fewer.
func (g *gate) owe(claims int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.untold += claims
	g.admit()
}

// A claimStep is a step of a claim, which may take a sandbox. The claim is owed an
// answer from then on, for patience at most: what holds up the answer then is not the
// writes of others.
type claimStep struct {
	gate *gate
	owed *time.Timer
}

type claimStepKey struct{}

// ClaimStep begins a step of a claim and returns what ends it. Once the step has taken a
// sandbox, less urgent writes make room until it ends: by then the claim is told.
func (a *Applier) ClaimStep(ctx context.Context) (context.Context, func()) {
	s := &claimStep{gate: a.gate}
	return context.WithValue(ctx, claimStepKey{}, s), s.end
}

// took notes that a write of a step has taken a sandbox, before it leaves its place.
func took(ctx context.Context, w write) {
	s, ok := ctx.Value(claimStepKey{}).(*claimStep)
	if !ok || w.class != classTake || s.owed != nil {
		return
	}
	s.gate.owe(1)
	s.owed = time.AfterFunc(patience, func() { s.gate.owe(-1) })
}

func (s *claimStep) end() {
	if s.owed != nil && s.owed.Stop() {
		s.gate.owe(-1)
	}
}

// admit lets waiting writes in, most urgent first.
func (g *gate) admit() {
	for c := range classes {
		for g.open(c) {
			t, ok := g.lines[c].next(g.widths[c].most)
			if !ok {
				break
			}
			close(t.came)
		}
	}
}

// forget takes a waiter out of its line; it reports false when its place has come.
func (g *gate) forget(f flow, t *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines[t.class].unwait(f, t)
}

// admits reports whether a flow may have another write under way. A namespace that has
// too many narrows to one for each flow, and never closes.
func (l *line) admits(f flow, most int) bool {
	n := l.flows[f].all()
	return n < most && (n == 0 || l.spaces[f.ns].all() < breadth*most)
}

func (l *line) take(f flow) { l.count(f, 1, 0) }

// count changes what is under way of a flow.
func (l *line) count(f flow, placed, parked int) {
	l.busy += placed
	change(l.flows, f, placed, parked)
	change(l.spaces, f.ns, placed, parked)
}

func change[K comparable](all map[K]tally, of K, placed, parked int) {
	t := all[of]
	t.placed, t.parked = t.placed+placed, t.parked+parked
	if all[of] = t; t == (tally{}) {
		delete(all, of)
	}
}

func (l *line) wait(f flow, t *waiter) {
	if len(l.waiting[f]) == 0 {
		l.order = append(l.order, f)
	}
	l.waiting[f] = append(l.waiting[f], t)
}

// unwait takes a waiter out; it reports false where it does not wait.
func (l *line) unwait(f flow, t *waiter) bool {
	i := slices.Index(l.waiting[f], t)
	if i < 0 {
		return false
	}
	l.waiting[f] = slices.Delete(l.waiting[f], i, i+1)
	if len(l.waiting[f]) == 0 {
		l.gone(slices.Index(l.order, f))
	}
	return true
}

// next takes out the waiter whose place is to come: the first of the flow that has the fewest
// writes under way. What has places counts for its whole namespace, what was parked
// against its own flow alone: so a pool whose writes hang is behind all others, and
// the pools beside it are not.
func (l *line) next(most int) (*waiter, bool) {
	best, least, fewest := -1, 0, 0
	rank := func(f flow) (int, int) { return l.spaces[f.ns].placed + l.flows[f].parked, l.flows[f].placed }
	for i, f := range l.order {
		if !l.admits(f, most) {
			continue
		}
		space, own := rank(f)
		if best < 0 || space < least || space == least && own < fewest {
			best, least, fewest = i, space, own
		}
	}
	if best < 0 {
		return nil, false
	}
	f := l.order[best]
	t := l.waiting[f][0]
	if l.waiting[f] = l.waiting[f][1:]; len(l.waiting[f]) == 0 {
		l.gone(best)
	} else {
		l.order = append(slices.Delete(l.order, best, best+1), f)
	}
	l.take(f)
	return t, true
}

// gone forgets a flow that nothing of waits any more.
func (l *line) gone(at int) {
	delete(l.waiting, l.order[at])
	l.order = slices.Delete(l.order, at, at+1)
}

// place watches over a write that was admitted.
func (g *gate) place(c class, f flow) *place {
	p := &place{gate: g, class: c, flow: f}
	p.late = time.AfterFunc(patience, p.park)
	return p
}

// park gives the place to others while the write goes on.
func (p *place) park() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.left || p.parked {
		return
	}
	p.parked = true
	p.gate.lines[p.class].count(p.flow, -1, 1)
	p.gate.admit()
}

func (p *place) leave() {
	p.late.Stop()
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.left = true
	if p.parked {
		p.gate.lines[p.class].count(p.flow, 0, -1)
	} else {
		p.gate.lines[p.class].count(p.flow, -1, 0)
	}
	p.gate.admit()
}
