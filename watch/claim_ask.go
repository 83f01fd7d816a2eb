package watch

import (
	"context"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// inquire asks the API server about the first thing the stores do not show.
func (l claims) inquire(ctx context.Context, sight claimSight, known *inquiry) (err error) {
	ns := sight.claim.Namespace
	switch {
	case sight.facts.Told, sight.facts.State != states.Binding:
		known.sandbox, err = l.fate(ctx, sight.claim)
	case sight.sandbox != nil:
		err = l.prove(ctx, sight, known)
	case sight.facts.Pool == states.Unseen:
		known.pool, err = ask(ctx, l.stores.pools, l.reads.kiln.Pools(ns), poolOf(sight.claim))
	case sight.facts.Template != states.Unseen:
		err = l.prove(ctx, sight, known)
	default:
		known.template, err = ask(ctx, l.stores.templates, l.reads.kiln.Templates(ns), templateOf(sight.pool))
	}
	return err
}

// fate asks what became of the sandbox a claim was told of. One that exists and
// is not the claim's any more is as lost as one that does not.
func (l claims) fate(ctx context.Context, c *ext.SandboxClaim) (states.Presence, error) {
	key := Key{Namespace: c.Namespace, Name: c.Status.SandboxStatus.Name}
	if key.Name == "" {
		return states.Missing, nil // a hand emptied the status of a claim that was told
	}
	p, err := ask(ctx, l.stores.sandboxes, l.reads.kiln.Sandboxes(c.Namespace), key)
	if err != nil || p == states.Missing {
		return p, err
	}
	s, ok := l.stores.sandboxes.get(key)
	if !ok || !controls(c.UID, s) || !tellsOf(c, s) || retired(s) || s.DeletionTimestamp != nil {
		return states.Missing, nil
	}
	return p, nil
}
