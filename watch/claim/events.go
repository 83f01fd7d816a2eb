package claim

import (
	"k8s.io/apimachinery/pkg/api/equality"

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
	l.note(c)
	l.Wake(view.KeyOf(is))
	for _, s := range l.Stores.Sandboxes.By(store.ByOwner, store.ID(is)) {
		l.WakeSandbox(view.KeyOf(s))
	}
}

// note says of an edit that comes too late to change anything that it does. It is
// said once for each: an edit is seen once, and by the one process that works.
func (l *Claims) note(c store.Change[*ext.SandboxClaim]) {
	if !c.HadWas || !c.HasIs || c.Replaced() || c.Was.Generation == c.Is.Generation || !l.Leads() {
		return
	}
	if fields := l.idle(c.Was, c.Is); len(fields) > 0 {
		l.Events.Emit(c.Is, withoutEffect(c.Is, fields))
	}
}

// idle are the fields of a claim's spec that were edited and change nothing any more.
// From when it has a sandbox on that is what the sandbox was made from, unless it has to
// be made anew; when it holds nothing any more it is all but what deletes the claim.
func (l *Claims) idle(was, is *ext.SandboxClaim) (fields []string) {
	ended, has := was.Status.State == ext.StateStale, held(l.Stores, was)
	made := has != nil || was.Status.State == ext.StateBound || was.Status.State == ext.StateWarming
	if was.Status.State == ext.StateWarming && has != nil && l.unmade(has) {
		return nil
	}
	a, b := was.Spec, is.Spec
	deletes := deletes(lifecycle(was)) || deletes(lifecycle(is))
	for _, of := range []struct {
		name       string
		idle, same bool
	}{
		{"spec.env", made || ended, equality.Semantic.DeepEqual(a.Env, b.Env)},
		{"spec.volumeClaimTemplates", made || ended, equality.Semantic.DeepEqual(a.VolumeClaimTemplates, b.VolumeClaimTemplates)},
		{"spec.warmPoolRef", made || ended, a.WarmPoolRef == b.WarmPoolRef},
		{"spec.additionalPodMetadata", ended, equality.Semantic.DeepEqual(a.AdditionalPodMetadata, b.AdditionalPodMetadata)},
		{"spec.lifecycle", ended && !deletes, equality.Semantic.DeepEqual(a.Lifecycle, b.Lifecycle)},
	} {
		if of.idle && !of.same {
			fields = append(fields, of.name)
		}
	}
	return fields
}

// WakeEnding wakes the claims that end at some hour.
func (l *Claims) WakeEnding() {
	for _, c := range l.Stores.Claims.All() {
		if lifecycle(c) != nil {
			l.Wake(view.KeyOf(c))
		}
	}
}

// WakeWaiting wakes the claims of a pool that have no sandbox yet, or whose own one
// may not be able to start as it is.
func (l *Claims) WakeWaiting(pool view.Key) {
	for _, c := range l.Stores.Claims.By(store.ByPool, pool.String()) {
		if !view.Told(c) {
			l.Wake(view.KeyOf(c))
		}
	}
}
