package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// An object is one state of an object. It never changes: whoever writes makes another.
type object struct {
	*unstructured.Unstructured
	version uint64

	encoding sync.Once
	raw      []byte
}

// encoded is the object in JSON. It is made once, for all who ask.
func (o *object) encoded() []byte {
	o.encoding.Do(func() { o.raw = encode(o.Object) })
	return o.raw
}

// encode writes what came from JSON back to it, without an end of the line.
func encode(o any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		panic(err) // it was read from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// An event is a change of one kind. Each knows the next, so that a watch is a walk, and
// what nobody can come to any more is garbage.
type event struct {
	is, was *object
	version uint64

	come chan struct{} // closed when next is set
	next *event
}

// change is what an event is for those who saw some of what was, and see some of what
// is.
func (e *event) change(before, now bool) (watch.EventType, bool) {
	switch {
	case before && now:
		return watch.Modified, true
	case now:
		return watch.Added, true
	}
	return watch.Deleted, before
}

// mostChanges is how many changes of a kind can be watched afterwards. Whoever is
// watching misses none, however slow. They are few, so that the heap of a process with a
// server in it is soon as large as it will be.
const mostChanges = 256

// A table has all objects of a kind.
type table struct {
	objects map[types.NamespacedName]*object
	// first is the oldest change that is kept, last the newest, and kept how many
	// there are after first. The very first is none.
	first, last *event
	kept        int
	// order has the names of a kind that has a bound, oldest first.
	order []types.NamespacedName
}

func newTable() *table {
	none := &event{come: make(chan struct{})}
	return &table{objects: map[types.NamespacedName]*object{}, first: none, last: none}
}

// A store has all objects, and one count of the changes.
type store struct {
	mu      sync.Mutex
	version uint64
	tables  map[*kind]*table
}

// firstVersion is the version of a server that has nothing. No object has version 1.
const firstVersion = 1

func newStore(all []*kind) *store {
	s := &store{version: firstVersion, tables: map[*kind]*table{}}
	for _, k := range all {
		s.tables[k] = newTable()
		s.tables[k].first.version = firstVersion
	}
	return s
}

func (s *store) get(k *kind, key types.NamespacedName) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[k].objects[key]
}

// list returns what there is of a kind in a namespace, or in all of them, in the order of
// the names, and the change after which that holds.
func (s *store) list(k *kind, ns string) (all []*object, version uint64, after *event) {
	s.mu.Lock()
	t := s.tables[k]
	for key, o := range t.objects {
		if ns == "" || key.Namespace == ns {
			all = append(all, o)
		}
	}
	version, after = s.version, t.last
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *object) int {
		if n := strings.Compare(a.GetNamespace(), b.GetNamespace()); n != 0 {
			return n
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return all, version, after
}

// after finds the last change of a kind that is no later than a version; expired says
// that what came after it is not known any more.
func (s *store) after(k *kind, version uint64) (e *event, now uint64, expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.tables[k].first
	if version < e.version {
		return nil, s.version, true
	}
	for e.next != nil && e.next.version <= version {
		e = e.next
	}
	return e, s.version, false
}

// at is the version up to which a watch that has come to a change has seen everything.
func (s *store) at(e *event) (version uint64, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, e.next == nil
}

// commit puts another object in the place of one, or takes it away. It does nothing and
// reports false if that has changed meanwhile.
func (s *store) commit(k *kind, key types.NamespacedName, was *object, is *unstructured.Unstructured) (*object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[k]
	if t.objects[key] != was {
		return nil, false
	}
	o := s.put(t, key, was, is)
	if was == nil && k.most > 0 {
		if t.order = append(t.order, key); len(t.order) > k.most {
			oldest := t.order[0]
			t.order = t.order[1:]
			if o := t.objects[oldest]; o != nil {
				s.put(t, oldest, o, nil)
			}
		}
	}
	return o, true
}

func (s *store) put(t *table, key types.NamespacedName, was *object, is *unstructured.Unstructured) *object {
	s.version++
	o := &object{Unstructured: is, version: s.version}
	e := &event{is: o, was: was, version: s.version, come: make(chan struct{})}
	if is == nil {
		o.Unstructured, e.is = stamped(was.Unstructured), nil
		e.was = o
		delete(t.objects, key)
	} else {
		t.objects[key] = o
	}
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	t.last.next = e
	close(t.last.come)
	t.last = e
	if t.kept++; t.kept > mostChanges {
		t.first, t.kept = t.first.next, t.kept-1
	}
	return o
}

// stamped is a copy of an object whose metadata may be set.
func stamped(u *unstructured.Unstructured) *unstructured.Unstructured {
	o := maps.Clone(u.Object)
	metadata, _ := o["metadata"].(map[string]any)
	o["metadata"] = maps.Clone(metadata)
	return &unstructured.Unstructured{Object: o}
}
