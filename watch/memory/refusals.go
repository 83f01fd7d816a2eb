package memory

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// How long a member whose adoption was refused is not offered again: each refusal
// doubles it.
const (
	refusedFirst = 5 * time.Second
	refusedMost  = 5 * time.Minute
)

// Refusals are the members whose adoption the API server refuses, by UID. They are
// off the shelf until somebody changes them, or for a while. A nil set is one that
// nobody fills.
type Refusals struct {
	now func() time.Time
	mu  sync.Mutex
	all map[types.UID]refusal
}

type refusal struct {
	Refusal
	pool    types.UID
	cause   string
	version string
	count   int
	until   time.Time
}

// A Refusal is a member whose adoption was refused, and the API server's words.
type Refusal struct{ Member, Message string }

// NewRefusals returns a set without members, on a clock.
func NewRefusals(now func() time.Time) *Refusals {
	return &Refusals{now: now, all: map[types.UID]refusal{}}
}

// Add takes in that the adoption of a pool's member, as it was seen, was refused. It
// returns how long the member is not offered, and whether the cause is news: no member of
// the pool is refused for it already.
func (r *Refusals) Add(pool types.UID, member *agents.Sandbox, message, cause string) (hold time.Duration, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had, news := r.all[member.UID], true
	for _, one := range r.all {
		news = news && (one.pool != pool || one.cause != cause)
	}
	hold = refusedMost
	if had.count < 10 {
		hold = min(refusedFirst<<had.count, refusedMost)
	}
	r.all[member.UID] = refusal{Refusal{member.Name, message}, pool, cause, member.ResourceVersion, had.count + 1, r.now().Add(hold)}
	return hold, news
}

// Holds reports whether a member is not to be offered now.
func (r *Refusals) Holds(member *agents.Sandbox) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.all[member.UID]
	return ok && one.version == member.ResourceVersion && r.now().Before(one.until)
}

// Of is the first of a pool's members, by name, whose adoption was refused.
func (r *Refusals) Of(pool types.UID) (first Refusal, ok bool) {
	if r == nil {
		return first, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one.pool == pool && (!ok || one.Member < first.Member) {
			first, ok = one.Refusal, true
		}
	}
	return first, ok
}

// Drop forgets a member: it is gone, or is not the pool's any more.
func (r *Refusals) Drop(member types.UID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, member)
}
