package states

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The walk visits every world that a scene leads to, and checks in each that no
// promise was broken on the way there, and that from there everything still
// comes right when nothing goes wrong any more.
//
// What it can not see: which event wakes which key (it steps every key at any
// time), a pool that is edited or deleted but for its number of members, a
// template that is deleted, and what a status says beside its word.

var far = flag.Bool("far", false, "take the walks that need minutes and gigabytes, too")

// A walk is the worlds found so far, breadth first, each with the one before it.
type walk struct {
	*scene
	worlds []world
	from   []int32
	index  map[world]int32
	// moved are the words that followed one another, of pods and of claims.
	moved [2][8][8]bool
}

// A mistake is what a walk found wrong, in a world or on a step out of it.
type mistake struct {
	what  string
	world int32
}

// walk visits every world, or those up to the first mistake.
func (s *scene) walk() (*walk, *mistake) {
	s.by = s.by.filled()
	s.strict = s.by.strict(s.policy)
	k := &walk{scene: s, index: map[world]int32{}}
	k.visit(s.start(), -1)
	var wrong *mistake
	i := 0
	st := stroll{scene: s}
	st.next = func(w world, _, what string) {
		if what != "" && wrong == nil {
			wrong = &mistake{what, int32(i)}
		}
		k.note(&st.w.truth, &w.truth)
		k.visit(w, int32(i))
	}
	for ; i < len(k.worlds) && wrong == nil; i++ {
		st.w = k.worlds[i]
		st.steps()
	}
	return k, wrong
}

func (k *walk) visit(w world, from int32) {
	w = w.least(k.leaders)
	if _, ok := k.index[w]; ok {
		return
	}
	k.index[w] = int32(len(k.worlds))
	k.worlds = append(k.worlds, w)
	k.from = append(k.from, from)
}

func (k *walk) note(was, is *plane) {
	if *was == *is {
		return
	}
	for i := range is.pod {
		k.moved[0][was.pod[i]&wordBits][is.pod[i]&wordBits] = true
	}
	for i := range is.claim {
		k.moved[1][was.claim[i]&wordBits][is.claim[i]&wordBits] = true
	}
}

// settle follows each world, nothing going wrong any more, until nothing is left
// to do. Their ways meet, so each is followed only up to one that is known.
func (k *walk) settle() *mistake {
	const onTheWay, good = 1, 2
	mark := make([]byte, len(k.worlds))
	for i := range k.worlds {
		var way []int32
		for at := int32(i); mark[at] != good; {
			if mark[at] == onTheWay {
				return &mistake{"it goes round in circles for ever", at}
			}
			mark[at] = onTheWay
			way = append(way, at)
			next, more := k.calmly(k.worlds[at])
			if !more {
				if what := k.unsettled(&k.worlds[at]); what != "" {
					return &mistake{what, at}
				}
				break
			}
			known, ok := k.index[next.least(k.leaders)]
			if !ok {
				return &mistake{"a step led out of the walk", at}
			}
			at = known
		}
		for _, at := range way {
			mark[at] = good
		}
	}
	return nil
}

// calmly is the next world when nothing goes wrong: everyone hears everything,
// then the first thing happens that changes something.
func (k *walk) calmly(w world) (next world, more bool) {
	for l := range k.leaders {
		next = w
		next.relist(l)
		if k.forget(&next); next != w {
			return next, true
		}
	}
	st := stroll{scene: k.scene, w: w, calm: true}
	st.next = func(to world, _, _ string) {
		if !more && to.truth != w.truth {
			next, more = to, true
		}
	}
	st.steps()
	return next, more
}

// story tells how a mistake came about. Worlds are known under one of their
// names only, so it is told anew from the beginning.
func (k *walk) story(m *mistake) string {
	var path []world
	for i := m.world; i >= 0; i = k.from[i] {
		path = append(path, k.worlds[i])
	}
	var lines []string
	tell := func(how string) { lines = append(lines, fmt.Sprintf("%4d  %s", len(lines)+1, how)) }
	w := k.start()
	for n := len(path) - 2; n >= 0; n-- {
		st := stroll{scene: k.scene, w: w, loud: true}
		found := false
		st.next = func(to world, how, _ string) {
			if !found && to.least(k.leaders) == path[n] {
				w, found = to, true
				tell(how)
			}
		}
		st.steps()
	}
	end := m.what
	if what := k.unsettled(&w); what != "" && k.over(w) {
		end = what
	}
	st := stroll{scene: k.scene, w: w, loud: true}
	st.next = func(_ world, how, what string) {
		if what != "" && end == m.what {
			tell(how)
			end = what + " "
		}
	}
	st.steps()
	return fmt.Sprintf("%s\n   => %s", strings.Join(lines, "\n"), strings.TrimSpace(end))
}

func (k *walk) over(w world) bool {
	_, more := k.calmly(w)
	return !more
}

// The policies of pools whose old members are replaced.
var (
	none, one = &Share{}, &Share{N: 1}
	recreated = UpdatePolicy{Strategy: Recreate}
	surged    = UpdatePolicy{Strategy: Rolling, MaxUnavailable: none, MaxSurge: one}
	unsurged  = UpdatePolicy{Strategy: Rolling, MaxUnavailable: one, MaxSurge: none}
	anyhow    = UpdatePolicy{Strategy: Rolling, MaxUnavailable: none, MaxSurge: one, ClaimsTakeAny: true}
)

// scenes are the walks. Together they have one leader and two, one claim and
// two, members that are free, starting and not born yet, and every fault.
var scenes = []scene{
	{name: "one leader, two members, two claims, a fault",
		leaders: 1, ready: 1, starting: 1, claims: 2, replicas: 2, faults: 1, which: everything},
	{name: "one leader, a member and its refill, two claims, a fault",
		leaders: 1, ready: 1, unborn: 1, claims: 2, replicas: 1, faults: 1, which: everything},
	{name: "two leaders, two members, two claims",
		leaders: 2, ready: 2, claims: 2, replicas: 2, prompt: []kind{pods}},
	{name: "two leaders, two members, a claim, a fault",
		leaders: 2, ready: 2, claims: 1, replicas: 2, faults: 1, which: everything, prompt: []kind{pods}},
	{name: "two leaders, a member and its refill, a claim, a loss",
		leaders: 2, ready: 1, unborn: 1, claims: 1, replicas: 1, faults: 1, which: lostResponse | podDeleted, prompt: []kind{pods}},
	{name: "two leaders whose watch of pods lags, a member, a claim, a fault",
		leaders: 2, ready: 1, claims: 1, replicas: 1, faults: 1, which: lostResponse | podBlinks},
	{name: "one leader, a member and its refill, two claims, an expiry",
		leaders: 1, ready: 1, unborn: 1, claims: 2, replicas: 1, faults: 1, which: claimExpires},
	{name: "one leader, a member and its refill, two claims, an expiry that deletes",
		leaders: 1, ready: 1, unborn: 1, claims: 2, replicas: 1, faults: 1, which: claimExpires, deletes: true},
	{name: "two leaders, a claim whose name a user takes, a deletion",
		leaders: 2, claims: 1, faults: 2, which: nameTaken | sandboxDeleted},
	{name: "two leaders, a member, a claim, an expiry",
		leaders: 2, ready: 1, claims: 1, replicas: 1, faults: 1, which: claimExpires, prompt: []kind{pods}},
	{name: "two leaders, a member, a claim, an expiry and a loss",
		leaders: 2, ready: 1, claims: 1, replicas: 1, faults: 2, which: claimExpires | lostResponse, prompt: []kind{pods}},

	{name: "recreated, one leader, a member, a claim, a loss",
		leaders: 1, ready: 1, claims: 1, replicas: 1, faults: 1, which: lostResponse | claimDeleted | sandboxDeleted | podDeleted,
		changes: 1, endless: true, policy: recreated},
	{name: "recreated, one leader, two members, two claims",
		leaders: 1, ready: 2, claims: 2, replicas: 2, changes: 1, endless: true, policy: recreated},
	{name: "recreated, one leader, a member, two claims, a lost response",
		leaders: 1, ready: 1, claims: 2, replicas: 1, faults: 1, which: lostResponse,
		changes: 1, policy: recreated},
	{name: "recreated, two leaders, a member, a claim, a loss",
		leaders: 2, ready: 1, claims: 1, replicas: 1, faults: 1, which: lostResponse | claimDeleted,
		changes: 1, policy: recreated, prompt: []kind{pods}},
	{name: "rolled with surge, one leader, a member, a claim, two changes",
		leaders: 1, ready: 1, claims: 1, replicas: 1,
		changes: 2, endless: true, policy: surged},
	{name: "rolled without surge, one leader, two members, a claim, a fault",
		leaders: 1, ready: 2, claims: 1, replicas: 2, faults: 1, which: everything,
		changes: 1, endless: true, policy: unsurged},
	{name: "rolled for claims that take any, one leader, a member, two claims, two changes",
		leaders: 1, ready: 1, claims: 2, replicas: 1,
		changes: 2, endless: true, policy: anyhow},
}

// farScenes are scenes for a long evening.
var farScenes = []scene{
	{name: "one leader, two members, two claims, two losses",
		leaders: 1, ready: 1, starting: 1, claims: 2, replicas: 2, faults: 2, which: lostResponse | claimDeleted | sandboxDeleted},
	{name: "one leader, two members, two claims, two faults",
		leaders: 1, ready: 1, starting: 1, claims: 2, replicas: 2, faults: 2, which: everything},
	{name: "two leaders, a member and its refill, a claim, a fault",
		leaders: 2, ready: 1, unborn: 1, claims: 1, replicas: 1, faults: 1, which: everything, prompt: []kind{pods}},
	{name: "one leader, a member and its refill, two claims, two faults",
		leaders: 1, ready: 1, unborn: 1, claims: 2, replicas: 1, faults: 2, which: everything},
	{name: "two leaders, two members, a claim, two faults",
		leaders: 2, ready: 2, claims: 1, replicas: 2, faults: 2, which: everything, prompt: []kind{pods}},
	{name: "two leaders whose watch of pods lags, a member, a claim, every fault",
		leaders: 2, ready: 1, claims: 1, replicas: 1, faults: 1, which: everything},
	{name: "two leaders whose watch of pods lags, a member, two claims",
		leaders: 2, ready: 1, claims: 2, replicas: 1},
	{name: "two leaders, two members, two claims, a fault",
		leaders: 2, ready: 2, claims: 2, replicas: 2, faults: 1, which: lostResponse | sandboxDeleted, prompt: []kind{pods}},

	{name: "recreated, one leader, a member, a claim, a fault",
		leaders: 1, ready: 1, claims: 1, replicas: 1, faults: 1, which: everything,
		changes: 1, endless: true, policy: recreated},
	{name: "recreated, one leader, a member, a claim, two changes, a fault",
		leaders: 1, ready: 1, claims: 1, replicas: 1, faults: 1, which: everything,
		changes: 2, endless: true, policy: recreated},
	{name: "recreated, one leader, two members, two claims, a lost response",
		leaders: 1, ready: 2, claims: 2, replicas: 2, faults: 1, which: lostResponse,
		changes: 1, policy: recreated},
	{name: "recreated, two leaders, a member and all that follow, a claim",
		leaders: 2, ready: 1, claims: 1, replicas: 1, changes: 1, endless: true, policy: recreated, prompt: []kind{pods}},
	{name: "recreated, two leaders, two members, a claim",
		leaders: 2, ready: 2, claims: 1, replicas: 2, changes: 1, policy: recreated, prompt: []kind{pods}},
	{name: "recreated, two leaders, a member, a claim, a fault",
		leaders: 2, ready: 1, claims: 1, replicas: 1, faults: 1, which: everything,
		changes: 1, policy: recreated, prompt: []kind{pods}},
	{name: "rolled with surge, one leader, two members, a claim, a fault",
		leaders: 1, ready: 1, starting: 1, claims: 1, replicas: 1, faults: 1, which: everything,
		changes: 1, endless: true, policy: surged},
	{name: "rolled with surge, two leaders, a member and all that follow, a claim",
		leaders: 2, ready: 1, claims: 1, replicas: 1,
		changes: 1, endless: true, policy: surged, prompt: []kind{pods}},
}

func TestTheWalk(t *testing.T) {
	all := scenes
	if *far {
		all = append(all, farScenes...)
	}
	walks := make([]*walk, len(all))
	t.Run("no promise is broken, and all ends well", func(t *testing.T) {
		for i, s := range all {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				k, wrong := s.walk()
				if wrong == nil {
					wrong = k.settle()
				}
				t.Logf("%d worlds", len(k.worlds))
				if wrong != nil {
					t.Error("\n" + k.story(wrong))
				}
				walks[i] = &walk{moved: k.moved} // the worlds need not be kept
			})
		}
	})
	t.Run("every edge was walked", func(t *testing.T) {
		for c, chart := range []Chart{Pod, Claim} {
			for _, e := range chart.Edges {
				if e.From == Binding && e.Event == EventLost {
					continue // a claim that is binding was told of nothing, and the walk has no hand
				}
				walked := slices.ContainsFunc(walks, func(k *walk) bool { return k != nil && k.moved[c][code(e.From)][code(e.To)] })
				NewWithT(t).Expect(walked).To(BeTrue(), "%s: %s -> %s", chart.Kind, e.From, e.To)
			}
		}
	})
}

// TestTheWalkCanFail takes the guards away one by one. Each time the walk finds
// what that guard prevents, and tells the shortest story of it.
func TestTheWalkCanFail(t *testing.T) {
	for _, row := range []struct {
		name  string
		scene scene
		finds string
	}{
		{"without the guard on adoption two claims get one sandbox",
			scene{without: versionOnAdopt, leaders: 2, ready: 1, claims: 2, replicas: 1, prompt: []kind{pods}},
			"P1: sandbox A belonged to claim"},
		{"without the guard on the claim's status an assignment flips",
			scene{without: versionOnClaim, leaders: 2, ready: 2, claims: 1, replicas: 2, prompt: []kind{pods}},
			"P1: claim 0 was told of sandbox"},
		{"without the guard on the retired event a bound pod becomes stale",
			scene{without: versionOnRetired, leaders: 2, claims: 1, faults: 2, which: sandboxDeleted},
			"P4: pod own-0 is bound, and is moved by retired"},
		{"without the guard on retirement the pool takes a sandbox from its claim",
			scene{without: versionOnRetire, leaders: 1, ready: 1, claims: 1, faults: 1, which: lostResponse | scaledDown, replicas: 1,
				changes: 1, policy: recreated},
			"P3: sandbox A is retired by its pool, and claim 0 holds it"},
		{"without the proof a claim gets a sandbox that is older than itself",
			scene{without: proofOfView, leaders: 1, ready: 1, claims: 1, replicas: 1, changes: 1, policy: recreated},
			"P2: claim 0 was made when the template was v2, and gets sandbox A of v1"},
		{"unless the claim itself refuses a sandbox, it is retired although the claim was told of it",
			scene{without: refusalOnClaim, leaders: 1, ready: 1, claims: 1, replicas: 1, faults: 1, which: lostResponse,
				changes: 1, policy: recreated},
			"P3: sandbox A is retired by a controller, and claim 0 was told of it"},

		{"unless a claim knows what it was told of by its UID, it holds another sandbox under the old name",
			scene{by: identity{held: heldByName}, leaders: 1, claims: 1, faults: 2, which: lostResponse | sandboxDeleted},
			"P1: claim 0 was told of sandbox own-0, and its status speaks of another own-0 now"},
		{"unless a claim disowns what it was not told of, its status speaks of another sandbox when that goes",
			scene{by: identity{held: heldAnyhow}, leaders: 2, ready: 2, claims: 1, replicas: 2, faults: 1, which: sandboxDeleted, prompt: []kind{pods}},
			"P1: claim 0 was told of sandbox A, and its status speaks of another B now"},
		{"unless a claim holds only what it owns, it is told of what it never held",
			scene{by: identity{held: heldOfAnybody}, leaders: 1, ready: 1, claims: 1, replicas: 1},
			"P1: claim 0 is told of sandbox A, which it never held"},
		{"unless its own sandbox is told from a warm one, a claim is bound before that is Ready",
			scene{by: identity{holding: alwaysWarm}, leaders: 1, claims: 1},
			"claim 0 is told that its own sandbox is Ready, which nobody has seen"},
		{"unless the pod is handed over first, a claim is Ready and its pod is not its own",
			scene{by: identity{handover: neverHanded}, leaders: 1, ready: 1, claims: 1, replicas: 1},
			"P6: claim 0 is told that it is Ready, and pod A says ready"},
		{"unless what a stale claim holds is given up, it stays for ever",
			scene{by: identity{held: staleHoldsNothing}, leaders: 1, ready: 1, claims: 1, replicas: 1, faults: 2, which: lostResponse | sandboxDeleted},
			"of which nobody will ever tell it"},
		{"unless what a claim was not told of is given up, it stays for ever",
			scene{by: identity{holder: neverElsewhere}, leaders: 2, ready: 2, claims: 1, replicas: 2, prompt: []kind{pods}},
			"of which nobody will ever tell it"},
		{"unless an unseen claim is read, the pod of a claim that is only new is released",
			scene{by: identity{holder: unseenIsGone}, leaders: 2, ready: 1, claims: 1, replicas: 1, prompt: []kind{pods}},
			"claim 0 stays bound for ever"},
		{"unless a claim that vanished holds nothing, it gets pods",
			scene{by: identity{holder: goneHolds}, leaders: 1, claims: 1, faults: 1, which: claimDeleted},
			"pod own-0 is made, and nobody knows its claim 0"},
		{"unless what is retired has no place, it is handed out",
			scene{by: identity{place: placeThoughRetired}, leaders: 1, ready: 2, claims: 1, replicas: 2, faults: 1, which: scaledDown},
			"P3: sandbox B was retired, and is handed out"},
		{"unless only what is free is offered, a claim gets what is starting",
			scene{by: identity{place: placeThoughStarting}, leaders: 1, starting: 1, claims: 1, replicas: 1},
			"claim 0 adopts sandbox A, which was not free"},
		{"unless only a pool's members are offered, a claim gets another's sandbox",
			scene{by: identity{place: placeThoughTaken}, leaders: 1, ready: 1, claims: 2, replicas: 1},
			"P1: sandbox A belonged to claim"},
		{"unless a strict pool has no place for what is outdated, claims take it",
			scene{by: identity{place: placeThoughOutdated}, leaders: 1, ready: 1, claims: 1, replicas: 1, changes: 1, policy: recreated},
			"claim 0 adopts sandbox A, which is known to be outdated"},
		{"unless a sandbox is lost when another has its name, its claim waits for ever",
			scene{by: identity{loses: losesByName}, leaders: 1, claims: 1, faults: 2, which: nameTaken | sandboxDeleted},
			"claim 0 stays warming for ever"},
		{"unless only what is gone is lost, a claim loses what it holds",
			scene{by: identity{loses: losesAll}, leaders: 2, claims: 1},
			"P1: claim 0 holds sandbox own-0, and is told that it has lost it"},
		{"unless a pool that replaces at once is strict, its claims get what is older than they are",
			scene{by: identity{strict: neverStrict}, leaders: 1, ready: 1, claims: 1, replicas: 1, changes: 1, policy: recreated},
			"claim 0 adopts sandbox A, which is known to be outdated"},
		{"unless one may be too many where none may be missing, nothing ever rolls",
			scene{by: identity{budget: budgetOfNothing}, leaders: 1, ready: 1, claims: 1, replicas: 1, changes: 1, endless: true,
				policy: UpdatePolicy{Strategy: Rolling, MaxUnavailable: none, MaxSurge: none}},
			"some members stay outdated for ever"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			k, wrong := row.scene.walk()
			if wrong == nil {
				wrong = k.settle()
			}
			g.Expect(wrong).NotTo(BeNil(), "%d worlds, and nothing wrong in any", len(k.worlds))
			story := k.story(wrong)
			g.Expect(story).To(ContainSubstring(row.finds))
			t.Logf("after %d worlds:\n%s", len(k.worlds), story)
		})
	}
}

// TestNamesDoNotMatter holds the walk to its shortcut: a world and its renaming
// lead to the same worlds.
func TestNamesDoNotMatter(t *testing.T) {
	for _, name := range []string{"one leader, two members, two claims, a fault", "recreated, one leader, two members, two claims"} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
			namesDoNotMatter(t, scenes[i])
		})
	}
}

func namesDoNotMatter(t *testing.T, s scene) {
	t.Helper()
	k, _ := s.walk()
	for i := 0; i < len(k.worlds); i += 101 {
		var first map[world]bool
		for n := range renamings {
			leads := map[world]bool{}
			st := stroll{scene: &s, w: k.worlds[i].renamed(&renamings[n], s.leaders)}
			st.next = func(w world, _, _ string) { leads[w.least(s.leaders)] = true }
			st.steps()
			if first == nil {
				first = leads
			}
			same := len(first) == len(leads)
			for w := range leads {
				same = same && first[w]
			}
			if !same {
				t.Fatalf("world %d, renaming %d: %d worlds follow, not the same as the %d without", i, n, len(leads), len(first))
			}
		}
	}
}
