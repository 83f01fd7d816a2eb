package pool

import (
	"container/heap"
	"maps"

	"github.com/kiln-sandbox/kiln/states"
)

// picks are the members of a pool that a plan may name though the pool has not too
// many: it finds them without a look at the others.
type picks struct {
	hopeless, stuck, unready map[string]*entry
	// old are the ready ones of an older revision.
	old olds
}

// add takes a member in, wherever it belongs.
func (p *picks) add(e *entry) {
	ready := e.State == states.Ready
	if e.Terminating {
		return
	}
	put(&p.hopeless, e, e.Hopeless())
	put(&p.stuck, e, e.Stuck && !ready)
	put(&p.unready, e, !e.Current && !ready)
	if !e.Current && ready {
		heap.Push(&p.old, e)
	}
}

func put(to *map[string]*entry, e *entry, belongs bool) {
	if !belongs {
		return
	}
	if *to == nil {
		*to = map[string]*entry{}
	}
	(*to)[e.Name] = e
}

// remove takes a member out.
func (p *picks) remove(e *entry) {
	delete(p.hopeless, e.Name)
	delete(p.stuck, e.Name)
	delete(p.unready, e.Name)
	if e.old >= 0 {
		heap.Remove(&p.old, e.old)
	}
}

// of are the members that a choice asks for. Those that are taken are passed over.
func (p *picks) of(c states.Choice, taken map[string]bool) map[string]*entry {
	all := map[string]*entry{}
	if c.Hopeless {
		maps.Copy(all, p.hopeless)
	}
	if c.OldUnready {
		maps.Copy(all, p.unready)
	}
	for name, e := range p.stuck {
		if c.Stuck <= 0 {
			break
		}
		if all[name] == nil && !taken[name] {
			all[name] = e
			c.Stuck--
		}
	}
	maps.Copy(all, p.newest(c.OldReady, taken))
	return all
}

// newest are so many of the ready members of an older revision, the newest first.
func (p *picks) newest(n int, taken map[string]bool) map[string]*entry {
	all := map[string]*entry{}
	var passed []*entry
	for len(all) < n && len(p.old) > 0 {
		e := heap.Pop(&p.old).(*entry)
		passed = append(passed, e)
		if !taken[e.Name] {
			all[e.Name] = e
		}
	}
	for _, e := range passed {
		heap.Push(&p.old, e)
	}
	return all
}

// olds is a heap of members: those that a pool wants least are first.
type olds []*entry

func (o olds) Len() int           { return len(o) }
func (o olds) Less(i, j int) bool { return states.LeastWanted(o[i].Member, o[j].Member) < 0 }

func (o olds) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].old, o[j].old = i, j
}

// Push adds a member, as package heap asks for it.
func (o *olds) Push(x any) {
	e := x.(*entry)
	e.old = len(*o)
	*o = append(*o, e)
}

// Pop takes out the last, as package heap asks for it.
func (o *olds) Pop() any {
	e := (*o)[len(*o)-1]
	(*o)[len(*o)-1] = nil
	*o = (*o)[:len(*o)-1]
	e.old = -1
	return e
}
