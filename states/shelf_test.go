package states

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// at is a moment, in seconds since the tests' own beginning of time.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// A shelfCase is a shelf under test: it says what a call answered in words, and
// checks the invariants after each.
type shelfCase struct {
	*WithT
	s   *Shelf[string]
	now int
}

func newShelfCase(t *testing.T) *shelfCase {
	return &shelfCase{WithT: NewWithT(t), s: NewShelf[string]()}
}

func (c *shelfCase) checked() { c.Expect(broken(c.s)).To(BeEmpty()) }

func (c *shelfCase) take(claim string) string {
	c.now++
	e, offer := c.s.Take(claim, at(c.now))
	c.checked()
	return answer(e, offer)
}

func (c *shelfCase) put(name, node string, since int) []string {
	defer c.checked()
	return c.s.Put(Entry{Name: name, Node: node, Current: true, Since: at(since)}, at(c.now))
}

func (c *shelfCase) putOld(name, node string, since int) []string {
	defer c.checked()
	return c.s.Put(Entry{Name: name, Node: node, Since: at(since)}, at(c.now))
}

// putSaying puts an entry whose pod has an annotation of a value, and takeAdding takes one
// for a claim that adds it.
func (c *shelfCase) putSaying(name, node string, since int, value string) []string {
	defer c.checked()
	return c.s.Put(Entry{Name: name, Node: node, Since: at(since), Has: annotated(value)}, at(c.now))
}

func (c *shelfCase) takeAdding(claim, value string) string {
	e, offer := c.s.TakeFitting(claim, annotated(value), at(c.now))
	c.checked()
	return answer(e, offer)
}

func annotated(value string) Metadata {
	if value == "" {
		return Metadata{}
	}
	return Metadata{Annotations: map[string]string{"ttl": value}}
}

func (c *shelfCase) coming(names ...string) {
	for _, n := range names {
		c.s.Coming(n)
		c.checked()
	}
}

func (c *shelfCase) drop(name string) []string {
	defer c.checked()
	return c.s.Drop(name)
}

func (c *shelfCase) giveBack(claim string) []string {
	defer c.checked()
	return c.s.GiveBack(claim, at(c.now))
}

func (c *shelfCase) done(claim string) {
	c.s.Done(claim)
	c.checked()
}

func answer(e Entry, o Offer) string {
	return [...]string{"not asked", "taken " + e.Name, "in line", "bare"}[o]
}

func TestShelf(t *testing.T) {
	for name, test := range map[string]func(c *shelfCase){
		"its stock is what is free, what is taken and who waits": func(c *shelfCase) {
			c.put("x", "n", 1)
			c.put("y", "n", 2)
			c.take("a")
			c.Expect(c.s.Stock()).To(Equal(Stock{Free: 1, Lent: 1}))
			c.take("b")
			c.coming("z")
			c.take("c")
			c.Expect(c.s.Stock()).To(Equal(Stock{Lent: 2, Waiting: 1}))
		},
		"an empty shelf is bare, and idle": func(c *shelfCase) {
			c.Expect(c.s.Idle()).To(BeTrue())
			c.Expect(c.take("a")).To(Equal("bare"))
			c.Expect(c.s.Idle()).To(BeTrue())
		},
		"a claim takes what is ready": func(c *shelfCase) {
			c.Expect(c.put("p1", "n1", 1)).To(BeEmpty())
			c.Expect(c.s.Idle()).To(BeFalse())
			c.Expect(c.take("a")).To(Equal("taken p1"))
		},
		"a claim that asks again gets the same entry": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.put("p2", "n2", 2)
			c.Expect(c.take("a")).To(Equal("taken p1"))
			c.Expect(c.take("a")).To(Equal("taken p1"))
		},
		"two claims never take one entry": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.Expect(c.take("a")).To(Equal("taken p1"))
			c.Expect(c.take("b")).To(Equal("bare"))
		},
		"the oldest goes first": func(c *shelfCase) {
			c.put("p2", "n1", 2)
			c.put("p1", "n1", 1)
			c.put("p3", "n1", 3)
			c.Expect(c.take("a")).To(Equal("taken p1"))
			c.Expect(c.take("b")).To(Equal("taken p2"))
			c.Expect(c.take("c")).To(Equal("taken p3"))
		},
		"of two equally old ones the name decides": func(c *shelfCase) {
			c.put("p2", "n1", 1)
			c.put("p1", "n1", 1)
			c.Expect(c.take("a")).To(Equal("taken p1"))
		},
		"the node with the most goes first, so that claims spread": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.put("p2", "n2", 2)
			c.put("p3", "n2", 3)
			c.Expect(c.take("a")).To(Equal("taken p2"))
			c.Expect(c.take("b")).To(Equal("taken p1"), "both nodes have one now: the oldest")
			c.Expect(c.take("c")).To(Equal("taken p3"))
		},
		"the current revision goes first, however few and young": func(c *shelfCase) {
			c.putOld("old1", "n1", 1)
			c.putOld("old2", "n1", 2)
			c.put("new", "n2", 9)
			c.Expect(c.take("a")).To(Equal("taken new"))
			c.Expect(c.take("b")).To(Equal("taken old1"))
		},
		"a claim waits for a member that is starting": func(c *shelfCase) {
			c.coming("p1")
			c.Expect(c.take("a")).To(Equal("in line"))
			c.Expect(c.put("p1", "n1", 1)).To(Equal([]string{"a"}))
			c.Expect(c.take("a")).To(Equal("taken p1"))
		},
		"no more claims wait than members are starting": func(c *shelfCase) {
			c.coming("p1", "p2")
			c.Expect(c.take("a")).To(Equal("in line"))
			c.Expect(c.take("b")).To(Equal("in line"))
			c.Expect(c.take("c")).To(Equal("bare"))
		},
		"a claim that asks again keeps its place and its time": func(c *shelfCase) {
			c.coming("p1", "p2")
			c.take("a")
			c.take("b")
			c.Expect(c.take("a")).To(Equal("in line"))
			since, _ := c.s.Waiting("a")
			c.Expect(since).To(Equal(at(1)))
			c.Expect(c.put("p2", "n1", 1)).To(Equal([]string{"a"}))
		},
		"nobody who does not wait has waited": func(c *shelfCase) {
			c.take("a")
			since, still := c.s.Waiting("a")
			c.Expect(since).To(BeZero())
			c.Expect(still).To(BeZero())
		},
		"a line stands still from when a claim in it was served last": func(c *shelfCase) {
			still := func(claim string) time.Time {
				_, still := c.s.Waiting(claim)
				return still
			}
			c.coming("p1", "p2", "p3", "p4")
			c.take("a")
			c.take("b")
			c.Expect([]time.Time{still("a"), still("b")}).To(Equal([]time.Time{at(1), at(2)}))
			c.now = 5
			c.put("p9", "n1", 1)
			c.Expect(still("b")).To(Equal(at(5)))
			c.Expect(still("a")).To(BeZero(), "it waits no more")
			c.take("c")
			c.Expect(still("c")).To(Equal(at(6)), "it has seen nothing of that")
			c.now = 8
			c.giveBack("a")
			c.Expect(still("c")).To(Equal(at(8)))
		},
		"a member is hurried when a claim begins to wait for it": func(c *shelfCase) {
			c.coming("p1", "p2", "p3")
			c.Expect(c.s.Hurried()).To(BeEmpty())
			c.take("a")
			c.take("b")
			c.Expect(c.s.Hurried()).To(Equal([]string{"p1", "p2"}))
			c.take("a")
			c.Expect(c.s.Hurried()).To(BeEmpty(), "that is known")
			c.drop("p1")
			c.Expect(c.s.Hurried()).To(Equal([]string{"p3"}), "the next is waited for instead")
			c.giveBack("a")
			c.Expect(c.s.Hurried()).To(BeEmpty())
		},
		"the first in line is served first": func(c *shelfCase) {
			c.coming("p1", "p2")
			c.take("a")
			c.take("b")
			c.Expect(c.put("p2", "n1", 1)).To(Equal([]string{"a"}))
			c.Expect(c.put("p1", "n1", 2)).To(Equal([]string{"b"}))
		},
		"a member nobody foresaw serves the first in line as well": func(c *shelfCase) {
			c.coming("p1")
			c.take("a")
			c.Expect(c.put("p9", "n1", 1)).To(Equal([]string{"a"}))
		},
		"a waiting claim whose member is gone looks again": func(c *shelfCase) {
			c.coming("p1", "p2")
			c.take("a")
			c.take("b")
			c.Expect(c.drop("p1")).To(Equal([]string{"b"}), "the last in line loses its hope, not the first")
			c.Expect(c.drop("p2")).To(Equal([]string{"a"}))
			c.Expect(c.take("a")).To(Equal("bare"))
		},
		"a claim whose entry is dropped looks again": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			c.Expect(c.drop("p1")).To(Equal([]string{"a"}))
			c.Expect(c.take("a")).To(Equal("bare"))
		},
		"dropping what nobody knows wakes nobody": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.Expect(c.drop("p9")).To(BeEmpty())
			c.Expect(c.take("a")).To(Equal("taken p1"))
		},
		"a member that cools is not free": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.coming("p1")
			c.Expect(c.take("a")).To(Equal("in line"))
		},
		"a member that is put twice is there once, as it was put last": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.put("p1", "n2", 5)
			c.Expect(c.take("a")).To(Equal("taken p1"))
			c.Expect(c.take("b")).To(Equal("bare"))
		},
		"an entry that is given back goes to the next in line": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			c.coming("p2")
			c.Expect(c.take("b")).To(Equal("in line"))
			c.Expect(c.giveBack("a")).To(Equal([]string{"b"}))
			c.Expect(c.take("b")).To(Equal("taken p1"))
		},
		"an entry that is given back is free again when nobody waits": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			c.Expect(c.giveBack("a")).To(BeEmpty())
			c.Expect(c.take("b")).To(Equal("taken p1"))
		},
		"an entry that cooled while it was taken comes back as one that is starting": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			c.coming("p1")
			c.Expect(c.take("b")).To(Equal("bare"), "it is still spoken for")
			c.Expect(c.giveBack("a")).To(BeEmpty())
			c.Expect(c.take("b")).To(Equal("in line"))
		},
		"an entry that cooled and warmed while it was taken is free when it comes back": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			c.coming("p1")
			c.put("p1", "n1", 2)
			c.giveBack("a")
			c.Expect(c.take("b")).To(Equal("taken p1"))
		},
		"a claim that gives up its place frees it": func(c *shelfCase) {
			c.coming("p1")
			c.take("a")
			c.Expect(c.giveBack("a")).To(BeEmpty())
			c.Expect(c.take("b")).To(Equal("in line"))
			c.Expect(c.put("p1", "n1", 1)).To(Equal([]string{"b"}))
		},
		"what a claim is done with is gone": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			c.done("a")
			c.Expect(c.s.Idle()).To(BeTrue())
			c.Expect(c.take("b")).To(Equal("bare"))
		},
		"a claim that found another way is done with waiting": func(c *shelfCase) {
			c.coming("p1")
			c.take("a")
			c.done("a")
			c.Expect(c.put("p1", "n1", 1)).To(BeEmpty())
		},
		"a pool withdraws what is free": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			woken, ok := c.s.Withdraw("p1")
			c.Expect(ok).To(BeTrue())
			c.Expect(woken).To(BeEmpty())
			c.Expect(c.take("a")).To(Equal("bare"))
		},
		"a pool withdraws what is starting, and who waits for it looks again": func(c *shelfCase) {
			c.coming("p1")
			c.take("a")
			woken, ok := c.s.Withdraw("p1")
			c.Expect(ok).To(BeTrue())
			c.Expect(woken).To(Equal([]string{"a"}))
		},
		"a pool can not withdraw what a claim has taken": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.take("a")
			woken, ok := c.s.Withdraw("p1")
			c.Expect(ok).To(BeFalse())
			c.Expect(woken).To(BeEmpty())
			c.Expect(c.take("a")).To(Equal("taken p1"))
		},
		"what a claim has taken can be asked without taking": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			_, has := c.s.Taken("a")
			c.Expect(has).To(BeFalse())
			c.take("a")
			e, has := c.s.Taken("a")
			c.Expect(has).To(BeTrue())
			c.Expect(e.Name).To(Equal("p1"))
			c.giveBack("a")
			_, has = c.s.Taken("a")
			c.Expect(has).To(BeFalse())
		},
		"what does not fit is passed over, on whatever node the next stands": func(c *shelfCase) {
			c.putSaying("p1", "n1", 1, "1h")
			c.putSaying("p2", "n1", 2, "1h")
			c.putSaying("p3", "n2", 3, "2h")
			c.putSaying("p4", "n3", 4, "")
			c.Expect(c.takeAdding("a", "2h")).To(Equal("taken p3"))
			c.Expect(c.takeAdding("a", "2h")).To(Equal("taken p3"))
			c.Expect(c.takeAdding("b", "2h")).To(Equal("taken p4"))
			c.Expect(c.takeAdding("c", "2h")).To(Equal("bare"))
			c.Expect(c.takeAdding("d", "1h")).To(Equal("taken p1"))
			c.Expect(c.take("e")).To(Equal("taken p2"))
		},
		"what becomes ready is the first one's whom it fits": func(c *shelfCase) {
			c.coming("p1", "p2", "p3")
			c.Expect(c.takeAdding("a", "2h")).To(Equal("in line"))
			c.Expect(c.takeAdding("b", "1h")).To(Equal("in line"))
			c.Expect(c.putSaying("p1", "n1", 1, "1h")).To(Equal([]string{"b"}))
			c.Expect(c.putSaying("p2", "n1", 2, "1h")).To(BeEmpty(), "another is coming")
			c.Expect(c.take("c")).To(Equal("taken p2"))
			c.Expect(c.putSaying("p3", "n1", 3, "1h")).To(Equal([]string{"a"}), "nothing is coming any more")
			c.Expect(c.takeAdding("a", "2h")).To(Equal("bare"))
		},
		"what is given back goes to whom it fits": func(c *shelfCase) {
			c.putSaying("p1", "n1", 1, "1h")
			c.take("a")
			c.coming("p2", "p3")
			c.takeAdding("b", "2h")
			c.take("c")
			c.Expect(c.giveBack("a")).To(Equal([]string{"c"}))
		},
		"a claim that has taken something does not wait as well": func(c *shelfCase) {
			c.put("p1", "n1", 1)
			c.coming("p2")
			c.take("a")
			c.take("a")
			c.Expect(c.put("p2", "n1", 2)).To(BeEmpty())
		},
	} {
		t.Run(name, func(t *testing.T) { test(newShelfCase(t)) })
	}
}

// broken lists the invariants that a shelf breaks.
func broken(s *Shelf[string]) (why []string) {
	say := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	free := 0
	for i, r := range s.racks {
		free += len(r.entries)
		say(r.index != i, "rack %s does not know its place", r.node)
		say(s.node[r.node] != r, "rack %s is not found by its node", r.node)
		say(len(r.entries) == 0, "rack %s is empty", r.node)
		say(!slices.IsSortedFunc(r.entries, first), "rack %s is out of order", r.node)
		say(i > 0 && s.racks.Less(i, (i-1)/2), "rack %s should stand before its parent", r.node)
		for _, e := range r.entries {
			coming := s.coming.has(e.Name)
			_, taken := s.by[e.Name]
			say(s.at[e.Name].rack != r || first(s.at[e.Name].entry, e) != 0, "%s is not found by its name", e.Name)
			say(e.Node != r.node, "%s stands on the wrong rack", e.Name)
			say(coming, "%s is free and coming", e.Name)
			say(taken, "%s is free and taken", e.Name)
		}
	}
	say(free != len(s.at), "%d stand, %d are found by name", free, len(s.at))
	say(len(s.racks) != len(s.node), "%d racks, %d nodes", len(s.racks), len(s.node))
	say(len(s.taken) != len(s.by), "%d claims took, %d entries are taken", len(s.taken), len(s.by))
	for claim, l := range s.taken {
		_, waits := s.arrived[claim]
		coming := s.coming.has(l.entry.Name)
		say(s.by[l.entry.Name] != claim, "%s took %s, which says otherwise", claim, l.entry.Name)
		say(waits, "%s took one and waits", claim)
		say(coming, "%s is taken and coming", l.entry.Name)
	}
	say(s.line.Len() != len(s.arrived), "%d in line, %d have arrived", s.line.Len(), len(s.arrived))
	seen := map[string]bool{}
	for place := s.line.Front(); place != nil; place = place.Next() {
		claim := place.Value.(string)
		say(s.arrived[claim].place != place, "%s is in line and never came", claim)
		say(seen[claim], "%s is in line twice", claim)
		seen[claim] = true
	}
	for claim, waits := range s.arrived {
		e, free := s.best(waits.adds)
		say(free, "%s waits while %s is free", claim, e.Name)
	}
	say(s.line.Len() > s.coming.len(), "%d wait for %d", s.line.Len(), s.coming.len())
	say(s.line.Len() != s.coming.spoken.Len(), "%d wait, %d are spoken for", s.line.Len(), s.coming.spoken.Len())
	say(len(s.coming.at) != s.coming.spoken.Len()+s.coming.unspoken.Len(), "%d are coming, %d and %d have a seat", len(s.coming.at), s.coming.spoken.Len(), s.coming.unspoken.Len())
	return why
}

func TestWhatAClaimAddsFitsUnlessAKeyHasAnotherValue(t *testing.T) {
	g := NewWithT(t)
	has := Metadata{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}}
	for _, row := range []struct {
		adds Metadata
		fits bool
	}{
		{Metadata{}, true},
		{Metadata{Labels: map[string]string{"a": "1", "b": "3"}}, true},
		{Metadata{Labels: map[string]string{"a": "2"}}, false},
		{Metadata{Annotations: map[string]string{"a": "2"}}, true},
		{Metadata{Annotations: map[string]string{"b": ""}}, false},
	} {
		g.Expect(row.adds.Fits(has)).To(Equal(row.fits), "%v", row.adds)
	}
}

// A slowShelf is the shelf as one would say it: slices, searched from the front.
type slowShelf struct {
	free   []Entry
	loans  []slowLoan
	coming []string
	line   []string
}

type slowLoan struct {
	claim  string
	entry  Entry
	cooled bool
}

func (s *slowShelf) loan(match func(slowLoan) bool) int { return slices.IndexFunc(s.loans, match) }
func (s *slowShelf) loanOf(claim string) int {
	return s.loan(func(l slowLoan) bool { return l.claim == claim })
}
func (s *slowShelf) loanOn(name string) int {
	return s.loan(func(l slowLoan) bool { return l.entry.Name == name })
}

func (s *slowShelf) forget(name string) {
	s.free = slices.DeleteFunc(s.free, func(e Entry) bool { return e.Name == name })
	s.coming = slices.DeleteFunc(s.coming, func(n string) bool { return n == name })
}

func (s *slowShelf) leave(claim string) {
	s.line = slices.DeleteFunc(s.line, func(c string) bool { return c == claim })
}

// best is the free entry to hand out: the first of the best node.
func (s *slowShelf) best() Entry {
	nodes := map[string][]Entry{}
	for _, e := range s.free {
		nodes[e.Node] = append(nodes[e.Node], e)
	}
	var best Entry
	for _, on := range nodes {
		slices.SortFunc(on, first)
		e, n, m := on[0], len(on), len(nodes[best.Node])
		switch {
		case best.Name == "", e.Current && !best.Current:
			best = e
		case e.Current != best.Current:
		case n > m, n == m && first(e, best) < 0:
			best = e
		}
	}
	return best
}

func (s *slowShelf) take(claim string) (Entry, Offer) {
	if i := s.loanOf(claim); i >= 0 {
		return s.loans[i].entry, OfferTaken
	}
	switch {
	case slices.Contains(s.line, claim):
		return Entry{}, OfferInLine
	case len(s.free) > 0:
		e := s.best()
		s.forget(e.Name)
		s.loans = append(s.loans, slowLoan{claim: claim, entry: e})
		return e, OfferTaken
	case len(s.line) < len(s.coming):
		s.line = append(s.line, claim)
		return Entry{}, OfferInLine
	}
	return Entry{}, OfferEmpty
}

func (s *slowShelf) comes(name string) {
	if i := s.loanOn(name); i >= 0 {
		s.loans[i].cooled = true
		return
	}
	if !slices.Contains(s.coming, name) {
		s.forget(name)
		s.coming = append(s.coming, name)
	}
}

func (s *slowShelf) put(e Entry) (woken []string) {
	if i := s.loanOn(e.Name); i >= 0 {
		s.loans[i] = slowLoan{claim: s.loans[i].claim, entry: e}
		return nil
	}
	s.forget(e.Name)
	if len(s.line) == 0 {
		s.free = append(s.free, e)
		return nil
	}
	claim := s.line[0]
	s.line = s.line[1:]
	s.loans = append(s.loans, slowLoan{claim: claim, entry: e})
	return []string{claim}
}

func (s *slowShelf) drop(name string) (woken []string) {
	s.forget(name)
	if i := s.loanOn(name); i >= 0 {
		woken = append(woken, s.loans[i].claim)
		s.loans = slices.Delete(s.loans, i, i+1)
	}
	for len(s.line) > len(s.coming) {
		woken = append(woken, s.line[len(s.line)-1])
		s.line = s.line[:len(s.line)-1]
	}
	return woken
}

func (s *slowShelf) giveBack(claim string) (woken []string) {
	s.leave(claim)
	i := s.loanOf(claim)
	if i < 0 {
		return nil
	}
	l := s.loans[i]
	s.loans = slices.Delete(s.loans, i, i+1)
	if l.cooled {
		s.comes(l.entry.Name)
		return nil
	}
	return s.put(l.entry)
}

func (s *slowShelf) done(claim string) {
	s.leave(claim)
	if i := s.loanOf(claim); i >= 0 {
		s.loans = slices.Delete(s.loans, i, i+1)
	}
}

// TestTheShelfIsTheSlowShelf does the same random things to the shelf and to the
// slow one. A failure names its seed and everything that was done.
func TestTheShelfIsTheSlowShelf(t *testing.T) {
	const seeds, steps = 250, 200
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		fast, slow := NewShelf[string](), &slowShelf{}
		var story []string
		for i := range steps {
			claim, name := fmt.Sprint("claim", r.IntN(6)), fmt.Sprint("p", r.IntN(8))
			e := Entry{Name: name, Node: fmt.Sprint("n", r.IntN(3)), Current: r.IntN(3) > 0, Since: at(r.IntN(5))}
			var got, want string
			awaited := slices.Clone(slow.coming[:len(slow.line)])
			switch verb := r.IntN(14); verb {
			case 0, 1, 2, 3, 4:
				e, o := fast.Take(claim, at(i))
				got = fmt.Sprint("take ", claim, ": ", answer(e, o), e)
				e, o = slow.take(claim)
				want = fmt.Sprint("take ", claim, ": ", answer(e, o), e)
			case 5, 6, 7:
				got = fmt.Sprint("put ", e, ": ", fast.Put(e, at(i)))
				want = fmt.Sprint("put ", e, ": ", slow.put(e))
			case 8, 9:
				fast.Coming(name)
				slow.comes(name)
				got = "coming " + name
				want = got
			case 10:
				got = fmt.Sprint("drop ", name, ": ", fast.Drop(name))
				want = fmt.Sprint("drop ", name, ": ", slow.drop(name))
			case 11:
				refused := slow.loanOn(name) >= 0
				woken, ok := fast.Withdraw(name)
				got = fmt.Sprint("withdraw ", name, ": ", woken, ok)
				want = fmt.Sprint("withdraw ", name, ": ", []string{}, false)
				if !refused {
					want = fmt.Sprint("withdraw ", name, ": ", slow.drop(name), true)
				}
			case 12:
				fast.Done(claim)
				slow.done(claim)
				got = "done " + claim
				want = got
			case 13:
				got = fmt.Sprint("give back ", claim, ": ", fast.GiveBack(claim, at(i)))
				want = fmt.Sprint("give back ", claim, ": ", slow.giveBack(claim))
			}
			story = append(story, got)
			wrong := broken(fast)
			if _, has := fast.Taken(claim); has != (slow.loanOf(claim) >= 0) {
				wrong = append(wrong, "the two do not agree what "+claim+" has taken")
			}
			if got != want {
				wrong = append(wrong, "the slow shelf says: "+want)
			}
			if fast.line.Len() != len(slow.line) || fast.coming.len() != len(slow.coming) || len(fast.at) != len(slow.free) {
				wrong = append(wrong, "the two hold different things")
			}
			now := slices.DeleteFunc(slices.Clone(slow.coming[:len(slow.line)]), func(name string) bool { return slices.Contains(awaited, name) })
			if hurried := fast.Hurried(); !slices.Equal(hurried, now) {
				wrong = append(wrong, fmt.Sprintf("hurried are %v, and claims begin to wait for %v", hurried, now))
			}
			for i, name := range slow.coming {
				if fast.Awaited(name) != (i < len(slow.line)) {
					wrong = append(wrong, "the two do not agree whether a claim waits for "+name)
				}
			}
			if len(wrong) > 0 {
				t.Fatalf("seed %d: %s\n  %s", seed, strings.Join(wrong, "; "), strings.Join(story, "\n  "))
			}
		}
	}
}

// full is a shelf with a thousand entries on fifty nodes.
func full() (*Shelf[int], []Entry) {
	s := NewShelf[int]()
	all := make([]Entry, 1000)
	for i := range all {
		all[i] = Entry{Name: fmt.Sprint("p", i), Node: fmt.Sprint("n", i%50), Current: true, Since: at(i)}
		s.Put(all[i], time.Time{})
	}
	return s, all
}

func BenchmarkShelf(b *testing.B) {
	b.Run("a claim takes one and is done, another is put", func(b *testing.B) {
		s, _ := full()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			e, offer := s.Take(i, time.Time{})
			if offer != OfferTaken {
				b.Fatal(offer)
			}
			s.Done(i)
			e.Since = at(1000 + i)
			s.Put(e, time.Time{})
			i++
		}
	})
	b.Run("a member is brought up to date", func(b *testing.B) {
		s, all := full()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			s.Put(all[i%len(all)], time.Time{})
			i++
		}
	})
	b.Run("a claim leaves a line of ten thousand, and comes again", func(b *testing.B) {
		s := NewShelf[int]()
		const line = 10000
		for i := range line {
			s.Coming(fmt.Sprint("p", i))
			s.Take(i, time.Time{})
		}
		i := 0
		for b.Loop() {
			s.GiveBack(i%line, time.Time{})
			s.Take(i%line, time.Time{})
			i += 7
		}
	})
}
