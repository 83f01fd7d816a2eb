package watch

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// templates steps templates.
type templates struct{ *world }

// step puts the label on a template that its pods are selected by.
func (l templates) step(ctx context.Context, key Key) (time.Duration, error) {
	t, ok := l.stores.templates.get(key)
	if !ok || t.DeletionTimestamp != nil {
		l.blueprints.forget(key)
		return 0, nil
	}
	got, err := l.apply.LabelTemplate(ctx, t)
	return 0, last(ctx, l.stores.templates, l.reads.kiln.Templates(key.Namespace), t, got, err)
}

// blueprints remember the blueprint of each template, so that it is worked out
// once for each change of a template and not for each look at a pool.
type blueprints struct {
	mu   sync.Mutex
	made map[Key]made
}

type made struct {
	uid        types.UID
	generation int64
	blueprint  apply.Blueprint
	err        error
}

func (b *blueprints) of(t *ext.SandboxTemplate) (apply.Blueprint, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had, ok := b.made[keyOf(t)]
	if ok && had.uid == t.UID && had.generation == t.Generation {
		return had.blueprint, had.err
	}
	m := made{uid: t.UID, generation: t.Generation}
	m.blueprint, m.err = apply.BlueprintOf(t)
	if b.made == nil {
		b.made = map[Key]made{}
	}
	b.made[keyOf(t)] = m
	return m.blueprint, m.err
}

func (b *blueprints) forget(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.made, key)
}
