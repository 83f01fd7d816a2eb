// Package claim steps claims: it finds each a sandbox, tells it of that, and says
// why it has none.
package claim

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what claims write.
type Writer interface {
	Adopt(context.Context, *agents.Sandbox, *ext.SandboxClaim) (*agents.Sandbox, error)
	CreateOwn(context.Context, *ext.SandboxClaim, apply.Blueprint) (*agents.Sandbox, error)
	MoveClaim(context.Context, *ext.SandboxClaim, states.Decision, ext.SandboxClaimStatus) (*ext.SandboxClaim, error)
	RefuseSandbox(context.Context, *ext.SandboxClaim, *agents.Sandbox) (*ext.SandboxClaim, error)
	ReportClaim(context.Context, *ext.SandboxClaim, ext.SandboxClaimStatus) (*ext.SandboxClaim, error)
}

// Claims is the loop of claims.
type Claims struct {
	Stores  *store.Stores
	Shelves *shelf.Shelves
	Writer  Writer
	Events  *loop.Emitter
	Metrics *Metrics
	// Prove asks the API server how new the stores are for a claim of a version.
	Prove func(ctx context.Context, version string, of Subject) (states.Freshness, error)
	// Wake, WakeSandbox and WakePool have those look again; Annotate has a claim
	// annotated, nil if annotations are off.
	Wake, WakeSandbox, WakePool, Annotate func(view.Key)
	// MaxWait is the longest a claim waits in line before it gets a sandbox of its
	// own.
	MaxWait time.Duration
	// LabelDomains are the domains whose labels a claim may put on its pod.
	LabelDomains []string
	Now          func() time.Time
}

// A Snapshot is what a claim's step sees.
type Snapshot struct {
	Facts states.ClaimFacts
	learned
	key     view.Key
	claim   *ext.SandboxClaim
	pool    *ext.SandboxWarmPool
	sandbox *agents.Sandbox // what it holds
	problem view.Problem
}

// learned is what a step has learned that no store shows. It is about one claim as
// it was at first sight, at version: an annotation of our own makes no claim newer.
type learned struct {
	uid     types.UID
	version string

	sandboxIs, poolIs, templateIs states.Presence
	// freshness is how new the stores are, proven for one subject.
	freshness states.Freshness
	proven    Subject
	offer     shelf.Offer
	// failure is why its own sandbox could not be made.
	failure    view.Problem
	retryable  bool
	reported   states.Reason
	annotating bool
}

// Observe reads what there is to know of a claim.
func (l *Claims) Observe(key view.Key, known learned) Snapshot {
	c, ok := l.Stores.Claims.Get(key)
	if !ok {
		return Snapshot{key: key, learned: known, Facts: states.ClaimFacts{Gone: true}}
	}
	if known.uid != c.UID {
		known = learned{uid: c.UID, version: c.ResourceVersion}
	}
	s := Snapshot{key: key, learned: known, claim: c, sandbox: held(l.Stores, c), problem: known.failure}
	f := &s.Facts
	*f = states.ClaimFacts{
		State: states.Claim.Parse(string(c.Status.State)), Terminating: c.DeletionTimestamp != nil,
		Named: c.Status.SandboxStatus.Name != "", Sandbox: known.sandboxIs,
		NeedsOwn: len(c.Spec.Env) > 0 || len(c.Spec.VolumeClaimTemplates) > 0,
		Offer:    known.offer.Offer, MaxWait: l.MaxWait, Reported: known.reported,
	}
	if f.Offer == states.OfferInLine {
		f.Waited = l.Now().Sub(known.offer.Since)
	}
	pool, hasPool := l.Stores.Pools.Get(view.PoolOf(c))
	f.Pool = view.Presence(hasPool, known.poolIs)
	if hasPool {
		s.pool = pool
		template, ok := l.Stores.Templates.Get(view.TemplateOf(pool))
		f.Template = view.Presence(ok, known.templateIs)
		if p := l.check(c, template); p.Reason != "" {
			s.problem = p
		}
	}
	f.Problem, f.Retryable = s.problem.Reason, known.retryable
	// Should the pool be gone, nobody knows whether it was strict.
	if f.Strict = !hasPool || view.UpdatePolicy(pool).Strict(); f.Strict {
		f.Freshness = l.freshness(s)
	}
	if s.sandbox != nil {
		f.Holds = states.HoldingOf(view.Sandbox(s.sandbox))
		f.Outdated = f.Strict && !l.Stores.Current(s.sandbox, s.subject().Template, pool)
		f.Misannotated = l.Annotate != nil && !known.annotating && misannotated(c, s.sandbox)
	}
	return s
}

// Decide decides a claim's next step.
func (l *Claims) Decide(s Snapshot) states.Decision { return states.StepClaim(s.Facts) }

// held finds the sandbox that a claim holds, or nil.
func held(stores *store.Stores, c *ext.SandboxClaim) *agents.Sandbox {
	owned := stores.Sandboxes.By(store.ByOwner, store.ID(c))
	all := make([]states.Sandbox, len(owned))
	for i, s := range owned {
		all[i] = view.Sandbox(s)
	}
	if i := view.Claim(c).Held(all); i >= 0 {
		return owned[i]
	}
	return nil
}

// subject is what the freshness of a claim is about: its pool, and the template
// that its sandbox is, or will be, made from. Should the pool be gone, the sandbox
// still says which.
func (s Snapshot) subject() Subject {
	of := Subject{Pool: view.PoolOf(s.claim)}
	switch {
	case s.pool != nil:
		of.Template = view.TemplateOf(s.pool)
	case s.sandbox != nil:
		of.Template = view.Key{Namespace: s.claim.Namespace, Name: s.sandbox.Annotations[apply.AnnotationTemplate]}
	}
	return of
}

// freshness is how new the stores are for a claim. It was proven for one subject:
// should the claim come to need another, that is not proven.
func (l *Claims) freshness(s Snapshot) states.Freshness {
	switch {
	case s.learned.freshness != states.FreshnessUnknown && s.proven == s.subject():
		return s.learned.freshness
	case l.Stores.Pools.Passed(s.version) && l.Stores.Templates.Passed(s.version):
		return states.FreshnessProven
	}
	return states.FreshnessUnknown
}
