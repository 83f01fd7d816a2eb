package watch

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// poolMemory is what pools remember between steps. Nothing in it is needed to be
// right: it only saves requests.
type poolMemory struct {
	mu sync.Mutex
	// names are those asked for without an answer. They are used again, so that
	// a lost response does not make a member too many.
	names map[types.UID][]string
	// due is since when a pool's status has been out of date.
	due map[types.UID]time.Time
	// refusal is what the server said to the last creation, if it refused.
	refusal map[types.UID]string
	// paces are how far each rollout has come, and since when; there is the revision
	// that each pool has been all of, and has not left. What the status says of them
	// counts after a restart.
	paces map[types.UID]pace
	there map[types.UID]string
}

func newPoolMemory() *poolMemory {
	return &poolMemory{
		names: map[types.UID][]string{}, due: map[types.UID]time.Time{},
		refusal: map[types.UID]string{}, paces: map[types.UID]pace{}, there: map[types.UID]string{},
	}
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

// take returns names for new members, those without an answer first.
func (m *poolMemory) take(pool *ext.SandboxWarmPool, n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.names[pool.UID]
	names := slices.Clone(kept[:min(n, len(kept))])
	m.names[pool.UID] = slices.Clone(kept[len(names):])
	for len(names) < n {
		names = append(names, memberName(pool.Name))
	}
	return names
}

func (m *poolMemory) keep(pool types.UID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[pool] = append(m.names[pool], name)
}

// hear remembers whether the server refused the last creations.
func (m *poolMemory) hear(pool types.UID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, apply.ErrRefused):
		m.refusal[pool] = apply.Words(err)
	case err == nil:
		delete(m.refusal, pool)
	}
}

func (m *poolMemory) said(pool types.UID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusal[pool]
}

// pause returns how long a status that is out of date still waits.
func (m *poolMemory) pause(pool types.UID, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.due[pool]; !ok {
		m.due[pool] = now
	}
	return reportPause - now.Sub(m.due[pool])
}

func (m *poolMemory) settle(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.due, pool)
}

// forget drops what is remembered of a pool that is gone.
func (m *poolMemory) forget(pool types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, pool)
	delete(m.due, pool)
	delete(m.refusal, pool)
	delete(m.paces, pool)
	delete(m.there, pool)
}
