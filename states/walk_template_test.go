package states

import (
	"encoding/binary"
	"fmt"
)

// What the walk knows of a template that changes: which revision members were
// made from, which there was when a claim was made, and what a leader's view of
// the template is worth.

// A past is what can not be seen in the words any more: the revision each member
// was made from, the one there was when each claim was made, and which claims' time
// is over.
type past struct {
	made [members]byte
	born [claims]byte
	over [claims]bool
}

const (
	// firstRevision is the template's when a walk starts.
	firstRevision = 1
	// toCome is where a claim's revision stands that nobody has made yet.
	toCome = 0xff
)

func (r *renaming) past(p past) (q past) {
	for i := range members {
		q.made[r.slot[i]] = p.made[i]
	}
	q.born, q.over = p.born, p.over
	if r.swapsClaims {
		q.born[0], q.born[1] = q.born[1], q.born[0]
		q.over[0], q.over[1] = q.over[1], q.over[0]
	}
	return q
}

func (p *past) number() uint64 {
	read := binary.BigEndian.Uint16
	n := uint64(read(p.made[:]))<<16 | uint64(read(p.born[:]))
	for i, over := range p.over {
		if over {
			n |= 1 << (32 + i)
		}
	}
	return n
}

func (w *world) makeClaim(i int) {
	w.past.born[i] = w.truth.template[0]
	w.write(claimants, i, code(Binding), 0, false)
}

// users is what users do when nothing is wrong.
func (s *stroll) users() {
	if s.calm {
		return
	}
	for i, born := range s.w.past.born {
		if born == toCome {
			w := s.w
			w.makeClaim(i)
			s.to(w, s.say("a user makes claim %d, and the template is v%d", i, w.past.born[i]), "")
		}
	}
	if now := s.w.truth.template[0]; now < firstRevision+s.changes {
		w := s.w
		w.write(templates, 0, now+1, 0, false)
		s.to(w, s.say("a user changes the template to v%d", now+1), "")
	}
}

// current reports whether a member was made from the template as a leader's view
// has it.
func (s *stroll) current(l, i int) bool {
	return s.w.past.made[i] == s.w.view[l].template[0]&contentBits
}

// seen is how new a leader's view of the template is for a claim.
func (s *stroll) seen(l, i int) Freshness {
	if s.w.view[l].template[0]&contentBits >= s.w.past.born[i] || !s.has(proofOfView) {
		return FreshnessProven
	}
	return FreshnessUnknown
}

// prove is a step of a claim that may have to prove first how new its leader's view
// is. The API server is asked in the same step.
func (s *stroll) prove(l, i, slot int, f ClaimFacts) {
	d := StepClaim(f)
	if d.Act == ProveFresh {
		f.Freshness = FreshnessBehind
		if s.w.view[l].template[0]&contentBits == s.w.truth.template[0] {
			f.Freshness = FreshnessProven
		}
		d = StepClaim(f)
	}
	s.carryOut(l, i, slot, d)
}

// tooOld says that a claim gets a sandbox of an older revision than there was
// when it was made.
func (s *scene) tooOld(w *world, i int, made byte, slot place) string {
	if !s.policy.Strict() || made >= w.past.born[i] {
		return ""
	}
	return fmt.Sprintf("P2: claim %d was made when the template was v%d, and gets sandbox %s of v%d", i, w.past.born[i], slot, made)
}

// forget frees the name of a member that is gone, once no view shows it and no
// claim was told of it: from then on it is as good as one that was never used.
func (s *scene) forget(w *world) {
	if !s.endless {
		return
	}
	for i := range members {
		if gone := w.truth.sandbox[i]&goneBits == goneBits; gone && !w.knows(i) {
			w.truth.sandbox[i], w.past.made[i] = 0, 0
		}
	}
}

// knows reports whether anything refers to a member's name. A refusal does: it is
// of one sandbox, and not of another that gets the name.
func (w *world) knows(i int) bool {
	for _, p := range [...]*plane{&w.truth, &w.view[0], &w.view[1]} {
		if p != &w.truth && exists(p.sandbox[i]) || exists(p.pod[i]) {
			return true
		}
		for _, c := range p.claim {
			slot, told := toldOf(c)
			if told && slot == i || refuses(c, i) {
				return true
			}
		}
	}
	return false
}
