package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A count is how many sandboxes a pool has, by what they are.
type count struct{ ready, warming, stale, updated int }

func (c count) String() string {
	return fmt.Sprintf("ready %2d  warming %2d  stale %2d  updated %2d/%d", c.ready, c.warming, c.stale, c.updated, members)
}

// interval is how long counts are gathered before a line says them.
const interval = 60 * time.Millisecond

// A rolloutLog is what happened to a pool whose template changed, in order.
type rolloutLog struct {
	*world.Snapshot
	from  uint64 // it begins after this version
	zero  time.Time
	now   time.Time
	lines []string
	// said is the count of the last line, and due one that no line says yet.
	said, due     count
	saidAt, dueAt time.Time
	old           string // the revision before
	claims        map[string]outcome
	// most is how many members there were at most, least how many of them were
	// ready when one had just been retired, and owed how many of those missing
	// a claim had taken and no new one had made good.
	most, least, owed int
	retired           int
}

// An outcome is what a claim got.
type outcome struct {
	born    time.Time
	version string // v1 or v2
	launch  string
}

// log puts what happened in order. The pool was of the revision old before.
func (s *story) log(from int, old string) *rolloutLog {
	l := &rolloutLog{Snapshot: world.After(nil), from: s.Seen()[from-1].Version, old: old, least: members, claims: map[string]outcome{}}
	for _, c := range s.History() {
		l.add(c)
	}
	l.flush()
	return l
}

// add takes in the next change.
func (l *rolloutLog) add(c world.Change) {
	was := l.count()
	l.Take(c)
	if c.Version <= l.from {
		l.said = l.count()
		return
	}
	if l.zero.IsZero() {
		l.zero = c.At
	}
	// The watches race each other; the order is the server's.
	l.now = later(l.now, c.At)
	if claim, ok := c.Object.(*extensions.SandboxClaim); ok {
		l.claim(claim)
	}
	now := l.count()
	l.measure(was, now)
	if now != was {
		l.say(now)
	}
}

// measure keeps what the verdict is about.
func (l *rolloutLog) measure(was, now count) {
	l.most = max(l.most, now.ready+now.warming+now.stale)
	switch {
	case now.ready > was.ready:
		l.owed = max(l.owed-1, 0)
	case now.ready < was.ready && now.stale > was.stale:
		l.retired++
		l.least = min(l.least, now.ready+l.owed)
	case now.ready < was.ready:
		l.owed++
	}
}

// count counts the members of the pool.
func (l *rolloutLog) count() (n count) {
	p := l.Pools[pool]
	for name, s := range l.Sandboxes {
		switch {
		case p == nil || !metav1.IsControlledBy(s, p):
			continue
		case s.Annotations[apply.AnnotationRetired] != "":
			n.stale++
			continue
		case l.PodState(name) == string(states.Ready):
			n.ready++
		default:
			n.warming++
		}
		if s.Labels[apply.LabelRevision] != l.old {
			n.updated++
		}
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
