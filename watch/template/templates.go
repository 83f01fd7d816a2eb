// Package template steps templates: it labels each so that its pods can be
// selected by it.
package template

import (
	"context"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what templates write.
type Writer interface {
	LabelTemplate(context.Context, *ext.SandboxTemplate) (*ext.SandboxTemplate, error)
}

// Templates is the loop of templates.
type Templates struct {
	Stores *store.Stores
	Writer Writer
	// Wake has a template look again, PoolChanged the pool that uses it and that
	// pool's claims.
	Wake        func(view.Key)
	PoolChanged func(*ext.SandboxWarmPool)
}

// A Snapshot is what a template's step sees.
type Snapshot struct {
	Facts    states.TemplateFacts
	key      view.Key
	template *ext.SandboxTemplate
}

// Observe reads what there is to know of a template.
func (l *Templates) Observe(key view.Key, _ struct{}) Snapshot {
	t, ok := l.Stores.Templates.Get(key)
	if !ok {
		return Snapshot{key: key, Facts: states.TemplateFacts{Gone: true}}
	}
	return Snapshot{key: key, template: t, Facts: states.TemplateFacts{
		Terminating: t.DeletionTimestamp != nil, Labelled: t.Labels[apply.LabelTemplate] == apply.Hash(t.Name),
	}}
}

// Decide decides a template's next step.
func (l *Templates) Decide(s Snapshot) states.Decision { return states.StepTemplate(s.Facts) }

// Do carries out the one effect of a decision.
func (l *Templates) Do(ctx context.Context, s Snapshot, d states.Decision) (none struct{}, err error) {
	switch d.Act {
	case states.Label:
		got, err := l.Writer.LabelTemplate(ctx, s.template)
		return none, l.Stores.Templates.Settle(ctx, s.template, got, err)
	case states.Rest, states.Wait, states.Retry:
		if s.Facts.Gone {
			l.Stores.ForgetBlueprint(s.key)
		}
	case states.AskShelf, states.ReadPool, states.ReadTemplate, states.ReadSandbox, states.ReadClaim, states.ProveFresh,
		states.Move, states.Report, states.Annotate, states.Adopt, states.Refuse, states.Create, states.Retire, states.Delete: // not a template's
	}
	return none, nil
}

// TemplateChanged wakes the template and, when more than its metadata changed, the
// pools that use it.
func (l *Templates) TemplateChanged(t store.Change[*ext.SandboxTemplate]) {
	key := view.KeyOf(t.Newest())
	l.Wake(key)
	if t.HasIs && t.HadWas && t.Was.Generation == t.Is.Generation && !t.Replaced() {
		return
	}
	for _, p := range l.Stores.Pools.By(store.ByTemplate, key.String()) {
		l.PoolChanged(p)
	}
}
