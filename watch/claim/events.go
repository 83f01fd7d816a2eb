package claim

import (
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// ClaimChanged wakes the claim, and the sandboxes that it owns: their pods' states
// follow the claim's status and its end.
func (l *Claims) ClaimChanged(c store.Change[*ext.SandboxClaim]) {
	is := c.Newest()
	if !c.HasIs || c.Replaced() {
		l.Metrics.Forget(c.Was)
	}
	if c.HasIs && is.Status.State == "" {
		l.Metrics.FirstObserved(is, l.Now())
	}
	l.Wake(view.KeyOf(is))
	for _, s := range l.Stores.Sandboxes.By(store.ByOwner, store.ID(is)) {
		l.WakeSandbox(view.KeyOf(s))
	}
}

// WakeWaiting wakes the claims of a pool that have no sandbox yet.
func (l *Claims) WakeWaiting(pool view.Key) {
	for _, c := range l.Stores.Claims.By(store.ByPool, pool.String()) {
		if c.Status.SandboxStatus.Name == "" {
			l.Wake(view.KeyOf(c))
		}
	}
}
