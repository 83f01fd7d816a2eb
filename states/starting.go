package states

import "container/list"

// starting is the members of a pool that are starting, the one that began first in front.
// As many of the first as claims wait in line are spoken for: what those claims get next.
type starting struct {
	spoken, unspoken *list.List // of names
	at               map[string]seat
}

// A seat is where a member stands, and in which of the two lists.
type seat struct {
	of    *list.List
	place *list.Element
}

func newStarting() starting {
	return starting{spoken: list.New(), unspoken: list.New(), at: map[string]seat{}}
}

func (s *starting) len() int { return len(s.at) }

func (s *starting) has(name string) bool { return s.at[name].of != nil }

// isSpokenFor reports whether a claim waits for a member.
func (s *starting) isSpokenFor(name string) bool { return s.at[name].of == s.spoken }

// add notes a member behind all others, unless it is there already.
func (s *starting) add(name string) {
	if !s.has(name) {
		s.at[name] = seat{s.unspoken, s.unspoken.PushBack(name)}
	}
}

func (s *starting) remove(name string) {
	if at := s.at[name]; at.of != nil {
		at.of.Remove(at.place)
		delete(s.at, name)
	}
}

// speakFor has the first n members spoken for, or all if they are fewer, and returns those
// that were not before. It costs as many moves as that number has changed by.
func (s *starting) speakFor(n int) (more []string) {
	for s.spoken.Len() > n {
		name := s.spoken.Remove(s.spoken.Back()).(string)
		s.at[name] = seat{s.unspoken, s.unspoken.PushFront(name)}
	}
	for s.spoken.Len() < n && s.unspoken.Len() > 0 {
		name := s.unspoken.Remove(s.unspoken.Front()).(string)
		s.at[name] = seat{s.spoken, s.spoken.PushBack(name)}
		more = append(more, name)
	}
	return more
}
