package states

import (
	"fmt"
	"slices"
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
	// deletes: a claim goes when its time is over, and does not stay as a record.
	deletes bool
	// endless: the pool never runs out of names for its members.
	endless bool
	// policy is how old members are replaced.
	policy UpdatePolicy
	// by is who is who; strict is what that makes of the policy.
	by     identity
	strict bool
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

	// Two that are no faults, but happen as seldom: a claim's lifetime is over, and a
	// user makes a sandbox of a claim's name.
	claimExpires = 1 << (iota - 1)
	nameTaken    = 1 << (iota - 1)
)

// A guard is a rule that keeps a promise.
type guard uint

const (
	// versionOnAdopt: a sandbox is adopted only as it was seen.
	versionOnAdopt guard = 1 << iota
	// versionOnClaim: the status of a claim is written only as it was seen.
	versionOnClaim
	// versionOnRetired: a pod is told that its sandbox was retired only as it was
	// seen, unless a pool holds the sandbox: then its state is warming or ready.
	versionOnRetired
	// versionOnRetire: a sandbox is retired only as it was seen.
	versionOnRetire
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
	// boxes and members are room for what a step looks at.
	boxes   [slots]Sandbox
	members [members]Member
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
	for i, c := range s.w.truth.claim {
		state, _ := wordOf(c)
		if w, ok := s.fails(claimExpires); ok && exists(c) && state != Stale {
			w.past.over[i] = true
			s.to(w, s.say("the time of claim %d is over", i), "")
		}
	}
	for i, c := range s.w.truth.claim {
		slot := members + i
		if w, ok := s.fails(nameTaken); ok && exists(c) && !exists(s.w.truth.sandbox[slot]) {
			made := byte(byUser)
			if named, told := toldOf(c); told && named == slot {
				made |= impostorBit
			}
			w.write(sandboxes, slot, made, 0, false)
			s.to(w, s.say("a user makes sandbox %s", place(slot)), "")
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
