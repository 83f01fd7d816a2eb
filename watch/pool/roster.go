package pool

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Roster knows the members of every pool and counts them. It is brought up to date
// member by member, with whatever the stores learn, so that a look at a pool costs
// what has changed and not what there is.
//
// A pool is known by store.ID, and nothing is kept of one that has no members.
type Roster struct {
	stores      *store.Stores
	retirements *memory.Retirements

	mu    sync.Mutex
	rolls map[string]*roll
	// at is where what has a name counts.
	at map[view.Key]place
	// visits counts how often a member was looked at, by anybody.
	visits int
}

// A place is the pool that counts the sandbox of a name as a member, and the one that
// counts the pod of that name as what is left of one.
type place struct{ member, former string }

// NewRoster returns a roster that follows stores and retirements.
func NewRoster(s *store.Stores, r *memory.Retirements) *Roster {
	l := &Roster{stores: s, retirements: r, rolls: map[string]*roll{}, at: map[view.Key]place{}}
	s.Sandboxes.Touched(l.sync)
	s.Pods.Touched(l.sync)
	r.Changed(l.sync)
	return l
}

// sync brings what counts under a name in line with what the stores know. The look
// and the count are under one lock, so the newest look is the last count.
func (l *Roster) sync(key view.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(key)
	var at place
	b, ok := l.stores.Sandboxes.Get(key)
	pod, hasPod := l.stores.Pods.Get(key)
	if ok && apply.OwnerOf(b).Kind == states.OwnerPool {
		at.member = key.Namespace + "/" + apply.OwnerOf(b).UID
		r := l.roll(at.member)
		r.enter(r.judge(b, pod, l.retirements.Reason(b.UID) != ""))
		l.visits++
	}
	if hasPod && (!ok || !apply.ControlledBy(b.UID, pod)) {
		if at.former = outlived(pod); at.former != "" {
			l.roll(at.former).former++
		}
	}
	if at != (place{}) {
		l.at[key] = at
	}
}

// outlived is the pool whose member a pod was, or nothing. Its sandbox is no more.
func outlived(pod *corev1.Pod) string {
	if owner := apply.OwnerOf(pod); owner.Kind != states.OwnerSandbox || owner.Name != pod.Name {
		return ""
	}
	return store.BornFor(pod)
}

// leave takes out what counts under a name.
func (l *Roster) leave(key view.Key) {
	was := l.at[key]
	delete(l.at, key)
	if r, ok := l.rolls[was.member]; ok {
		r.leave(key.Name)
		l.tidy(was.member)
	}
	if r, ok := l.rolls[was.former]; ok {
		r.former--
		l.tidy(was.former)
	}
}

// tidy drops a roll that nothing is on.
func (l *Roster) tidy(pool string) {
	if r := l.rolls[pool]; len(r.members) == 0 && r.former == 0 {
		delete(l.rolls, pool)
	}
}

func (l *Roster) roll(pool string) *roll {
	r, ok := l.rolls[pool]
	if !ok {
		r = &roll{members: map[string]*entry{}}
		l.rolls[pool] = r
	}
	return r
}

// A Count is what a look at a pool finds.
type Count struct {
	states.Census
	// Handing is how many of those that claims are taking are no members any more.
	Handing int
	// StuckIn is when the next member will count as stuck; zero means that none will.
	StuckIn time.Duration
	// Refused and Unschedulable are what is said of the first such member by name.
	Refused, Unschedulable string
}

// Count counts a pool's members, on a basis and at a time. Claims are taking those
// that are lent.
func (l *Roster) Count(pool string, on Basis, now time.Time, lent []string) Count {
	l.stores.Sandboxes.Sweep()
	l.stores.Pods.Sweep()
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.rolls[pool]
	if !ok {
		return Count{Handing: len(lent)}
	}
	l.visits += r.rejudge(on)
	r.age(now)
	c := Count{Refused: r.refused.first(), Unschedulable: r.unschedulable.first()}
	c.Census, c.Handing = r.counted(lent)
	if len(r.due) > 0 {
		c.StuckIn = r.due[0].due.Sub(now)
	}
	return c
}

// Former is how many pods are left of members that are no more.
func (l *Roster) Former(pool string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.rolls[pool]; ok {
		return r.former
	}
	return 0
}

// A Selection is the members of a pool that a choice asks for, with their sandboxes,
// and the count of all at the same time.
type Selection struct {
	states.Census
	Members   []states.Member
	Sandboxes map[string]*agents.Sandbox
}

// Select finds the members of a pool that a choice asks for, as they were last counted.
// It looks at no others.
func (l *Roster) Select(pool string, c states.Choice, lent []string) (s Selection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.rolls[pool]
	if !ok {
		return Selection{}
	}
	taken := map[string]bool{}
	for _, name := range lent {
		taken[name] = true
	}
	chosen := r.members
	if !c.All {
		chosen = r.picks.of(c, taken)
	}
	s.Census, _ = r.counted(lent)
	s.Sandboxes = make(map[string]*agents.Sandbox, len(chosen))
	for name, e := range chosen {
		m := e.Member
		m.Taken = taken[name]
		s.Members, s.Sandboxes[name] = append(s.Members, m), e.sandbox
	}
	l.visits += len(chosen)
	return s
}

// Len is how many names and pools it knows.
func (l *Roster) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.at) + len(l.rolls)
}
