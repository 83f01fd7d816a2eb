package states

import (
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// given is a sandbox that Kiln gave to claim c, under a name and a UID of that name.
func given(name string) Sandbox {
	return Sandbox{Name: name, UID: "uid-" + name, Owner: Owner{OwnerClaim, "c", "uid-c"}, ClaimUID: "uid-c", Warm: true}
}

func (s Sandbox) as(change func(*Sandbox)) Sandbox { change(&s); return s }

// claimC is a claim that was told of nothing yet, told is one that was.
var claimC = ClaimView{UID: "uid-c", State: Binding}

func told(name string) ClaimView {
	return ClaimView{UID: "uid-c", State: Bound, SandboxName: name, SandboxUID: "uid-" + name}
}

func refusing(uids ...string) ClaimView {
	return ClaimView{UID: "uid-c", State: Binding, Refused: uids}
}

// withoutUID is a claim whose status the agent-sandbox controller wrote: no UID is in it.
func (c ClaimView) withoutUID() ClaimView { c.SandboxUID = ""; return c }
func (c ClaimView) in(s State) ClaimView  { c.State = s; return c }
func (c ClaimView) ending() ClaimView     { c.Terminating = true; return c }

func TestWhatAClaimHolds(t *testing.T) {
	a, b := given("a"), given("b")
	for _, row := range []struct {
		name  string
		claim ClaimView
		all   []Sandbox
		want  int
	}{
		{"nothing, where there is nothing", claimC, nil, -1},
		{"what it owns", claimC, []Sandbox{a}, 0},
		{"of two that it owns the first by name", claimC, []Sandbox{b, a}, 1},
		{"the first by name, in whatever order they come", claimC, []Sandbox{a, b}, 0},
		{"the one that its status names, whatever the names", told("b"), []Sandbox{a, b}, 1},
		{"the one that its status names without a UID", told("b").withoutUID(), []Sandbox{a, b}, 1},
		{"nothing, if what its status names is not there", told("z"), []Sandbox{a, b}, -1},
		{"nothing, if what its status names is another one of that name", told("a"), []Sandbox{a.as(func(s *Sandbox) { s.UID = "other" })}, -1},
		{"nothing that it has refused", refusing("uid-a"), []Sandbox{a}, -1},
		{"what a hand calls retired, if it was told of that", told("a"), []Sandbox{a.as(func(s *Sandbox) { s.Retired = true })}, 0},
		{"the other one, if it has refused the first", refusing("uid-a"), []Sandbox{a, b}, 1},
		{"what has only the name of one that it has refused", refusing("uid-a"), []Sandbox{a.as(func(s *Sandbox) { s.UID = "other" })}, 0},
		{"nothing that is retired", claimC, []Sandbox{a.as(func(s *Sandbox) { s.Retired = true })}, -1},
		{"nothing that is being deleted", claimC, []Sandbox{a.as(func(s *Sandbox) { s.Terminating = true })}, -1},
		{"nothing that is a pool's", claimC, []Sandbox{a.as(func(s *Sandbox) { s.Owner.Kind = OwnerPool })}, -1},
		{"nothing that is another claim's of its name", claimC, []Sandbox{a.as(func(s *Sandbox) { s.Owner.UID = "uid-d" })}, -1},
		{"nothing whose owner is of another kind, though of its UID", claimC, []Sandbox{a.as(func(s *Sandbox) { s.Owner.Kind = OwnerOther })}, -1},
		{"what it owns, though the label was lost", claimC, []Sandbox{a.as(func(s *Sandbox) { s.ClaimUID = "" })}, 0},
	} {
		t.Run(row.name, func(t *testing.T) { NewWithT(t).Expect(row.claim.Held(row.all)).To(Equal(row.want)) })
	}
}

func TestWhatItIsToHoldASandbox(t *testing.T) {
	g := NewWithT(t)
	g.Expect(HoldingOf(Sandbox{Warm: true})).To(Equal(HoldsWarm))
	g.Expect(HoldingOf(Sandbox{Warm: true, Ready: true})).To(Equal(HoldsWarm))
	g.Expect(HoldingOf(Sandbox{Ready: true})).To(Equal(HoldsReady))
	g.Expect(HoldingOf(Sandbox{})).To(Equal(HoldsStarting))
	byHand := Sandbox{Warm: true, Owner: Owner{Kind: OwnerClaim, UID: "c"}}
	g.Expect(HoldingOf(byHand)).To(Equal(HoldsStarting))
	byHand.ClaimUID = "c"
	g.Expect(HoldingOf(byHand)).To(Equal(HoldsWarm))
}

func TestWhatAClaimKnows(t *testing.T) {
	a := given("a")
	for _, row := range []struct {
		name         string
		claim        ClaimView
		names, knows bool
	}{
		{"one that was told of it knows it", told("a"), true, true},
		{"one that was told of it without a UID knows it", told("a").withoutUID(), true, true},
		{"one that was told of another does not", told("b"), false, false},
		{"one that was told of another of its name does not", ClaimView{UID: "uid-c", State: Bound, SandboxName: "a", SandboxUID: "other"}, false, false},
		{"one whose own sandbox starts names it and does not know it yet", told("a").in(Warming), true, false},
		{"one that is stale knows nothing any more", told("a").in(Stale), true, false},
		{"one that was told nothing does not", claimC, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(row.claim.Names(a)).To(Equal(row.names))
			g.Expect(row.claim.Knows(a)).To(Equal(row.knows))
		})
	}
}

func TestWhoseASandboxIs(t *testing.T) {
	a := given("a")
	pooled := Sandbox{Name: "a", Owner: Owner{OwnerPool, "p", "uid-p"}}
	unlabelled := a.as(func(s *Sandbox) { s.ClaimUID = "" })
	for _, row := range []struct {
		name  string
		box   Sandbox
		claim ClaimView
		is    Presence
		want  Holder
	}{
		{"a member is its pool's", pooled, ClaimView{}, PresenceUnseen, HolderPool},
		{"one without an owner is its user's", Sandbox{}, ClaimView{}, PresenceUnseen, HolderNobody},
		{"one of an owner that Kiln does not know is nobody's", Sandbox{Owner: Owner{OwnerOther, "x", "uid-x"}}, ClaimView{}, PresenceMissing, HolderNobody},
		{"one whose claim is not shown must be asked about", a, ClaimView{}, PresenceUnseen, HolderUnseen},
		{"one whose claim is only not shown yet is waited for", a, ClaimView{}, PresenceHidden, HolderHidden},
		{"one whose claim does not exist has lost it", a, ClaimView{}, PresenceMissing, HolderGone},
		{"one whose claim was made anew has lost the old one", a, ClaimView{UID: "uid-d", State: Binding}, PresenceShown, HolderGone},
		{"one whose claim is being deleted goes with it", a, told("a").ending(), PresenceShown, HolderGone},
		{"one whose claim knows it is the claim's", a, told("a"), PresenceShown, HolderClaim},
		{"one whose claim was told nothing yet is the claim's", a, claimC, PresenceShown, HolderClaim},
		{"one whose claim has refused it is nobody's any more", a, refusing("uid-a"), PresenceShown, HolderElsewhere},
		{"one whose claim has refused another is the claim's", a, refusing("uid-b"), PresenceShown, HolderClaim},
		{"one whose claim names another is nobody's any more", a, told("b"), PresenceShown, HolderElsewhere},
		{"one whose claim names another of its name is nobody's any more", a.as(func(s *Sandbox) { s.UID = "other" }), told("a"), PresenceShown, HolderElsewhere},
		{"one whose claim is stale is that claim's to delete", a, claimC.in(Stale), PresenceShown, HolderEnded},
		{"one whose claim is stale and still names it is that claim's to delete", a, told("a").in(Stale), PresenceShown, HolderEnded},
		{"one that Kiln did not give to the claim is never taken from it", unlabelled, told("b"), PresenceShown, HolderClaim},
		{"though it is the claim's to delete when that is stale, for it names it as its owner", unlabelled, claimC.in(Stale), PresenceShown, HolderEnded},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(HolderOf(row.box, row.claim, row.is)).To(Equal(row.want))
		})
	}
}

// TestAClaimAndItsSandboxAgree holds the two sides to one another: what a claim may
// hold is never retired as somebody else's, and what is the claim's is not left
// without it.
func TestAClaimAndItsSandboxAgree(t *testing.T) {
	for _, claim := range []ClaimView{claimC, told("a"), told("b"), told("a").withoutUID(), refusing("uid-a"), claimC.in(Warming)} {
		for flags := range 1 << 4 {
			s := given("a").as(func(s *Sandbox) {
				s.Retired, s.Terminating = flags&1 != 0, flags&2 != 0
				if flags&4 != 0 {
					s.UID = "other"
				}
				if flags&8 != 0 {
					s.Owner.UID, s.ClaimUID = "uid-d", "uid-d"
				}
			})
			holder := HolderOf(s, claim, PresenceShown)
			once(t, !claim.Owns(s) || holder == HolderClaim, s, claim)
			once(t, holder != HolderClaim || claim.Owns(s) || s.leaves(), s, claim)
			once(t, !claim.Owns(s) || claim.Held([]Sandbox{s}) == 0, s, claim)
		}
	}
}

func TestWhatAClaimLoses(t *testing.T) {
	a := given("a")
	for _, row := range []struct {
		name  string
		claim ClaimView
		box   Sandbox
		is    Presence
		want  Presence
	}{
		{"what it owns is not lost", told("a"), a, PresenceShown, PresenceShown},
		{"what only the API server has may be its own", told("a"), Sandbox{}, PresenceHidden, PresenceHidden},
		{"what nobody was asked about is not lost", told("a"), Sandbox{}, PresenceUnseen, PresenceUnseen},
		{"what does not exist is lost", told("a"), Sandbox{}, PresenceMissing, PresenceMissing},
		{"what has only the name is lost", told("a"), a.as(func(s *Sandbox) { s.UID = "other" }), PresenceShown, PresenceMissing},
		{"what is a pool's is lost", told("a"), a.as(func(s *Sandbox) { s.Owner.Kind = OwnerPool }), PresenceShown, PresenceMissing},
		{"what is another claim's is lost", told("a"), a.as(func(s *Sandbox) { s.Owner.UID = "uid-d" }), PresenceShown, PresenceMissing},
		{"what a hand calls retired is not lost", told("a"), a.as(func(s *Sandbox) { s.Retired = true }), PresenceShown, PresenceShown},
		{"what is being deleted is lost", told("a"), a.as(func(s *Sandbox) { s.Terminating = true }), PresenceShown, PresenceMissing},
		{"what it was told of without a UID is not lost", told("a").withoutUID(), a, PresenceShown, PresenceShown},
		{"one whose status was emptied by a hand has lost what it had", claimC.in(Bound), a, PresenceShown, PresenceMissing},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(row.claim.Loses(row.box, row.is)).To(Equal(row.want))
		})
	}
}

func TestWhereASandboxBelongs(t *testing.T) {
	member := Sandbox{Name: "a", Owner: Owner{OwnerPool, "p", "uid-p"}, Warm: true}
	ready := Member{Name: "a", Pod: PodReady, State: Ready, Current: true}
	with := func(change func(*Member)) Member { m := ready; change(&m); return m }
	for _, row := range []struct {
		name   string
		member Member
		box    Sandbox
		strict bool
		want   Place
	}{
		{name: "one that is Ready, and says so, is free", member: ready, box: member, want: PlaceFree},
		{name: "in a strict pool too", member: ready, box: member, strict: true, want: PlaceFree},
		{name: "one without a pod is coming", member: with(func(m *Member) { m.Pod, m.State = PodNone, Warming }), box: member, want: PlaceComing},
		{name: "one that is starting is coming", member: with(func(m *Member) { m.Pod, m.State = PodStarting, Warming }), box: member, want: PlaceComing},
		{name: "one that is Ready and does not say so yet is coming", member: with(func(m *Member) { m.State = Warming }), box: member, want: PlaceComing},
		{name: "one that says it is ready and is not is coming", member: with(func(m *Member) { m.Pod = PodStarting }), box: member, want: PlaceComing},
		{name: "one whose pod is being deleted is coming: another takes its name", member: with(func(m *Member) { m.Pod = PodTerminating }), box: member, want: PlaceComing},
		{name: "one whose pod is somebody else's is not free", member: with(func(m *Member) { m.Pod = PodForeign }), box: member, want: PlaceComing},
		{name: "one whose state a hand wrote is not free", member: with(func(m *Member) { m.State = Bound }), box: member, want: PlaceComing},
		{name: "an outdated one is free where claims may have it", member: with(func(m *Member) { m.Current = false }), box: member, want: PlaceFree},
		{name: "an outdated one has no place in a strict pool", member: with(func(m *Member) { m.Current = false }), box: member, strict: true, want: PlaceNone},
		{name: "an outdated one that is starting has none either", member: with(func(m *Member) { m.Current, m.State = false, Warming }), box: member, strict: true, want: PlaceNone},
		{name: "a retired one has no place", member: ready, box: member.as(func(s *Sandbox) { s.Retired = true }), want: PlaceNone},
		{name: "one that is being deleted has no place", member: ready, box: member.as(func(s *Sandbox) { s.Terminating = true }), want: PlaceNone},
		{name: "one that its pool has given up has no place", member: with(func(m *Member) { m.Terminating = true }), box: member, want: PlaceNone},
		{name: "one whose pod is refused has no place", member: ready, box: member.as(func(s *Sandbox) { s.PodRefused = true }), want: PlaceNone},
		{name: "a claim's has no place", member: ready, box: given("a"), want: PlaceNone},
		{name: "a user's has no place", member: ready, box: Sandbox{Name: "a"}, want: PlaceNone},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(PlaceOf(row.member, row.box, row.strict)).To(Equal(row.want))
		})
	}
}

func TestWhichPoolsAreStrict(t *testing.T) {
	for _, s := range Strategies {
		for _, any := range []bool{false, true} {
			u := UpdatePolicy{Strategy: s, ClaimsTakeAny: any}
			want := s == Recreate || s == Rolling && !any
			NewWithT(t).Expect(u.Strict()).To(Equal(want), "%+v", u)
		}
	}
}

func TestBudgets(t *testing.T) {
	n := func(n int) *Share { return &Share{N: n} }
	percent := func(n int) *Share { return &Share{N: n, Percent: true} }
	rolling := func(unavailable, surge *Share) UpdatePolicy {
		return UpdatePolicy{Strategy: Rolling, MaxUnavailable: unavailable, MaxSurge: surge}
	}
	for _, row := range []struct {
		name     string
		policy   UpdatePolicy
		replicas int
		want     Budget
	}{
		{"replaced at once, all need their room a second time", UpdatePolicy{Strategy: Recreate}, 7, Budget{Surge: 7}},
		{"not replaced, a quarter may be too many", UpdatePolicy{}, 8, Budget{Surge: 2}},
		{"not replaced, a quarter is rounded up", UpdatePolicy{}, 9, Budget{Surge: 3}},
		{"not replaced, one may be too many at least", UpdatePolicy{}, 1, Budget{Surge: 1}},
		{"rolled, a quarter each unless the spec says otherwise", rolling(nil, nil), 8, Budget{Unavailable: 2, Surge: 2}},
		{"rolled, what may be missing is rounded down and what may be too many up", rolling(percent(30), percent(30)), 5, Budget{Unavailable: 1, Surge: 2}},
		{"rolled, one may be too many if both come to nothing", rolling(percent(10), n(0)), 5, Budget{Surge: 1}},
		{"rolled, none need be too many if some may be missing", rolling(n(1), n(0)), 5, Budget{Unavailable: 1}},
		{"rolled, all may be missing", rolling(percent(100), n(0)), 5, Budget{Unavailable: 5}},
		{"rolled, numbers stand as they are", rolling(n(3), n(9)), 2, Budget{Unavailable: 3, Surge: 9}},
		{"rolled in a pool of none, one may be too many", rolling(nil, nil), 0, Budget{Surge: 1}},
		{"paused, the budget stays", UpdatePolicy{Strategy: Rolling, MaxUnavailable: n(1), MaxSurge: n(2), Paused: true}, 5, Budget{Unavailable: 1, Surge: 2, Paused: true}},
		{"only what is rolled is paused", UpdatePolicy{Strategy: Recreate, Paused: true}, 2, Budget{Surge: 2}},
	} {
		t.Run(row.name, func(t *testing.T) { NewWithT(t).Expect(row.policy.Budget(row.replicas)).To(Equal(row.want)) })
	}
	t.Run("a percentage is rounded as everywhere in Kubernetes", func(t *testing.T) {
		for p := range 101 {
			for all := range 300 {
				part := float64(p) * float64(all) / 100
				up, down := percent(p).of(all, true), percent(p).of(all, false)
				once(t, up == int(math.Ceil(part)) && down == int(math.Floor(part)), fmt.Sprint(p, "% of ", all), []int{up, down})
			}
		}
	})
}

func TestWhatIsStuck(t *testing.T) {
	const grace = time.Minute
	now := at(1000)
	for _, row := range []struct {
		name  string
		is    Health
		stuck bool
		in    time.Duration
	}{
		{name: "a member without a pod gets one", is: Health{Pod: PodNone, State: Bound}},
		{name: "a pod of somebody else's says nothing of it", is: Health{Pod: PodForeign, Finished: true}},
		{name: "nor do several", is: Health{Pod: PodMultiple, Finished: true}},
		{name: "a pod that is Ready is not stuck, however long it was not", is: Health{Pod: PodReady, State: Warming}},
		{name: "a pod that ended is stuck at once", is: Health{Pod: PodStarting, State: Warming, Finished: true, UnreadySince: now}, stuck: true},
		{name: "a state that no member comes to is stuck at once", is: Health{Pod: PodReady, State: Binding}, stuck: true},
		{name: "bound is one", is: Health{Pod: PodReady, State: Bound}, stuck: true},
		{name: "stale is one", is: Health{Pod: PodReady, State: Stale}, stuck: true},
		{name: "a pod that no node has room for waits as long as it takes", is: Health{Pod: PodStarting, State: Warming, Unscheduled: true}},
		{name: "a pod that is starting has its time", is: Health{Pod: PodStarting, State: Warming, UnreadySince: at(990)}, in: grace - 10*time.Second},
		{name: "a pod that has lost its readiness has its time", is: Health{Pod: PodStarting, State: Ready, UnreadySince: at(999)}, in: grace - time.Second},
		{name: "a pod whose time is over is stuck", is: Health{Pod: PodStarting, State: Warming, UnreadySince: at(1000 - 60)}, stuck: true},
		{name: "a pod that never finishes terminating is stuck", is: Health{Pod: PodTerminating, State: Warming, UnreadySince: at(0)}, stuck: true},
		{name: "a clock that goes back only gives it more time", is: Health{Pod: PodStarting, State: Warming, UnreadySince: at(1010)}, in: grace + 10*time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			stuck, in := row.is.Stuck(grace, now)
			g.Expect(stuck).To(Equal(row.stuck))
			g.Expect(in).To(Equal(row.in))
		})
	}
}
