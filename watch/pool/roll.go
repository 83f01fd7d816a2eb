package pool

import (
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Basis is what a pool's members are judged on. Two of a name and a grace judge
// alike.
type Basis struct {
	Name string
	// Current reports whether a member is of the current revision.
	Current func(*agents.Sandbox) bool
	// Grace is how long one may be unready before it counts as stuck.
	Grace time.Duration
}

// A roll is the members of one pool.
type roll struct {
	basis   Basis
	census  states.Census
	members map[string]*entry
	picks   picks
	// due are the members that will count as stuck by time alone, the next first.
	due dues
	// former counts the pods whose sandbox is no more.
	former int
	// refused and unschedulable are what is said of such members.
	refused, unschedulable sayings
}

// An entry is a member as it is counted.
type entry struct {
	states.Member
	sandbox *agents.Sandbox
	health  states.Health
	// unschedulable is what the scheduler says, if no node has room.
	unschedulable string
	// due is when it will count as stuck; zero means never by time alone. index is its
	// place among those that are due, and old among the ready ones of an older revision.
	due        time.Time
	index, old int
}

// judge looks at a member.
func (r *roll) judge(b *agents.Sandbox, pod *corev1.Pod, givenUp bool) *entry {
	e := &entry{Member: view.Member(b, pod, r.current(b)), sandbox: b}
	e.Terminating = e.Terminating || givenUp
	if !e.Terminating && e.Pod != states.PodNone && e.Pod != states.PodForeign {
		e.health, e.unschedulable = view.Health(b, pod), view.Unschedulable(pod)
	}
	return e
}

func (r *roll) current(b *agents.Sandbox) bool { return r.basis.Current != nil && r.basis.Current(b) }

// enter counts a member.
func (r *roll) enter(e *entry) {
	e.index, e.old = -1, -1
	stuck, in := e.health.Stuck(r.basis.Grace, e.health.UnreadySince)
	if e.Stuck = stuck; in > 0 {
		e.due = e.health.UnreadySince.Add(in)
		heap.Push(&r.due, e)
	}
	r.members[e.Name] = e
	r.census.Add(e.Member)
	r.picks.add(e)
	r.unschedulable.say(e.Name, e.unschedulable)
	if e.Refused && !e.Terminating {
		r.refused.say(e.Name, refusal(e.sandbox))
	}
}

// leave takes a member out.
func (r *roll) leave(name string) {
	e, ok := r.members[name]
	if !ok {
		return
	}
	delete(r.members, name)
	r.census.Remove(e.Member)
	r.picks.remove(e)
	r.unschedulable.say(name, "")
	r.refused.say(name, "")
	if e.index >= 0 {
		heap.Remove(&r.due, e.index)
	}
}

// rejudge judges all members on another basis, and returns how many it looked at: none
// if the basis is the same.
func (r *roll) rejudge(on Basis) int {
	if r.basis.Name == on.Name && r.basis.Grace == on.Grace && r.basis.Current != nil {
		return 0
	}
	r.basis = on
	for name, e := range r.members {
		r.leave(name)
		e.Current = r.current(e.sandbox)
		r.enter(e)
	}
	return len(r.members)
}

// age counts those as stuck whose time has come.
func (r *roll) age(now time.Time) {
	for len(r.due) > 0 && !r.due[0].due.After(now) {
		e := heap.Pop(&r.due).(*entry)
		r.census.Remove(e.Member)
		r.picks.remove(e)
		e.Stuck = true
		r.picks.add(e)
		r.census.Add(e.Member)
	}
}

// counted is the count of all members, when claims are taking those that are lent, and
// how many of these are no members any more.
func (r *roll) counted(lent []string) (c states.Census, handing int) {
	c = r.census
	for _, name := range lent {
		if e, ok := r.members[name]; ok {
			c.Take(e.Member)
		} else {
			handing++
		}
	}
	return c, handing
}

// dues is a heap of members by when they will count as stuck.
type dues []*entry

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].due.Before(d[j].due) }

func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push adds a member, as package heap asks for it.
func (d *dues) Push(x any) {
	e := x.(*entry)
	e.index = len(*d)
	*d = append(*d, e)
}

// Pop takes out the last, as package heap asks for it.
func (d *dues) Pop() any {
	e := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = nil
	*d = (*d)[:len(*d)-1]
	e.index = -1
	return e
}

// sayings are what is said of members, by their names. What is told of them is what is
// said of the first: it does not change with every look.
type sayings struct {
	of   map[string]string
	name string
}

// say takes in what is said of a member; empty if it is nothing.
func (s *sayings) say(name, what string) {
	switch _, had := s.of[name]; {
	case what != "" && s.of == nil:
		s.of = map[string]string{name: what}
		s.name = name
	case what != "":
		s.of[name] = what
		if len(s.of) == 1 || name < s.name {
			s.name = name
		}
	case had:
		delete(s.of, name)
		if name == s.name {
			s.name = least(s.of)
		}
	}
}

func (s *sayings) first() string { return s.of[s.name] }

func least(of map[string]string) (name string) {
	for one := range of {
		if name == "" || one < name {
			name = one
		}
	}
	return name
}
