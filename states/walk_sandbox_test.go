package states

import (
	"fmt"
	"slices"
)

// A leader's steps of a sandbox and of the pool, in the walk.

// sandboxFacts are what a view shows of a sandbox and its pod. Its status says all
// there is to say.
func (s *stroll) sandboxFacts(v *plane, i int) SandboxFacts {
	box := v.box(i)
	var claim ClaimView
	is := PresenceUnseen
	if owner := claimOf(v.sandbox[i]); owner >= 0 && exists(v.claim[owner]) {
		claim, is = v.claimView(owner), PresenceShown
	}
	f := SandboxFacts{
		Retired: box.Retired, Warm: box.Warm, Holder: s.by.holder(box, claim, is), Refused: claim.Refuses(box),
		ClaimKnows: is == PresenceShown && s.by.knows(claim, box), Readiness: ReasonPodReady, Reported: ReasonPodReady,
	}
	f.Own = is == PresenceShown && box.OwnOf(claim)
	f.Pod, f.State = v.podView(i)
	return f
}

// podView is a pod as a plane has it.
func (p *plane) podView(i int) (PodView, State) {
	state, ok := wordOf(p.pod[i])
	switch {
	case !ok:
		return PodNone, Pod.Initial
	case p.pod[i]&readyBit != 0:
		return PodReady, state
	}
	return PodStarting, state
}

// sandbox is a leader's step of a sandbox and its pod. Whether the step that adopted
// it is still under way is left open: nothing but its end is sure to come.
func (s *stroll) sandbox(l, i int) {
	v := &s.w.view[l]
	if !exists(v.sandbox[i]) {
		return
	}
	f := s.sandboxFacts(v, i)
	d := StepSandbox(f)
	if owner := claimOf(v.sandbox[i]); d.Act == ReadClaim {
		if exists(s.w.truth.claim[owner]) {
			w := s.w
			w.read(claimants, owner, l)
			s.to(w, s.say("leader %d reads claim %d", l, owner), "")
			return
		}
		f.Holder = s.by.holder(v.box(i), ClaimView{}, PresenceMissing)
		d = StepSandbox(f)
	}
	if d.Act != AskShelf {
		s.doSandbox(l, i, d)
		return
	}
	for _, f.Loan = range loans[1:] {
		s.doSandbox(l, i, StepSandbox(f))
	}
}

func (s *stroll) doSandbox(l, i int, d Decision) {
	switch d.Act {
	case Create:
		s.createPod(l, i)
	case Move:
		s.movePod(l, i, d.About.Event)
	case Retire:
		s.retire(l, i)
	case Delete:
		s.remove(l, i)
	case Rest, Wait, Retry, AskShelf, ReadPool, ReadTemplate, ReadSandbox, ReadClaim, ProveFresh, Report, Annotate, Adopt, Refuse, Sync, Label:
	}
}

func (s *stroll) createPod(l, i int) {
	how := s.say("leader %d creates pod %s", l, place(i))
	orphan := s.w.view[l].sandbox[i]&sameBit == 0
	if exists(s.w.truth.pod[i]) || orphan { // an orphan is collected at once
		s.refused(l, pods, i, how)
		return
	}
	wrong := ""
	if c := claimOf(s.w.view[l].sandbox[i]); c >= 0 && !exists(s.w.view[l].claim[c]) {
		wrong = fmt.Sprintf("pod %s is made, and nobody knows its claim %d", place(i), c)
	}
	s.commit(how, wrong, func(w *world, learns bool) { w.write(pods, i, code(Warming), l, learns) })
}

func (s *stroll) movePod(l, i int, e Event) {
	mine := s.w.view[l].pod[i]
	state, _ := wordOf(mine)
	edge, _ := Pod.Edge(state, e)
	how := s.say("leader %d moves pod %s from %s to %s: %s", l, place(i), state, edge.To, e)
	pooled := s.w.view[l].sandbox[i]&holderBits == byPool
	open := e == EventRetired && mine&sameBit != 0 && (pooled || !s.has(versionOnRetired))
	if mine&currentBit == 0 && !open {
		s.refused(l, pods, i, how)
		return
	}
	s.commit(how, s.mismoved(l, i, e), func(w *world, learns bool) {
		w.write(pods, i, code(edge.To)|w.truth.pod[i]&readyBit, l, learns)
	})
}

// mismoved says what is wrong with a move of a pod.
func (s *stroll) mismoved(l, i int, e Event) string {
	is, _ := wordOf(s.w.truth.pod[i])
	holds := claimOf(s.w.view[l].sandbox[i])
	own := claimOf(s.w.truth.sandbox[i])
	seen, _ := wordOf(s.w.view[l].pod[i])
	edge, _ := Pod.Edge(seen, e)
	if _, ok := Pod.Edge(is, e); !ok && is != edge.To {
		return fmt.Sprintf("P4: pod %s is %s, and is moved by %s", place(i), is, e)
	}
	if e == EventHanded && holds >= 0 {
		switch {
		case s.w.view[l].sandbox[i]&sameBit == 0: // in truth the pod is another sandbox's, and is not touched
		case own != holds:
			return fmt.Sprintf("P1: pod %s says that it is claim %d's, and the sandbox is not", place(i), holds)
		case i < members:
			return s.tooOld(&s.w, holds, s.w.past.made[i], place(i))
		}
	}
	if is == Bound && e == EventReleased {
		return s.untouchable(i, "released")
	}
	return ""
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

// pool is a leader's step of the pool. Which member is older is left open, and
// whether a step is under way for each claim that was not told yet of what it has,
// or for none.
func (s *stroll) pool(l int) {
	v := &s.w.view[l]
	untold := s.untold(v)
	for older := range members {
		f := PoolFacts{
			Replicas: int(s.w.replicas), Template: PresenceShown, Batch: members, Members: s.members[:0],
			Strategy: s.policy.Strategy, Budget: s.by.budget(s.policy, int(s.w.replicas)),
		}
		for i := range members {
			if v.sandbox[i]&holderBits == byPool {
				m := s.member(l, i)
				m.Born = at((i - older + members) % members)
				f.Members = append(f.Members, m)
			}
		}
		d := StepPool(f)
		if d.Act != AskShelf {
			s.doPool(l, d)
			continue
		}
		f.LoansKnown = true
		f.Refused = !slices.Contains(s.w.truth.sandbox[:members], 0) // no name is left
		s.doPool(l, StepPool(f))
		if f.Handing = untold; untold > 0 {
			s.doPool(l, StepPool(f))
		}
	}
}

// untold is how many members were adopted by claims that do not know it yet.
func (s *stroll) untold(v *plane) (n int) {
	for i := range members {
		if c := claimOf(v.sandbox[i]); c >= 0 && exists(v.sandbox[i]) && !s.by.knows(v.claimView(c), v.box(i)) {
			n++
		}
	}
	return n
}

// doPool carries out one write of a plan; the others are planned again.
func (s *stroll) doPool(l int, d Decision) {
	for i := range members {
		if d.Act == Create && s.w.truth.sandbox[i] == 0 { // a name that was never used
			s.commit(s.say("leader %d creates member %s", l, place(i)), "", func(w *world, learns bool) {
				w.past.made[i] = w.view[l].template[0] & contentBits
				w.write(sandboxes, i, byPool, l, learns)
			})
		}
		if d.Act != Retire {
			continue
		}
		for _, r := range d.About.Plan.Retire {
			if r.Name == place(i).String() {
				f := s.sandboxFacts(&s.w.view[l], i)
				f.Retire = r.Reason
				s.doSandbox(l, i, StepSandbox(f))
			}
		}
	}
}
