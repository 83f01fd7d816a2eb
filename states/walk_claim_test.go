package states

import (
	"fmt"
	"time"
)

// A leader's step of a claim, in the walk.

// claimFacts are what a plane shows of a claim that holds nothing. A claim's time is
// over for everybody at once; that a leader's clock is behind is as if it had not
// looked yet.
func (s *stroll) claimFacts(p *plane, i int) ClaimFacts {
	c := p.claimView(i)
	return ClaimFacts{
		State: c.State, Named: c.SandboxName != "", Pool: PresenceShown, Template: PresenceShown, MaxWait: time.Minute,
		Lifetime: Lifetime{Ends: s.w.past.over[i], Deletes: s.deletes},
	}
}

// asks reports whether a claim asks the shelf.
func (s *stroll) asks(p *plane, i int) bool {
	if !exists(p.claim[i]) || StepClaim(s.claimFacts(p, i)).Act != AskShelf {
		return false
	}
	found := s.held(p, i)
	return found.n == 0
}

// claim is a leader's step of a claim.
func (s *stroll) claim(l, i int) {
	v := &s.w.view[l]
	if !exists(v.claim[i]) {
		return
	}
	f := s.claimFacts(v, i)
	f.Strict, f.Freshness = s.strict, s.seen(l, i)
	found := s.held(v, i)
	for _, j := range found.all() {
		f.Holds = s.by.holding(v.box(j))
		f.Outdated = j < members && !s.current(l, j)
		f.Handover = s.handover(v, j)
		s.prove(l, i, j, f)
	}
	switch {
	case found.n > 0:
	case StepClaim(f).Act == AskShelf:
		s.ask(l, i, f)
	default:
		s.miss(l, i, f)
	}
}

// ask asks the shelf. For how long the line has stood still is left open.
func (s *stroll) ask(l, i int, f ClaimFacts) {
	others := 0
	if s.asks(&s.w.view[l], 1-i) {
		others = 1
	}
	free, coming := s.onShelf(l)
	for _, o := range offersOf[free][coming][others] {
		f.Offer = o.Offer
		for _, f.Still = range [...]time.Duration{0, f.MaxWait} {
			s.prove(l, i, o.slot, f)
		}
	}
}

// miss is a step of a claim whose status names a sandbox that it is not shown. The
// API server is asked in the same step.
func (s *stroll) miss(l, i int, f ClaimFacts) {
	c := s.w.view[l].claimView(i)
	slot, told := toldOf(s.w.view[l].claim[i])
	d := StepClaim(f)
	if !told {
		slot = members + i // nothing happens to it
	}
	if d.Act == ReadSandbox {
		is := PresenceMissing
		if exists(s.w.truth.sandbox[slot]) {
			is = PresenceShown
		}
		if f.Sandbox = s.by.loses(c, s.w.truth.box(slot), is); f.Sandbox == PresenceMissing {
			d = StepClaim(f)
		}
	}
	s.carryOut(l, i, slot, d)
}

// carryOut does what was decided for a claim, about a sandbox.
func (s *stroll) carryOut(l, i, slot int, d Decision) {
	switch d.Act {
	case ReadSandbox:
		w := s.w
		w.read(sandboxes, slot, l)
		s.to(w, s.say("leader %d reads sandbox %s", l, place(slot)), "")
	case Adopt:
		s.adopt(l, i, slot)
	case Create:
		s.createOwn(l, i)
	case Move:
		if d.About.Part == PartPod {
			s.movePod(l, slot, d.About.Event)
			return
		}
		s.moveClaim(l, i, slot, d.About.Event)
	case Refuse:
		s.refuse(l, i, slot)
	case Report:
		s.report(l, i, slot)
	case Delete:
		s.end(l, i, slot, d.About.Part)
	case Rest, Wait, Retry, AskShelf, ReadPool, ReadTemplate, ReadClaim, ProveFresh, Annotate, Retire, Label, Sync:
		// nothing that a state or a holder follows from
	}
}

// end is a stale claim that takes with it what it has left. Only the UID guards the
// delete: nothing that happens to a stale claim's sandbox makes it anybody else's.
func (s *stroll) end(l, i, slot int, part Part) {
	if part == PartSelf {
		how := s.say("leader %d deletes claim %d, whose time is over", l, i)
		if s.w.view[l].claim[i]&sameBit == 0 {
			s.refused(l, claimants, i, how)
			return
		}
		s.commit(how, "", func(w *world, learns bool) { w.write(claimants, i, 0, l, learns) })
		return
	}
	how := s.say("leader %d deletes sandbox %s of claim %d, which has ended", l, place(slot), i)
	if s.w.view[l].sandbox[slot]&sameBit == 0 {
		s.refused(l, sandboxes, slot, how)
		return
	}
	wrong := s.untouchable(slot, "deleted")
	if c := claimOf(s.w.truth.sandbox[slot]); wrong == "" && c != i {
		wrong = fmt.Sprintf("P3: sandbox %s is deleted with claim %d, and is not its own", place(slot), i)
	}
	s.commit(how, wrong, func(w *world, learns bool) { w.remove(slot, l, learns) })
}

// report writes of the sandbox that a claim holds. No state changes with it; it only
// must not speak of another sandbox than before.
func (s *stroll) report(l, i, slot int) {
	v := &s.w.view[l]
	if named, told := toldOf(v.claim[i]); told && (named != slot || v.sandbox[slot]&impostorBit != 0) {
		how := s.say("leader %d reports sandbox %s for claim %d", l, place(slot), i)
		s.next(s.w, how, fmt.Sprintf("P1: claim %d was told of sandbox %s, and its status speaks of another %s now", i, place(named), place(slot)))
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
	wrong := ""
	switch pod := s.w.view[l].pod[slot] & contentBits; {
	case mine&holderBits == byPool && pod != code(Ready)|readyBit:
		wrong = fmt.Sprintf("claim %d adopts sandbox %s, which was not free", i, place(slot))
	case s.policy.Strict() && !s.current(l, slot):
		wrong = fmt.Sprintf("claim %d adopts sandbox %s, which is known to be outdated", i, place(slot))
	}
	s.commit(how, wrong, func(w *world, learns bool) {
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
	tells := e != EventLost && e != EventExpired
	if tells {
		is |= byte(slot+1) << toldShift
	}
	b, wrong := s.w.truth.sandbox[slot], s.mistold(l, i, slot, e)
	if tells && wrong == "" && edge.To == Bound {
		wrong = s.unreachable(l, i, slot)
	}
	if tells && slot < members && wrong == "" {
		wrong = s.tooOld(&s.w, i, s.w.past.made[slot], place(slot))
	}
	s.commit(how, wrong, func(w *world, learns bool) {
		if tells && exists(b) && s.w.view[l].sandbox[slot]&sameBit == 0 {
			w.truth.sandbox[slot] |= impostorBit // it was told of the one that had the name before
		}
		w.write(claimants, i, is, l, learns)
	})
}

// handover is how far a plane shows the hand-over of a sandbox's pod.
func (s *stroll) handover(p *plane, slot int) Handover {
	pod, state := p.podView(slot)
	return s.by.handover(p.box(slot), pod, state)
}

// unreachable says that a claim is told that it is Ready, and the pod is not its own. A
// pod that was replaced without the leader's knowledge is nobody's fault.
func (s *stroll) unreachable(l, i, slot int) string {
	v, pod := &s.w.view[l], s.w.truth.pod[slot]
	if state, _ := wordOf(pod); v.pod[slot]&currentBit != 0 && exists(pod) && pod&readyBit != 0 && state != Bound && state != Stale {
		return fmt.Sprintf("P6: claim %d is told that it is Ready, and pod %s says %s", i, place(slot), state)
	}
	return ""
}

// mistold says what is not true of what a claim is told of a sandbox.
func (s *stroll) mistold(l, i, slot int, e Event) string {
	v, b := &s.w.view[l], s.w.truth.sandbox[slot]
	named, told := toldOf(s.w.truth.claim[i])
	switch {
	case e == EventLost && b == byte(byClaim+i):
		return fmt.Sprintf("P1: claim %d holds sandbox %s, and is told that it has lost it", i, place(slot))
	case e == EventLost, e == EventExpired:
	case slot < members && claimOf(b) != i:
		return fmt.Sprintf("P1: claim %d is told of sandbox %s, which it never held", i, place(slot))
	case told && named == slot && v.sandbox[slot]&impostorBit != 0:
		return fmt.Sprintf("P1: claim %d was told of sandbox %s, and that name is another sandbox's now", i, place(slot))
	case e == EventBound && slot >= members && v.pod[slot]&readyBit == 0:
		return fmt.Sprintf("claim %d is told that its own sandbox is Ready, which nobody has seen", i)
	}
	return ""
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
