package pool

import (
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Memory is what pools remember between steps. Nothing in it is needed to be
// right: names and refusals save requests, and how far a rollout has come is in the
// pool's status, too (status.rollout), so that a new leader goes on from there.
type Memory struct {
	mu  sync.Mutex
	all map[types.UID]*remembered
}

type remembered struct {
	// unanswered are names that were asked for without an answer. They are used again,
	// so that a lost response does not make a member too many.
	unanswered []string
	// refused is what the server said to the last creation, if it refused.
	refused string
	// creating counts the creations under way by what they were decided on.
	creating map[string]int
	// last is what the status said last; nil until it was looked at.
	last *states.PoolReport
	// lacks is the generation of the pool for which the API server said that there is
	// no template, or zero.
	lacks int64
}

// NewMemory returns a Memory of nothing.
func NewMemory() *Memory { return &Memory{all: map[types.UID]*remembered{}} }

// of is what is remembered of a pool; the lock is held.
func (m *Memory) of(pool types.UID) *remembered {
	r, ok := m.all[pool]
	if !ok {
		r = &remembered{}
		m.all[pool] = r
	}
	return r
}

// memberName is a new member's name: the pool's, cut to what a name may have,
// and five random characters.
func memberName(pool string) string {
	const most = 253 - 6
	if len(pool) > most {
		pool = pool[:most]
	}
	return pool + "-" + rand.String(5)
}

// names returns names for new members, those without an answer first.
func (m *Memory) names(pool *ext.SandboxWarmPool, n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(pool.UID)
	names := slices.Clone(r.unanswered[:min(n, len(r.unanswered))])
	r.unanswered = slices.Clone(r.unanswered[len(names):])
	for len(names) < n {
		names = append(names, memberName(pool.Name))
	}
	return names
}

// keep remembers a name that was asked for without an answer.
func (m *Memory) keep(pool types.UID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(pool)
	r.unanswered = append(r.unanswered, name)
}

// created remembers whether the server refused the last creations.
func (m *Memory) created(pool types.UID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, apply.ErrRefused):
		m.of(pool).refused = apply.Message(err)
	case err == nil:
		m.of(pool).refused = ""
	}
}

// begin remembers that a pool makes members that were decided on a basis, until the
// function that it returns is called.
func (m *Memory) begin(pool types.UID, basis string) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(pool)
	if r.creating == nil {
		r.creating = map[string]int{}
	}
	r.creating[basis]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if r.creating[basis]--; r.creating[basis] == 0 {
			delete(r.creating, basis)
		}
	}
}

// superseded reports whether a pool makes members on another basis than this.
func (m *Memory) superseded(pool types.UID, basis string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.all[pool]
	if !ok {
		return false
	}
	_, same := r.creating[basis]
	return len(r.creating) > 1 || len(r.creating) == 1 && !same
}

// refusal is what the server said to the last creation, if it refused.
func (m *Memory) refusal(pool types.UID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.all[pool]; ok {
		return r.refused
	}
	return ""
}

// progress is how far a pool's rollout has come: as it is remembered, or, where the
// status says another phase or nothing is remembered, as the status says it.
func (m *Memory) progress(pool *ext.SandboxWarmPool) states.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	said := view.Progress(pool)
	if r, ok := m.all[pool.UID]; ok && r.last != nil && r.last.Progress.Phase == said.Phase {
		return r.last.Progress
	}
	return said
}

// reported remembers what a pool's status says, and returns what was in the pool's
// way before.
func (m *Memory) reported(pool types.UID, r states.PoolReport) (had states.Reason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.of(pool).last; last != nil {
		had = last.Degraded
	}
	m.of(pool).last = &r
	return had
}

// lack remembers that the API server has no template for a pool as it is specified.
// Should there come to be one, its event tells.
func (m *Memory) lack(pool *ext.SandboxWarmPool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(pool.UID).lacks = pool.Generation
}

// lacks reports whether the API server has said that there is no template for a pool
// as it is specified.
func (m *Memory) lacks(pool *ext.SandboxWarmPool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.all[pool.UID]
	return ok && r.lacks != 0 && r.lacks == pool.Generation
}

// changed takes in that a pool's spec or template has changed.
func (m *Memory) changed(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.all[pool]; ok {
		r.lacks = 0
	}
}

// Len is how many pools it remembers anything of.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

// forget drops what is remembered of a pool that is gone.
func (m *Memory) forget(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, pool)
}
