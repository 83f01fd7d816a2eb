package watch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// claims steps claims.
type claims struct{ *world }

// claimSight is what one look at a claim shows.
type claimSight struct {
	facts   states.ClaimFacts
	claim   *ext.SandboxClaim
	pool    *ext.SandboxWarmPool
	sandbox *agents.Sandbox // what it holds
	offered Key             // what the shelf offers
	fault   fault           // why its spec can not be served
	clash   string          // why its own sandbox can not be made
	status  ext.SandboxClaimStatus
}

// inquiry is what a step of a claim learnt from the API server itself; it holds
// for that step only.
type inquiry struct {
	sandbox, pool, template states.Presence
	// view is how new the stores are, by the proof that was asked for, for the claim
	// as it was at version, when the step first saw it: a note of our own makes no
	// claim newer.
	view    states.View
	proof   subject
	version string
	// clash is why its own sandbox could not be made; again says that trying
	// once more may help, which no event would tell.
	clash string
	again bool
}

// step advances a claim until it rests.
func (l claims) step(ctx context.Context, key Key) (time.Duration, error) {
	var known inquiry
	for range maxMoves {
		sight, ok := l.see(key, &known)
		if !ok {
			l.shelves.giveBack(key) // it may have asked after its deletion was seen
			return 0, nil
		}
		d := states.StepClaim(sight.facts)
		if d.Rests() && known.again {
			return 0, apply.ErrRefused
		}
		if d.Rests() {
			return d.After, nil
		}
		if err := l.act(ctx, sight, d, &known); err != nil {
			return 0, err
		}
	}
	return 0, errRestless
}

func (l claims) see(key Key, known *inquiry) (claimSight, bool) {
	c, ok := l.stores.claims.get(key)
	if !ok {
		return claimSight{}, false
	}
	if known.version == "" {
		known.version = c.ResourceVersion
	}
	sight := claimSight{claim: c, sandbox: l.held(c), clash: known.clash}
	f := states.ClaimFacts{
		State:    states.Claim.Parse(string(c.Status.State)),
		Deleting: c.DeletionTimestamp != nil,
		Told:     c.Status.SandboxStatus.Name != "",
		Holds:    holding(sight.sandbox),
		Sandbox:  known.sandbox,
		Own:      len(c.Spec.Env) > 0 || len(c.Spec.VolumeClaimTemplates) > 0,
		Patience: l.opts.Patience,
	}
	pool, hasPool := l.stores.pools.get(poolOf(c))
	f.Pool = presence(hasPool, known.pool)
	if hasPool {
		sight.pool = pool
		template, ok := l.stores.templates.get(templateOf(pool))
		f.Template = presence(ok, known.template)
		sight.fault = l.check(c, template)
		f.Invalid = sight.fault.reason != "" || known.clash != ""
	}
	// Should the pool be gone, nobody knows whether it was strict.
	if f.Strict = !hasPool || strict(pool); f.Strict {
		f.View = l.view(sight, known)
		f.Outdated = sight.sandbox != nil && !l.madeFrom(proofOf(sight).template, sight.sandbox, pool)
	}
	l.consult(&sight, &f)
	sight.facts = f
	sight.status = l.wants(sight)
	sight.facts.Due = !apply.SameClaimStatus(c.Status, sight.status)
	sight.facts.Misnoted = l.opts.Annotate && sight.sandbox != nil && c.Annotations[apply.NoteSandbox] != sight.sandbox.Name
	return sight, true
}

// consult asks the shelf, if the claim needs it, and otherwise ends the claim's
// business there.
func (l claims) consult(sight *claimSight, f *states.ClaimFacts) {
	key := keyOf(sight.claim)
	switch {
	case f.Asks():
		member, offer, since := l.shelves.take(sight.pool, sight.claim, l.now())
		f.Offer = offer
		sight.offered = Key{Namespace: sight.claim.Namespace, Name: member}
		if offer == states.InLine {
			f.Waited = l.now().Sub(since)
		}
	case f.Holds != states.HoldsNone:
		l.shelves.done(key, sight.sandbox.Name)
	default:
		l.shelves.giveBack(key)
	}
}

// held finds the sandbox a claim holds: the one it was told of, if it owns that,
// and otherwise the first by name of those it owns, so that two controllers who
// look at the same sandboxes mean the same one.
func (l claims) held(c *ext.SandboxClaim) *agents.Sandbox {
	owned := l.stores.sandboxes.by(byOwner, uidOf(c))
	owned = slices.DeleteFunc(owned, func(s *agents.Sandbox) bool {
		return s.DeletionTimestamp != nil || retired(s) || disowned(c, s)
	})
	if len(owned) == 0 {
		return nil
	}
	return slices.MinFunc(owned, func(a, b *agents.Sandbox) int { return strings.Compare(a.Name, b.Name) })
}

// disowned reports whether a claim has refused a sandbox, or was told of another.
func disowned(c *ext.SandboxClaim, s *agents.Sandbox) bool {
	return refusedBy(c, s) || c.Status.SandboxStatus.Name != "" && !tellsOf(c, s)
}

// refusedBy reports whether a claim will never be told of a sandbox, because that
// turned out to be outdated.
func refusedBy(c *ext.SandboxClaim, s *agents.Sandbox) bool {
	return slices.Contains(c.Status.RefusedSandboxes, s.UID)
}

func holding(s *agents.Sandbox) states.Holding {
	switch {
	case s == nil:
		return states.HoldsNone
	case s.Labels[apply.LabelLaunch] == apply.Warm:
		return states.HoldsWarm
	case isReady(s):
		return states.HoldsReady
	}
	return states.HoldsStarting
}

// presence joins what the store shows and what the API server said.
func presence(shown bool, said states.Presence) states.Presence {
	if shown {
		return states.Present
	}
	if said == states.Present {
		return states.Hidden // it was there a moment ago, and the store says not any more
	}
	return said
}
