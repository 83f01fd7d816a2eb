package states

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A walk through what happens to one claim, a member of its pool, and the sandbox that
// the claim may get for its own, when sandboxes are suspended and resumed, when their
// time or the claim's is over, when hands delete things and call them retired, and when
// the agent-sandbox controller has made all of it. It drives the real decisions. The
// leader's view of each kind is brought up to date when the watch pleases; what it
// writes itself it sees at once, unless the answer is lost.

// A room is one sandbox with its pod. The member is in the first, the claim's own in
// the second.
type room struct {
	there, retired, suspended, ends bool
	owner                           OwnerKind
	// says is what its status says, empty before it says anything.
	says Reason
	// pod, ready and word are its pod.
	pod, ready bool
	word       State
}

// A tenant is the claim. Its status names a room, counted from one; that of the
// agent-sandbox controller has neither a UID nor a state.
type tenant struct {
	there, theirs bool
	state         State
	named         int
}

// A hostel is one copy of everything.
type hostel struct {
	rooms  [2]room
	tenant tenant
}

// An idleWorld is the truth and the leader's view of it.
type idleWorld struct {
	truth, view hostel
	// fresh: the view has the newest version of the sandboxes, the pods and the claim.
	rooms, pods [2]bool
	tenant      bool
	// over: the claim's time is over.
	over bool
	// hand: somebody has deleted a sandbox, or has had its time be over. marked: somebody
	// has called one retired.
	hand, marked bool
	users        int
}

// An idleScene is where such a walk starts, and what is deleted at the end of a time.
type idleScene struct {
	name               string
	start              hostel
	ephemeral, deletes bool
	users              int
}

type idleWalk struct {
	*idleScene
	t    *testing.T
	seen map[idleWorld]idleStep
	todo []idleWorld
	acts map[Act]int
}

// An idleStep is how a world was come to.
type idleStep struct {
	from idleWorld
	how  string
}

var roomNames = [2]string{"member", "own"}

const tenantUID = "uid-c"

func (k *idleWalk) to(from, w idleWorld, how string) {
	if w == from {
		return
	}
	for i := range w.truth.rooms {
		if why := k.broke(from, w, i); why != "" {
			k.wrong(from, how+": "+why)
			return
		}
	}
	if _, ok := k.seen[w]; !ok {
		k.seen[w] = idleStep{from, how}
		k.todo = append(k.todo, w)
	}
}

// broke is what no step may do, whoever makes it, but for what is said to be a hand's.
func (k *idleWalk) broke(from, w idleWorld, i int) string {
	was, is, c, d := from.truth.rooms[i], w.truth.rooms[i], from.truth.tenant, w.truth.tenant
	if was.there && is.there && was.owner == OwnerClaim && is.owner != OwnerClaim {
		return "P1: it left its claim"
	}
	if c.there && d.there && c.named != 0 && d.named != 0 && c.named != d.named {
		return "P1: the claim was told of another sandbox"
	}
	if was.there && is.there && was.says == ReasonExpired && is.says != ReasonExpired {
		return "its time was over, and it says something else"
	}
	healed := from.marked && is.word == Bound // what a hand has called retired is bound again
	if was.pod && is.pod && was.word != is.word && was.word != "" && !healed {
		if _, ok := Pod.Between(was.word, is.word); !ok {
			return fmt.Sprintf("P4: its pod went from %s to %s", was.word, is.word)
		}
	}
	return ""
}

func (k *idleWalk) wrong(w idleWorld, what string) {
	if k.t.Failed() {
		return // the first story is the shortest
	}
	var story []string
	for at := w; ; {
		step := k.seen[at]
		story = append(story, step.how)
		if step.from == at || step.how == "" {
			break
		}
		at = step.from
	}
	slices.Reverse(story)
	k.t.Errorf("%s: %s", k.name, what)
	for _, line := range story {
		k.t.Log(line)
	}
}

// wrote has the truth of a room, or of the claim, be newer than the view.
func (w *idleWorld) wrote(i int)  { w.rooms[i] = false }
func (w *idleWorld) podded(i int) { w.pods[i] = false }

// see brings the view of one thing up to date.
func (w *idleWorld) see(i int) {
	is, was := w.truth.rooms[i], w.view.rooms[i]
	is.pod, is.ready, is.word = was.pod, was.ready, was.word
	w.view.rooms[i], w.rooms[i] = is, true
}

func (w *idleWorld) seePod(i int) {
	is := w.truth.rooms[i]
	v := &w.view.rooms[i]
	v.pod, v.ready, v.word = is.pod, is.ready, is.word
	w.pods[i] = true
}

func (w *idleWorld) seeTenant() { w.view.tenant, w.tenant = w.truth.tenant, true }

func (h hostel) claim() ClaimView {
	if !h.tenant.there {
		return ClaimView{}
	}
	c := ClaimView{UID: tenantUID, State: h.tenant.state}
	if h.tenant.named > 0 {
		c.SandboxName = roomNames[h.tenant.named-1]
		if !h.tenant.theirs {
			c.SandboxUID = "uid-" + c.SandboxName
		}
	}
	return c
}

func (h hostel) box(i int) Sandbox {
	r := h.rooms[i]
	if !r.there {
		return Sandbox{}
	}
	s := Sandbox{
		Name: roomNames[i], UID: "uid-" + roomNames[i], Warm: i == 0, Ready: r.says == ReasonPodReady, Retired: r.retired,
		Idle: r.suspended || r.says == ReasonExpired, Owner: Owner{Kind: r.owner, UID: "uid-p"},
	}
	if r.owner == OwnerClaim {
		s.Owner.UID, s.ClaimUID = tenantUID, tenantUID
	}
	return s
}

func (r room) podView() PodView {
	switch {
	case !r.pod:
		return PodNone
	case r.ready:
		return PodReady
	}
	return PodStarting
}

// sandboxFacts are what the view shows of a room.
func (k *idleWalk) sandboxFacts(w idleWorld, i int) SandboxFacts {
	r, box, c, is := w.view.rooms[i], w.view.box(i), w.view.claim(), PresenceUnseen
	if w.view.tenant.there {
		is = PresenceShown
	}
	f := SandboxFacts{
		Gone: !r.there, Retired: r.retired && !c.Keeps(box), Suspended: r.suspended, Ephemeral: k.ephemeral, Warm: box.Warm,
		Expired: r.ends || r.says == ReasonExpired, Holder: HolderOf(box, c, is), ClaimKnows: c.Knows(box), Own: box.OwnOf(c),
		Pod: r.podView(), State: Pod.Parse(string(r.word)), Reported: r.says,
	}
	phase := PodPhasePending
	if r.ready {
		phase = PodPhaseRunning
	}
	f.Drifted = f.Stays() != f.State
	f.Readiness = ReadinessOf(PodFacts{View: f.Pod, Phase: phase, SaysReady: r.ready, Suspended: f.Suspended, Expired: f.Expired})
	return f
}

// commit is a write that is guarded by what the view has of a thing. Its answer may be
// lost; then the view stays as it was.
func (k *idleWalk) commit(w idleWorld, guarded bool, how string, write func(*idleWorld), see func(*idleWorld)) {
	next := w
	if guarded {
		write(&next)
		if w.users > 0 {
			k.to(w, next, how+", and the answer is lost")
		}
	}
	see(&next)
	k.to(w, next, how)
}

// sandbox is a step of a room.
func (k *idleWalk) sandbox(w idleWorld, i int) {
	f := k.sandboxFacts(w, i)
	d := StepSandbox(f)
	if d.Act == ReadClaim {
		if w.truth.tenant.there {
			next := w
			next.seeTenant()
			k.to(w, next, "the claim is read")
			return
		}
		f.Holder = HolderOf(w.view.box(i), ClaimView{}, PresenceMissing)
		d = StepSandbox(f)
	}
	if d.Act == AskShelf {
		for _, f.Loan = range loans[1:] {
			k.doSandbox(w, i, f)
		}
		return
	}
	k.doSandbox(w, i, f)
}

func (k *idleWalk) doSandbox(w idleWorld, i int, f SandboxFacts) {
	d := StepSandbox(f)
	k.acts[d.Act]++
	how := fmt.Sprintf("sandbox %s: %s %s", roomNames[i], d.Act, d.Reason)
	room, seen := func(w *idleWorld) *room { return &w.truth.rooms[i] }, func(w *idleWorld) { w.see(i) }
	podSeen := func(w *idleWorld) { w.seePod(i) }
	told := w.truth.claim().Keeps(w.truth.box(i))
	switch d.Act {
	case Create:
		k.commit(w, w.truth.rooms[i].there && !w.truth.rooms[i].pod, how, func(w *idleWorld) {
			r := room(w)
			r.pod, r.ready, r.word = true, false, Warming
			w.podded(i)
		}, podSeen)
	case Move, Sync:
		k.commit(w, w.pods[i], how, func(w *idleWorld) {
			if edge, ok := Pod.Edge(Pod.Parse(string(room(w).word)), d.About.Event); ok {
				room(w).word = edge.To
			}
			if d.Act == Sync {
				room(w).word = f.Stays()
			}
			w.podded(i)
		}, podSeen)
	case Report:
		k.commit(w, w.rooms[i], how, func(w *idleWorld) { room(w).says = d.Reason; w.wrote(i) }, seen)
	case Retire:
		if told {
			k.wrong(w, how+": P3: its claim was told of it")
		}
		k.commit(w, w.rooms[i], how, func(w *idleWorld) { room(w).retired = true; w.wrote(i) }, seen)
	case Delete:
		if d.About.Part == PartPod {
			k.commit(w, w.pods[i], how, func(w *idleWorld) { r := room(w); r.pod, r.ready, r.word = false, false, ""; w.podded(i) }, podSeen)
			return
		}
		if told && w.rooms[i] && w.tenant && !w.truth.rooms[i].ends {
			k.wrong(w, how+": P3: its claim was told of it")
		}
		k.commit(w, w.rooms[i], how, func(w *idleWorld) { w.hand = w.hand || told; k.leaves(w, i) }, seen)
	}
}

// leaves takes a sandbox away; its pod is collected.
func (k *idleWalk) leaves(w *idleWorld, i int) {
	w.truth.rooms[i] = room{}
	w.wrote(i)
	w.podded(i)
}

// tenantStep is a step of the claim.
func (k *idleWalk) tenantStep(w idleWorld) {
	v := w.view
	if !v.tenant.there {
		return
	}
	c := v.claim()
	f := ClaimFacts{
		State: c.State, Named: c.SandboxName != "", Pool: PresenceShown, Template: PresenceShown, MaxWait: time.Minute,
		Lifetime: Lifetime{Ends: w.over, Deletes: k.deletes}, Reported: ReasonHolds,
	}
	held := c.Held([]Sandbox{v.box(0), v.box(1)})
	if held >= 0 {
		f.Holds = HoldingOf(v.box(held))
		f.Handover = HandoverOf(v.box(held), v.rooms[held].podView(), Pod.Parse(string(v.rooms[held].word)))
		f.Mislabelled = v.rooms[held].retired
	}
	d := StepClaim(f)
	switch d.Act {
	case ReadSandbox:
		slot, is := v.tenant.named-1, PresenceMissing
		if slot < 0 {
			slot = 1
		}
		if w.truth.rooms[slot].there {
			is = PresenceShown
		}
		if f.Sandbox = c.Loses(w.truth.box(slot), is); f.Sandbox != PresenceMissing {
			next := w
			next.see(slot)
			k.to(w, next, "the sandbox is read")
			return
		}
		d = StepClaim(f)
	case AskShelf:
		m := Member{Name: roomNames[0], State: Pod.Parse(string(v.rooms[0].word)), Pod: v.rooms[0].podView(), Current: true, Terminating: v.rooms[0].retired}
		switch {
		case v.rooms[0].there && PlaceOf(m, v.box(0), false) == PlaceFree:
			f.Offer = OfferTaken
		case v.rooms[0].there && PlaceOf(m, v.box(0), false) == PlaceComing:
			f.Offer = OfferInLine
		default:
			f.Offer = OfferEmpty
		}
		d = StepClaim(f)
	}
	k.doTenant(w, held, d)
}

func (k *idleWalk) doTenant(w idleWorld, held int, d Decision) {
	k.acts[d.Act]++
	how := fmt.Sprintf("claim: %s %s %s", d.Act, d.About.Event, d.Reason)
	seen := func(w *idleWorld) { w.seeTenant() }
	switch d.Act {
	case Adopt:
		if w.view.rooms[0].suspended {
			k.wrong(w, how+": it is suspended")
		}
		k.commit(w, w.rooms[0], how, func(w *idleWorld) { w.truth.rooms[0].owner = OwnerClaim; w.wrote(0) }, func(w *idleWorld) { w.see(0) })
	case Create:
		k.commit(w, !w.truth.rooms[1].there, how, func(w *idleWorld) {
			w.truth.rooms[1] = room{there: true, owner: OwnerClaim}
			w.wrote(1)
		}, func(w *idleWorld) { w.see(1) })
	case Sync:
		k.commit(w, w.rooms[held], how, func(w *idleWorld) { w.truth.rooms[held].retired = false; w.wrote(held) }, func(w *idleWorld) { w.see(held) })
	case Delete:
		if d.About.Part == PartSelf {
			k.commit(w, w.truth.tenant.there, how, func(w *idleWorld) { w.truth.tenant = tenant{}; w.tenant = false }, seen)
			return
		}
		k.commit(w, w.truth.rooms[held].there, how, func(w *idleWorld) { k.leaves(w, held) }, func(w *idleWorld) { w.see(held); w.seePod(held) })
	case Move:
		if d.About.Part == PartPod {
			k.commit(w, w.pods[held], how, func(w *idleWorld) { w.truth.rooms[held].word = Bound; w.podded(held) }, func(w *idleWorld) { w.seePod(held) })
			return
		}
		if d.About.Event == EventLost && w.tenant && !w.hand {
			k.wrong(w, how+": nobody has taken it away")
		}
		k.commit(w, w.tenant, how, func(w *idleWorld) {
			edge, ok := Claim.Edge(w.truth.tenant.state, d.About.Event)
			if !ok {
				k.wrong(*w, how+": P4: there is no such edge")
			}
			w.truth.tenant.state, w.truth.tenant.named, w.truth.tenant.theirs = edge.To, 0, false
			if edge.To != Stale {
				w.truth.tenant.named = held + 1
			}
			w.tenant = false
		}, seen)
	}
}

// leader is everything that the leader, the nodes and the garbage collector may do next.
func (k *idleWalk) leader(w idleWorld) {
	k.tenantStep(w)
	for i := range w.truth.rooms {
		k.sandbox(w, i)
		next := w
		next.see(i)
		k.to(w, next, "the watch of sandboxes: "+roomNames[i])
		next = w
		next.seePod(i)
		k.to(w, next, "the watch of pods: "+roomNames[i])
		r := w.truth.rooms[i]
		if r.pod && !r.ready {
			next = w
			next.truth.rooms[i].ready = true
			next.podded(i)
			k.to(w, next, "the pod becomes Ready: "+roomNames[i])
		}
		if r.there && r.owner == OwnerClaim && !w.truth.tenant.there {
			next = w
			k.leaves(&next, i)
			k.to(w, next, "collected: "+roomNames[i])
		}
	}
	next := w
	next.seeTenant()
	k.to(w, next, "the watch of claims")
}

// user is everything that others may do next.
func (k *idleWalk) user(w idleWorld) {
	if w.users == 0 {
		return
	}
	does := func(how string, change func(*idleWorld)) {
		next := w
		change(&next)
		if next != w {
			next.users--
			k.to(w, next, "a user: "+how)
		}
	}
	for i, r := range w.truth.rooms {
		if !r.there {
			continue
		}
		does("suspends or resumes "+roomNames[i], func(w *idleWorld) { w.truth.rooms[i].suspended = !r.suspended; w.wrote(i) })
		does("the time is over of "+roomNames[i], func(w *idleWorld) { w.truth.rooms[i].ends, w.hand = true, true; w.wrote(i) })
		does("calls retired "+roomNames[i], func(w *idleWorld) { w.truth.rooms[i].retired, w.marked = true, true; w.wrote(i) })
		does("deletes "+roomNames[i], func(w *idleWorld) { w.hand = true; k.leaves(w, i) })
		does("deletes the pod of "+roomNames[i], func(w *idleWorld) {
			r := &w.truth.rooms[i]
			if r.pod {
				r.pod, r.ready, r.word = false, false, ""
				w.podded(i)
			}
		})
	}
	if w.truth.tenant.there {
		does("the claim's time is over", func(w *idleWorld) { w.over = true })
		does("deletes the claim", func(w *idleWorld) { w.truth.tenant, w.tenant = tenant{}, false })
	}
}

// calm is the next world when nobody interferes: everybody hears everything, and then
// the first thing happens that changes something.
func (k *idleWalk) calm(w idleWorld) (next idleWorld, more bool) {
	next = w
	next.users = 0
	for i := range w.truth.rooms {
		next.see(i)
		next.seePod(i)
	}
	next.seeTenant()
	w = next
	quiet := &idleWalk{idleScene: k.idleScene, t: k.t, seen: map[idleWorld]idleStep{w: {from: w}}, acts: map[Act]int{}}
	quiet.leader(w)
	if len(quiet.todo) == 0 {
		return w, false
	}
	return quiet.todo[0], true
}

// unsettled says what is wrong with a world in which nobody has anything to do.
func (k *idleWalk) unsettled(w idleWorld) string {
	c, h := w.truth.tenant, w.truth
	for i, r := range h.rooms {
		idle := r.suspended || r.ends || r.says == ReasonExpired
		switch mine := r.owner == OwnerClaim; {
		case !r.there:
		case r.retired:
			return roomNames[i] + " is retired, and stays"
		case mine && (!c.there || c.state == Stale || c.named != i+1):
			return roomNames[i] + " is kept, and its claim is not told of it"
		case mine && r.pod != !idle:
			return roomNames[i] + " has a pod and shall have none, or the other way round"
		case mine && r.pod && r.word != Bound && c.state == Bound:
			return roomNames[i] + " is told of, and its pod is not bound"
		case mine && r.ends && r.says != ReasonExpired:
			return roomNames[i] + " does not say that its time is over"
		case mine && !r.ends && r.says != ReasonExpired && r.suspended && r.says != ReasonSuspended:
			return roomNames[i] + " does not say that it is suspended"
		case mine && k.ephemeral && r.ends:
			return roomNames[i] + " stays, and its time is over"
		}
	}
	switch {
	case c.there && w.over && c.state != Stale:
		return "the claim's time is over, and it lives"
	case c.there && w.over && k.deletes:
		return "the claim's time is over, and it stays"
	case c.there && c.state != Stale && c.named == 0 && !h.rooms[0].there:
		return "the claim never gets a sandbox"
	case c.there && c.state != Stale && c.named > 0 && !h.rooms[c.named-1].there:
		return "the claim does not know that it has lost its sandbox"
	}
	return ""
}

func TestSandboxesThatRestOrEndDoSoWhateverHappens(t *testing.T) {
	free := room{there: true, owner: OwnerPool, pod: true, ready: true, word: Ready, says: ReasonPodReady}
	begun := tenant{there: true, state: Binding}
	theirs := room{there: true, owner: OwnerClaim, pod: true, ready: true, says: ReasonPodReady} // no word of ours
	for _, s := range []idleScene{
		{name: "a member", start: hostel{rooms: [2]room{free}, tenant: begun}, users: 2},
		{name: "a member, and what ends is deleted", start: hostel{rooms: [2]room{free}, tenant: begun}, users: 1, ephemeral: true, deletes: true},
		{name: "no member", start: hostel{tenant: begun}, users: 2},
		{name: "no member, and what ends is deleted", start: hostel{tenant: begun}, users: 2, ephemeral: true, deletes: true},
		{name: "taken over, warm", start: hostel{rooms: [2]room{theirs}, tenant: tenant{there: true, theirs: true, state: Bound, named: 1}}, users: 2},
		{name: "taken over, its own", start: hostel{rooms: [2]room{{}, theirs}, tenant: tenant{there: true, theirs: true, state: Bound, named: 2}}, users: 2, ephemeral: true},
		{name: "taken over, and not told", start: hostel{rooms: [2]room{theirs}, tenant: begun}, users: 1, deletes: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			k := &idleWalk{idleScene: &s, t: t, seen: map[idleWorld]idleStep{}, acts: map[Act]int{}}
			start := idleWorld{truth: s.start, view: s.start, rooms: [2]bool{true, true}, pods: [2]bool{true, true}, tenant: true, users: s.users}
			k.seen[start] = idleStep{from: start}
			k.todo = []idleWorld{start}
			good := map[idleWorld]bool{}
			for len(k.todo) > 0 && !t.Failed() {
				w := k.todo[0]
				k.todo = k.todo[1:]
				k.leader(w)
				k.user(w)
				k.settles(w, good)
			}
			t.Logf("%d worlds; %v", len(k.seen), k.acts)
		})
	}
}

// settles follows a world until nothing is left to do.
func (k *idleWalk) settles(w idleWorld, good map[idleWorld]bool) {
	var way []idleWorld
	for at := w; !good[at]; {
		if slices.Contains(way, at) {
			k.wrong(w, "it goes round in circles for ever")
			return
		}
		way = append(way, at)
		next, more := k.calm(at)
		if !more {
			if why := k.unsettled(next); why != "" {
				k.wrong(w, fmt.Sprintf("%s\n%+v", why, next))
				return
			}
			break
		}
		at = next
	}
	for _, at := range way {
		good[at] = true
	}
}
