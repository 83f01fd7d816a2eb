package states

import (
	"fmt"
	"slices"
	"time"
)

// What can happen in the walk: the leaders' steps, which are the package's own
// decisions carried out under the guards that writes have, and everything that
// is nobody's decision.

// A scene is where a walk starts and what may happen on the way.
type scene struct {
	name string
	// leaders is how many controllers act at once.
	leaders int
	// ready and starting are the members there are; unborn is how many more the
	// pool may make.
	ready, starting, unborn int
	// claims is how many there are, replicas how many members the pool shall have.
	claims, replicas int
	// faults is how many may happen in one story, which says of what kind.
	faults byte
	which  fault
	// changes is how often a user may change the template; the claims are made
	// meanwhile.
	changes byte
	// endless: the pool never runs out of names for its members.
	endless bool
	// strategy is how old members are replaced, within budget; strict is whether
	// claims must not get old ones.
	strategy Strategy
	budget   Budget
	strict   bool
	// prompt are the kinds whose watch is never behind.
	prompt []kind
	// without takes guards away, to see that the walk notices.
	without guard
}

// A fault is a thing that may go wrong.
type fault uint

// The faults. A crash is none of them: it costs nothing, for a leader remembers
// nothing but its views.
const (
	lostResponse fault = 1 << iota
	claimDeleted
	sandboxDeleted
	podDeleted
	podBlinks
	scaledDown
	touched

	everything = 1<<iota - 1
)

// A guard is a rule that keeps a promise.
type guard uint

const (
	// versionOnAdopt: a sandbox is adopted only as it was seen.
	versionOnAdopt guard = 1 << iota
	// versionOnClaim: the status of a claim is written only as it was seen.
	versionOnClaim
	// versionOnRetired: a pod is told that its sandbox was retired only as it was
	// seen, unless a pool holds the sandbox: then its word is warming or ready.
	versionOnRetired
	// versionOnRetire: a sandbox is retired only as it was seen.
	versionOnRetire
	// uidOfTold: a claim knows the sandbox it was told of by its UID.
	uidOfTold
	// staleHoldsNothing: what a stale claim holds is a twin.
	staleHoldsNothing
	// proofOfView: what the watch shows of the template is proven to be as new as
	// the claim.
	proofOfView
	// refusalOnClaim: a sandbox is refused on the claim before it is retired.
	refusalOnClaim
)

func (s *scene) has(g guard) bool { return s.without&g == 0 }

func (s *scene) start() world {
	w := world{replicas: byte(s.replicas)}
	w.truth.template[0] = firstRevision
	for i := range s.ready + s.starting {
		w.truth.sandbox[i] = byPool
		w.past.made[i] = firstRevision
		w.truth.pod[i] = code(Warming)
		if i < s.ready {
			w.truth.pod[i] = code(Ready) | readyBit
		}
	}
	for i := s.ready + s.starting + s.unborn; i < members && !s.endless; i++ {
		w.truth.sandbox[i] = byPool | goneBits
	}
	for l := range s.leaders {
		w.relist(l)
	}
	for i := range s.claims { // claims are new: no watch shows them yet
		w.past.born[i] = toCome
		if s.changes == 0 {
			w.makeClaim(i)
		}
	}
	return w
}

// A stroll finds what can happen next in one world.
type stroll struct {
	*scene
	w    world
	next func(to world, how, wrong string)
	// loud: what happens is wanted in words; calm: nothing goes wrong any more.
	loud, calm bool
}

// say is silent while nobody listens: a walk asks millions of times.
func (s *stroll) say(format string, args ...any) string {
	if !s.loud {
		return ""
	}
	return fmt.Sprintf(format, slices.Clone(args)...) // a clone, so that the silent do not allocate
}

func (s *stroll) to(w world, how, wrong string) {
	for _, k := range s.prompt {
		for l := range s.leaders {
			w.watch(k, l)
		}
	}
	s.forget(&w)
	if w == s.w {
		return
	}
	if wrong == "" && w.truth != s.w.truth {
		wrong = broke(&s.w.truth, &w.truth)
	}
	s.next(w, how, wrong)
}

// steps calls next with each world that may come.
func (s *stroll) steps() {
	s.nature()
	s.users()
	for l := range s.leaders {
		s.news(l)
		for i := range claims {
			s.claim(l, i)
		}
		for i := range slots {
			s.sandbox(l, i)
		}
		s.pool(l)
	}
	s.mishaps()
}

// nature is what happens without anybody's doing.
func (s *stroll) nature() {
	for i, p := range s.w.truth.pod {
		if exists(p) && p&readyBit == 0 {
			w := s.w
			w.write(pods, i, p|readyBit, 0, false)
			s.to(w, s.say("pod %s becomes Ready", place(i)), "")
		}
	}
	for i, b := range s.w.truth.sandbox {
		if c := claimOf(b); exists(b) && c >= 0 && !exists(s.w.truth.claim[c]) {
			w := s.w
			w.remove(i, 0, false)
			s.to(w, s.say("the garbage collector removes sandbox %s", place(i)), "")
		}
	}
}

// news is what a leader hears.
func (s *stroll) news(l int) {
	for k := range kinds {
		w := s.w
		w.watch(k, l)
		s.to(w, s.say("leader %d's watch shows the %s", l, k), "")
	}
	w := s.w
	w.relist(l)
	s.to(w, s.say("leader %d crashes, and lists everything", l), "")
}

// fails reports whether a fault may happen now, and a world in which it does.
func (s *stroll) fails(f fault) (world, bool) {
	w := s.w
	w.faults++
	return w, !s.calm && s.which&f != 0 && s.w.faults < s.faults
}

// mishaps are what users, nodes and networks do.
func (s *stroll) mishaps() {
	if s.calm || s.w.faults >= s.faults {
		return
	}
	for i, c := range s.w.truth.claim {
		if w, ok := s.fails(claimDeleted); ok && exists(c) {
			w.write(claimants, i, 0, 0, false)
			s.to(w, s.say("a user deletes claim %d", i), "")
		}
	}
	for i, b := range s.w.truth.sandbox {
		if w, ok := s.fails(sandboxDeleted); ok && exists(b) {
			w.remove(i, 0, false)
			s.to(w, s.say("a user deletes sandbox %s", place(i)), "")
		}
		if w, ok := s.fails(touched); ok && exists(b) {
			w.write(sandboxes, i, b, 0, false)
			s.to(w, s.say("somebody touches sandbox %s", place(i)), "")
		}
	}
	for i, p := range s.w.truth.pod {
		if w, ok := s.fails(podDeleted); ok && exists(p) {
			w.write(pods, i, 0, 0, false)
			s.to(w, s.say("pod %s vanishes", place(i)), "")
		}
		if w, ok := s.fails(podBlinks); ok && exists(p) && p&readyBit != 0 {
			w.write(pods, i, p&^readyBit, 0, false)
			s.to(w, s.say("pod %s loses readiness", place(i)), "")
		}
	}
	if w, ok := s.fails(scaledDown); ok && w.replicas > 0 {
		w.replicas--
		s.to(w, s.say("a user scales the pool to %d", w.replicas), "")
	}
}

// commit is a write that succeeds. Its writer learns of it, or the response is
// lost: then the writer goes on with what it believed before.
func (s *stroll) commit(how, wrong string, do func(w *world, learns bool)) {
	w := s.w
	do(&w, true)
	s.to(w, how, wrong)
	if lost, ok := s.fails(lostResponse); ok {
		do(&lost, false)
		s.to(lost, how+s.say("; the response is lost"), wrong)
	}
}

// refused is a write that its guard stops. It changes nothing, and its writer
// reads the object.
func (s *stroll) refused(l int, k kind, i int, how string) {
	w := s.w
	w.read(k, i, l)
	s.to(w, how+s.say(": refused"), "")
}

// claimFacts are what a view shows of a claim, and the sandboxes it may mean.
func (p *plane) claimFacts(i int) (f ClaimFacts, held []int) {
	state, _ := wordOf(p.claim[i])
	slot, told := toldOf(p.claim[i])
	f = ClaimFacts{State: state, Told: told, Pool: Present, Template: Present, Patience: time.Minute}
	for j, b := range p.sandbox {
		mine := claimOf(b) == i && b&retiredBit == 0 && !refuses(p.claim[i], j)
		if mine && (!told || j == slot && b&impostorBit == 0) {
			held = append(held, j)
		}
	}
	return f, held
}

// asks reports whether a claim asks the shelf.
func (p *plane) asks(i int) bool {
	f, held := p.claimFacts(i)
	return exists(p.claim[i]) && len(held) == 0 && f.Asks()
}

// claim is a leader's step of a claim.
func (s *stroll) claim(l, i int) {
	v := &s.w.view[l]
	if !exists(v.claim[i]) {
		return
	}
	f, held := v.claimFacts(i)
	f.Strict, f.View = s.strict, s.seen(l, i)
	for _, j := range held { // which of two it finds first is left open
		f.Holds = HoldsWarm
		if j >= members {
			f.Holds = HoldsStarting
			if v.pod[j]&readyBit != 0 {
				f.Holds = HoldsReady
			}
		}
		f.Outdated = j < members && !s.current(l, j)
		s.prove(l, i, j, f)
	}
	switch {
	case len(held) > 0:
	case f.Asks():
		s.ask(l, i, f)
	default:
		s.miss(l, i, f)
	}
}

// ask asks the shelf. How long the claim has waited in line is left open.
func (s *stroll) ask(l, i int, f ClaimFacts) {
	others := 0
	if s.w.view[l].asks(1 - i) {
		others = 1
	}
	free, coming := s.onShelf(l)
	for _, o := range offersOf[free][coming][others] {
		f.Offer = o.Offer
		for _, f.Waited = range []time.Duration{0, f.Patience} {
			s.prove(l, i, o.slot, f)
		}
	}
}

// miss is a step of a claim that was told of a sandbox and is not shown it. The
// API server is asked in the same step.
func (s *stroll) miss(l, i int, f ClaimFacts) {
	slot, _ := toldOf(s.w.view[l].claim[i])
	d := StepClaim(f)
	if d.Act == Check && s.w.truth.sandbox[slot] != byte(byClaim+i) {
		f.Sandbox = Missing
		d = StepClaim(f)
	}
	s.carryOut(l, i, slot, d)
}

// carryOut does what was decided for a claim, about a sandbox.
func (s *stroll) carryOut(l, i, slot int, d Decision) {
	switch d.Act {
	case Check:
		w := s.w
		w.read(sandboxes, slot, l)
		s.to(w, s.say("leader %d asks for sandbox %s", l, place(slot)), "")
	case Adopt:
		s.adopt(l, i, slot)
	case Create:
		s.createOwn(l, i)
	case Move:
		s.moveClaim(l, i, slot, d.Event)
	case Refuse:
		s.refuse(l, i, slot)
	case Rest, Report, Note, Retire, Delete: // nothing that a word or a holder follows from
	}
}

func (s *stroll) adopt(l, i, slot int) {
	how := s.say("leader %d adopts sandbox %s for claim %d", l, place(slot), i)
	b, mine := s.w.truth.sandbox[slot], s.w.view[l].sandbox[slot]
	open := !s.has(versionOnAdopt) && mine&sameBit != 0
	if mine&currentBit == 0 && !open {
		s.refused(l, sandboxes, slot, how)
		return
	}
	s.commit(how, "", func(w *world, learns bool) {
		w.write(sandboxes, slot, b&^holderBits|byte(byClaim+i), l, learns)
	})
}

func (s *stroll) createOwn(l, i int) {
	slot := members + i
	how := s.say("leader %d creates sandbox %s for claim %d", l, place(slot), i)
	if exists(s.w.truth.sandbox[slot]) {
		s.refused(l, sandboxes, slot, how)
		return
	}
	made, wrong := byte(byClaim+i), s.tooOld(&s.w, i, s.w.view[l].template[0]&contentBits, place(slot))
	if was, told := toldOf(s.w.truth.claim[i]); told && was == slot {
		made |= impostorBit
		if !s.has(uidOfTold) {
			wrong = fmt.Sprintf("P1: claim %d was told of sandbox %s, and that name is another sandbox's now", i, place(slot))
		}
	}
	s.commit(how, wrong, func(w *world, learns bool) { w.write(sandboxes, slot, made, l, learns) })
}

func (s *stroll) moveClaim(l, i, slot int, e Event) {
	state, _ := wordOf(s.w.view[l].claim[i])
	edge, _ := Claim.Edge(state, e)
	how := s.say("leader %d moves claim %d from %s to %s: %s, sandbox %s", l, i, state, edge.To, e, place(slot))
	c, mine := s.w.truth.claim[i], s.w.view[l].claim[i]
	open := !s.has(versionOnClaim) && exists(c)
	if mine&currentBit == 0 && !open {
		s.refused(l, claimants, i, how)
		return
	}
	is := code(edge.To)
	if e != ClaimLost {
		is |= byte(slot+1) << toldShift
	}
	b, wrong := s.w.truth.sandbox[slot], ""
	if e != ClaimLost && slot < members && claimOf(b) != i {
		wrong = fmt.Sprintf("P1: claim %d is told of sandbox %s, which it never held", i, place(slot))
	}
	if e != ClaimLost && slot < members && wrong == "" {
		wrong = s.tooOld(&s.w, i, s.w.past.made[slot], place(slot))
	}
	s.commit(how, wrong, func(w *world, learns bool) {
		if e != ClaimLost && exists(b) && s.w.view[l].sandbox[slot]&sameBit == 0 {
			w.truth.sandbox[slot] |= impostorBit // it was told of the one that had the name before
		}
		w.write(claimants, i, is, l, learns)
	})
}

func (s *stroll) refuse(l, i, slot int) {
	if !s.has(refusalOnClaim) {
		s.retire(l, slot)
		return
	}
	how := s.say("leader %d refuses sandbox %s for claim %d", l, place(slot), i)
	if s.w.view[l].claim[i]&currentBit == 0 {
		s.refused(l, claimants, i, how)
		return
	}
	s.commit(how, "", func(w *world, learns bool) {
		w.write(claimants, i, w.truth.claim[i]|1<<(toldShift+slot), l, learns)
	})
}

// sandboxFacts are what a view shows of a sandbox and its pod.
func (s *stroll) sandboxFacts(v *plane, i int) SandboxFacts {
	b, p := v.sandbox[i], v.pod[i]
	f := SandboxFacts{Retired: b&retiredBit != 0, Warm: i < members, Holder: ByPool, Word: Pod.Initial}
	if owner := claimOf(b); owner >= 0 {
		state, known := wordOf(v.claim[owner])
		slot, told := toldOf(v.claim[owner])
		another := told && (slot != i || b&impostorBit != 0) || refuses(v.claim[owner], i)
		f.Told = told && slot == i && state == Bound
		switch f.Holder = ByClaim; {
		case !known:
			f.Holder = ByUnseen
		case another, state == Stale && s.has(staleHoldsNothing):
			f.Holder = ByTwin
		}
	}
	if state, ok := wordOf(p); ok {
		f.Word, f.Pod = state, PodStarting
		if p&readyBit != 0 {
			f.Pod = PodReady
		}
	}
	return f
}

// sandbox is a leader's step of a sandbox and its pod.
func (s *stroll) sandbox(l, i int) {
	b := s.w.view[l].sandbox[i]
	if !exists(b) {
		return
	}
	f := s.sandboxFacts(&s.w.view[l], i)
	d := StepSandbox(f)
	if owner := claimOf(b); d.Act == Check {
		if exists(s.w.truth.claim[owner]) {
			w := s.w
			w.read(claimants, owner, l)
			s.to(w, s.say("leader %d asks for claim %d", l, owner), "")
			return
		}
		f.Holder = ByGhost
		d = StepSandbox(f)
	}
	switch d.Act {
	case Create:
		s.createPod(l, i)
	case Move:
		s.movePod(l, i, d.Event)
	case Retire:
		s.retire(l, i)
	case Delete:
		s.remove(l, i)
	case Rest, Report, Note, Check, Adopt, Refuse:
	}
}

func (s *stroll) createPod(l, i int) {
	how := s.say("leader %d creates pod %s", l, place(i))
	orphan := s.w.view[l].sandbox[i]&sameBit == 0
	if exists(s.w.truth.pod[i]) || orphan { // an orphan is collected at once
		s.refused(l, pods, i, how)
		return
	}
	s.commit(how, "", func(w *world, learns bool) { w.write(pods, i, code(Warming), l, learns) })
}

func (s *stroll) movePod(l, i int, e Event) {
	mine := s.w.view[l].pod[i]
	state, _ := wordOf(mine)
	edge, _ := Pod.Edge(state, e)
	how := s.say("leader %d moves pod %s from %s to %s: %s", l, place(i), state, edge.To, e)
	pooled := s.w.view[l].sandbox[i]&holderBits == byPool
	open := e == Retired && mine&sameBit != 0 && (pooled || !s.has(versionOnRetired))
	if mine&currentBit == 0 && !open {
		s.refused(l, pods, i, how)
		return
	}
	s.commit(how, "", func(w *world, learns bool) {
		w.write(pods, i, code(edge.To)|w.truth.pod[i]&readyBit, l, learns)
	})
}

func (s *stroll) retire(l, i int) {
	how := s.say("leader %d retires sandbox %s", l, place(i))
	mine := s.w.view[l].sandbox[i]
	open := !s.has(versionOnRetire) && mine&sameBit != 0
	if mine&currentBit == 0 && !open {
		s.refused(l, sandboxes, i, how)
		return
	}
	wrong := s.untouchable(i, "retired")
	if c := claimOf(s.w.truth.sandbox[i]); wrong == "" && c >= 0 && mine&holderBits == byPool {
		wrong = fmt.Sprintf("P3: sandbox %s is retired by its pool, and claim %d holds it", place(i), c)
	}
	s.commit(how, wrong, func(w *world, learns bool) {
		w.write(sandboxes, i, w.truth.sandbox[i]|retiredBit, l, learns)
	})
}

func (s *stroll) remove(l, i int) {
	how := s.say("leader %d deletes sandbox %s", l, place(i))
	if s.w.view[l].sandbox[i]&currentBit == 0 {
		s.refused(l, sandboxes, i, how)
		return
	}
	s.commit(how, s.untouchable(i, "deleted"), func(w *world, learns bool) { w.remove(i, l, learns) })
}

// untouchable finds the claim that was told of a sandbox.
func (s *stroll) untouchable(i int, what string) string {
	for c, b := range s.w.truth.claim {
		if slot, told := toldOf(b); told && slot == i && s.w.truth.sandbox[i]&impostorBit == 0 {
			return fmt.Sprintf("P3: sandbox %s is %s by a controller, and claim %d was told of it", place(i), what, c)
		}
	}
	return ""
}

// pool is a leader's step of the pool. Which member is older is left open.
func (s *stroll) pool(l int) {
	v := &s.w.view[l]
	for older := range members {
		f := PoolFacts{
			Replicas: int(s.w.replicas), Template: Present, Batch: members, Members: make([]Member, 0, members),
			Strategy: s.strategy, Budget: s.budget,
		}
		switch s.strategy { // as every pool has it that does not say
		case OnReplenish:
			f.Budget.Surge = (f.Replicas + 3) / 4
		case Recreate:
			f.Budget.Surge = f.Replicas
		case Rolling:
		}
		for i := range members {
			if v.sandbox[i]&holderBits != byPool {
				continue
			}
			m := Member{
				Name: place(i).String(), Word: Pod.Initial, Current: s.current(l, i),
				Leaving: v.sandbox[i]&retiredBit != 0, Born: at((i - older + members) % members),
			}
			if state, ok := wordOf(v.pod[i]); ok {
				m.Word = state
			}
			f.Members = append(f.Members, m)
		}
		s.doPlan(l, PlanPool(f))
	}
}

// doPlan carries out one write of a plan; the others are planned again.
func (s *stroll) doPlan(l int, plan PoolPlan) {
	for i := range members {
		for _, leave := range plan.Retire {
			if leave.Name == place(i).String() {
				s.retire(l, i)
			}
		}
		if plan.Create > 0 && s.w.truth.sandbox[i] == 0 { // a name that was never used
			s.commit(s.say("leader %d creates member %s", l, place(i)), "", func(w *world, learns bool) {
				w.past.made[i] = w.view[l].template[0] & contentBits
				w.write(sandboxes, i, byPool, l, learns)
			})
		}
	}
}
