package store

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// blueprints remember the blueprint of each template, so that it is worked out
// once for each change of a template and not for each look at a pool.
type blueprints struct {
	mu   sync.Mutex
	made map[view.Key]blueprint
}

type blueprint struct {
	uid        types.UID
	generation int64
	blueprint  apply.Blueprint
	err        error
}

func newBlueprints() *blueprints { return &blueprints{made: map[view.Key]blueprint{}} }

// Blueprint is what a template makes sandboxes from.
func (s *Stores) Blueprint(t *ext.SandboxTemplate) (apply.Blueprint, error) {
	made := s.blueprints.of(t)
	if !s.Templates.Has(t) {
		s.ForgetBlueprint(t) // it has ended since it was looked at, and its event has passed
	}
	return made.blueprint, made.err
}

func (b *blueprints) of(t *ext.SandboxTemplate) blueprint {
	b.mu.Lock()
	defer b.mu.Unlock()
	had, ok := b.made[view.KeyOf(t)]
	if !ok || had.uid != t.UID || had.generation != t.Generation {
		had = blueprint{uid: t.UID, generation: t.Generation}
		had.blueprint, had.err = apply.BlueprintOf(t)
		b.made[view.KeyOf(t)] = had
	}
	return had
}

// ForgetBlueprint drops what is remembered of a template that is gone.
func (s *Stores) ForgetBlueprint(t *ext.SandboxTemplate) {
	s.blueprints.mu.Lock()
	defer s.blueprints.mu.Unlock()
	if s.blueprints.made[view.KeyOf(t)].uid == t.UID {
		delete(s.blueprints.made, view.KeyOf(t))
	}
}

// Blueprints is of how many templates it remembers what they make.
func (s *Stores) Blueprints() int {
	s.blueprints.mu.Lock()
	defer s.blueprints.mu.Unlock()
	return len(s.blueprints.made)
}

// Current reports whether a sandbox was made for a pool from a template as the
// store shows it. Of a pool that is gone, nil, nobody knows what it asked for.
func (s *Stores) Current(b *agents.Sandbox, template view.Key, pool *ext.SandboxWarmPool) bool {
	t, ok := s.Templates.Get(template)
	if !ok {
		return false
	}
	made, err := s.Blueprint(t)
	return err == nil && made.Matches(b, pool)
}

// BlueprintOf finds the pool of a member, and what its template says.
func (s *Stores) BlueprintOf(member *agents.Sandbox) (b apply.Blueprint, pool *ext.SandboxWarmPool, ok bool) {
	pool, ok = s.Pools.Get(view.OwnerKey(member))
	if !ok || !apply.ControlledBy(pool.UID, member) {
		return b, nil, false
	}
	t, ok := s.Templates.Get(view.TemplateOf(pool))
	if !ok {
		return b, pool, false
	}
	b, err := s.Blueprint(t)
	return b, pool, err == nil
}
