package states

// What the walk's bytes are to the package's own functions of identity: the values
// that the product makes of objects.

// An identity is the functions that say whose a sandbox is and what belongs where.
// A scene may put another one in the place of the package's own, to see that the
// walk notices.
type identity struct {
	held     func(ClaimView, []Sandbox) int
	knows    func(ClaimView, Sandbox) bool
	loses    func(ClaimView, Sandbox, Presence) Presence
	holding  func(Sandbox) Holding
	handover func(Sandbox, PodView, State) Handover
	holder   func(Sandbox, ClaimView, Presence) Holder
	place    func(Member, Sandbox, bool) Place
	strict   func(UpdatePolicy) bool
	budget   func(UpdatePolicy, int) Budget
}

// filled has the package's own functions where a scene has none.
func (d identity) filled() identity {
	if d.held == nil {
		d.held = ClaimView.Held
	}
	if d.knows == nil {
		d.knows = ClaimView.Knows
	}
	if d.loses == nil {
		d.loses = ClaimView.Loses
	}
	if d.holding == nil {
		d.holding = HoldingOf
	}
	if d.handover == nil {
		d.handover = HandoverOf
	}
	if d.holder == nil {
		d.holder = HolderOf
	}
	if d.place == nil {
		d.place = PlaceOf
	}
	if d.strict == nil {
		d.strict = UpdatePolicy.Strict
	}
	if d.budget == nil {
		d.budget = UpdatePolicy.Budget
	}
	return d
}

// namings give the sandboxes names. Which of two has the lesser one is chance: the
// first member has in the first, the second in the second, the claims' own in the
// third.
var namings = [...][slots]string{
	{"a", "b", "own-0", "own-1"},
	{"b", "a", "own-0", "own-1"},
	{"x", "y", "own-0", "own-1"},
}

// uids are those of the sandboxes that claims were told of, others those of the
// impostors.
var (
	uids      = [slots]string{"uid-A", "uid-B", "uid-own-0", "uid-own-1"}
	otherUIDs = [slots]string{"other-A", "other-B", "other-own-0", "other-own-1"}
	claimUIDs = [claims]string{"uid-0", "uid-1"}
)

// boxes and views are every sandbox and every claim, by naming, place and byte; a
// sandbox also by whether its pod is Ready. They are made once: a walk looks at
// them millions of times.
var (
	boxes [len(namings)][slots][contentBits + 1][2]Sandbox
	views [len(namings)][claims][contentBits + 1]ClaimView
)

func init() {
	for n := range namings {
		for b := range byte(contentBits + 1) {
			for i := range slots {
				boxes[n][i][b][0] = box(n, i, b, false)
				boxes[n][i][b][1] = box(n, i, b, true)
			}
			for i := range claims {
				views[n][i][b] = view(n, i, b)
			}
		}
	}
}

func box(naming, slot int, b byte, ready bool) Sandbox {
	if !exists(b) {
		return Sandbox{}
	}
	s := Sandbox{
		Name: namings[naming][slot], UID: uids[slot], Warm: slot < members, Ready: ready,
		Retired: b&retiredBit != 0, Owner: Owner{Kind: OwnerPool, Name: "pool", UID: "uid-pool"},
	}
	if b&holderBits == byUser {
		s.Owner = Owner{}
	}
	if c := claimOf(b); c >= 0 && c < claims {
		s.Owner = Owner{Kind: OwnerClaim, Name: claimUIDs[c], UID: claimUIDs[c]}
		s.ClaimUID = claimUIDs[c]
	}
	if b&impostorBit != 0 {
		s.UID = otherUIDs[slot]
	}
	return s
}

func view(naming, claim int, b byte) ClaimView {
	if n := int(b & wordBits); n == 0 || n > len(words) {
		return ClaimView{}
	}
	state, _ := wordOf(b)
	c := ClaimView{UID: claimUIDs[claim], State: state}
	if slot, told := toldOf(b); told && slot < slots {
		c.SandboxName, c.SandboxUID = namings[naming][slot], uids[slot]
	}
	for i := range members {
		if refuses(b, i) {
			c.Refused = append(c.Refused, uids[i])
		}
	}
	return c
}

// box is a sandbox as a plane has it.
func (p *plane) box(i int) Sandbox {
	return boxes[0][i][p.sandbox[i]&contentBits][p.ready(i)]
}

// ready is one if the status of a sandbox says Ready. That of a claim's own sandbox says
// so after its pod was handed over.
func (p *plane) ready(i int) int {
	state, _ := wordOf(p.pod[i])
	if i >= members && state != Bound {
		return 0
	}
	return int(p.pod[i] & readyBit / readyBit)
}

// claimView is a claim as a plane has it.
func (p *plane) claimView(i int) ClaimView { return views[0][i][p.claim[i]&contentBits] }

// A some is a few places.
type some struct {
	n  int
	at [slots]int
}

func (s *some) add(slot int) {
	for _, has := range s.all() {
		if has == slot {
			return
		}
	}
	s.at[s.n] = slot
	s.n++
}

func (s *some) all() []int { return s.at[:s.n] }

// held are the sandboxes that a claim may be found to hold in a plane, by chance of
// their names.
func (s *stroll) held(p *plane, i int) (found some) {
	several := 0
	for _, b := range p.sandbox {
		if exists(b) && claimOf(b) == i {
			several++
		}
	}
	for n := range namings {
		if n > 0 && several < 2 {
			break
		}
		for j, b := range p.sandbox {
			s.boxes[j] = boxes[n][j][b&contentBits][p.ready(j)]
		}
		if j := s.by.held(views[n][i][p.claim[i]&contentBits], s.boxes[:]); j >= 0 {
			found.add(j)
		}
	}
	return found
}

// member is a member of the pool as a leader's view has it.
func (s *stroll) member(l, i int) Member {
	v := &s.w.view[l]
	m := Member{
		Name: place(i).String(), State: Pod.Initial, Current: s.current(l, i), Terminating: v.sandbox[i]&retiredBit != 0,
	}
	if state, ok := wordOf(v.pod[i]); ok {
		m.State, m.Pod = state, PodStarting
		if v.pod[i]&readyBit != 0 {
			m.Pod = PodReady
		}
	}
	return m
}

// Functions that each lack a guard of the package's own.

// nameOnly is a claim that knows sandboxes by their names.
func (c ClaimView) nameOnly() ClaimView { c.SandboxUID = ""; return c }

func heldByName(c ClaimView, all []Sandbox) int { return c.nameOnly().Held(all) }

func heldAnyhow(c ClaimView, all []Sandbox) int {
	if i := c.Held(all); i >= 0 {
		return i
	}
	return ClaimView{UID: c.UID}.Held(all)
}

func heldOfAnybody(c ClaimView, all []Sandbox) int {
	for i, s := range all {
		if s.Name != "" {
			all[i].Owner = Owner{Kind: OwnerClaim, UID: c.UID}
		}
	}
	return c.Held(all)
}

func alwaysWarm(Sandbox) Holding { return HoldsWarm }

func neverHanded(Sandbox, PodView, State) Handover { return HandoverDone }

func staleHoldsNothing(c ClaimView, all []Sandbox) int {
	if c.State == Stale {
		return -1
	}
	return c.Held(all)
}

func neverElsewhere(s Sandbox, c ClaimView, is Presence) Holder {
	if h := HolderOf(s, c, is); h != HolderElsewhere {
		return h
	}
	return HolderClaim
}

func unseenIsGone(s Sandbox, c ClaimView, is Presence) Holder {
	if h := HolderOf(s, c, is); h != HolderUnseen {
		return h
	}
	return HolderGone
}

func goneHolds(s Sandbox, c ClaimView, is Presence) Holder {
	if h := HolderOf(s, c, is); h != HolderGone {
		return h
	}
	return HolderClaim
}

func placeThoughRetired(m Member, s Sandbox, strict bool) Place {
	m.Terminating, s.Retired = false, false
	return PlaceOf(m, s, strict)
}

func placeThoughStarting(m Member, s Sandbox, strict bool) Place {
	if p := PlaceOf(m, s, strict); p != PlaceComing {
		return p
	}
	return PlaceFree
}

func placeThoughTaken(m Member, s Sandbox, strict bool) Place {
	s.Owner.Kind = OwnerPool
	return PlaceOf(m, s, strict)
}

func placeThoughOutdated(m Member, s Sandbox, _ bool) Place { return PlaceOf(m, s, false) }

func losesByName(_ ClaimView, _ Sandbox, is Presence) Presence { return is }

func losesAll(ClaimView, Sandbox, Presence) Presence { return PresenceMissing }

func neverStrict(UpdatePolicy) bool { return false }

func budgetOfNothing(u UpdatePolicy, replicas int) Budget {
	return Budget{Unavailable: u.MaxUnavailable.of(replicas, false), Surge: u.MaxSurge.of(replicas, true)}
}
