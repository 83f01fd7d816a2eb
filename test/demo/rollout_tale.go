package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

const (
	labelRevision = "agents.x-k8s.io/revision"
	noteRetired   = "agents.x-k8s.io/retired"
)

// A count is how many sandboxes a pool has, by what they are.
type count struct{ ready, warming, stale, updated int }

func (c count) String() string {
	return fmt.Sprintf("ready %2d  warming %2d  stale %2d  updated %2d/%d", c.ready, c.warming, c.stale, c.updated, members)
}

// beat is how long counts are gathered before a line says them.
const beat = 60 * time.Millisecond

// A tale is what happened to a pool whose template changed, told in order.
type tale struct {
	from  uint64 // it begins after this version
	zero  time.Time
	now   time.Time
	world world
	lines []string
	// said is the count of the last line, and due one that no line says yet.
	said, due     count
	saidAt, dueAt time.Time
	old           string // the revision before
	claims        map[string]told
	// most is how many members there were at most, least how many of them were
	// ready when one had just been given up, and owed how many of those missing
	// a claim had taken and no new one had made good.
	most, least, owed int
	gaveUp            int
}

// told is what a claim got.
type told struct {
	born    time.Time
	version string // v1 or v2
	launch  string
}

func newTale(from uint64, old string) *tale {
	return &tale{
		from: from, old: old, least: members, claims: map[string]told{},
		world: world{
			pods: map[string]*corev1.Pod{}, claims: map[string]*extensions.SandboxClaim{},
			sandboxes: map[string]*agents.Sandbox{}, pools: map[string]*extensions.SandboxWarmPool{},
		},
	}
}

// hear takes in the next event.
func (t *tale) hear(e event) {
	was := t.count()
	switch o := e.object.(type) {
	case *corev1.Pod:
		keepIn(t.world.pods, o.Name, o, e.gone)
	case *agents.Sandbox:
		keepIn(t.world.sandboxes, o.Name, o, e.gone)
	case *extensions.SandboxWarmPool:
		keepIn(t.world.pools, o.Name, o, e.gone)
	case *extensions.SandboxClaim:
		keepIn(t.world.claims, o.Name, o, e.gone)
	}
	if e.version() <= t.from {
		t.said = t.count()
		return
	}
	if t.zero.IsZero() {
		t.zero = e.at
	}
	// The watches race each other; the order is the server's.
	t.now = later(t.now, e.at)
	if c, ok := e.object.(*extensions.SandboxClaim); ok {
		t.claim(c)
	}
	now := t.count()
	t.weigh(was, now)
	if now != was {
		t.tell(now)
	}
}

// weigh keeps what the verdict is about.
func (t *tale) weigh(was, now count) {
	t.most = max(t.most, now.ready+now.warming+now.stale)
	switch {
	case now.ready > was.ready:
		t.owed = max(t.owed-1, 0)
	case now.ready < was.ready && now.stale > was.stale:
		t.gaveUp++
		t.least = min(t.least, now.ready+t.owed)
	case now.ready < was.ready:
		t.owed++
	}
}

// count counts the members of the pool.
func (t *tale) count() (n count) {
	for _, s := range t.world.sandboxes {
		p, owner := t.world.pools[pool], metav1.GetControllerOf(s)
		if p == nil || owner == nil || owner.UID != p.UID {
			continue
		}
		pod := t.world.pods[s.Name]
		switch {
		case s.Annotations[noteRetired] != "":
			n.stale++
			continue
		case pod != nil && states.State(pod.Labels[labelState]) == states.Ready:
			n.ready++
		default:
			n.warming++
		}
		if s.Labels[labelRevision] != t.old {
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
