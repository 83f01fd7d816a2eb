// Package claim steps claims: it finds each a sandbox, tells it of that, and says
// why it has none.
package claim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what claims write.
type Writer interface {
	Adopt(context.Context, apply.Claimed) (*agents.Sandbox, error)
	CreateOwn(context.Context, *ext.SandboxClaim, apply.Blueprint) (*agents.Sandbox, error)
	RemakeOwn(context.Context, apply.Claimed, apply.Blueprint) (*agents.Sandbox, error)
	SyncClaimed(context.Context, apply.Claimed) (*agents.Sandbox, error)
	DeleteOf(context.Context, apply.Claimed) error
	DeleteClaim(context.Context, *ext.SandboxClaim, ext.ShutdownPolicy) error
	MoveClaim(context.Context, *ext.SandboxClaim, states.Decision, ext.SandboxClaimStatus) (*ext.SandboxClaim, error)
	MovePod(context.Context, apply.PodMove) (*corev1.Pod, error)
	AnnotateClaim(context.Context, *ext.SandboxClaim, apply.ClaimAnnotations) (*ext.SandboxClaim, error)
	RefuseSandbox(context.Context, *ext.SandboxClaim, *agents.Sandbox) (*ext.SandboxClaim, error)
	ReportClaim(context.Context, *ext.SandboxClaim, ext.SandboxClaimStatus) (*ext.SandboxClaim, error)
}

// Claims is the loop of claims.
type Claims struct {
	Stores  *store.Stores
	Shelves *shelf.Shelves
	// Refusals are the members that the API server does not let claims have.
	Refusals *memory.Refusals
	Writer   Writer
	Events   *loop.Emitter
	Metrics  *Metrics
	// Log receives the first refusal of each cause; nil discards it.
	Log *slog.Logger
	// Prove asks the API server how new the stores are for a claim of a version.
	Prove func(ctx context.Context, version string, of Subject) (states.Freshness, error)
	// Wake, WakeSandbox and WakePool have those look again; Annotate has a claim
	// annotated, nil if annotations are off.
	Wake, WakeSandbox, WakePool, Annotate func(view.Key)
	// WakeSandboxAfter has a sandbox look again after a time.
	WakeSandboxAfter func(view.Key, time.Duration)
	// Leads reports whether this process works, and does not only watch. Quiet reports
	// whether at most one claim is being served.
	Leads, Quiet func() bool
	// MaxWait is the longest a claim waits in a line that stands still before it gets a
	// sandbox of its own.
	MaxWait time.Duration
	Now     func() time.Time
	// domains are those whose labels a claim may put on its pod: see AllowLabels.
	domains atomic.Pointer[[]string]
}

// AllowLabels says of which domains claims may put labels on their pods, from now on.
// The claims with labels look again: what was refused may be allowed by now, and the
// other way round.
func (l *Claims) AllowLabels(domains []string) {
	l.domains.Store(&domains)
	for _, c := range l.Stores.Claims.All() {
		if len(c.Spec.AdditionalPodMetadata.Labels) > 0 {
			l.Wake(view.KeyOf(c))
		}
	}
}

// labelDomains are the domains that are allowed now.
func (l *Claims) labelDomains() []string {
	if all := l.domains.Load(); all != nil {
		return *all
	}
	return nil
}

// A Snapshot is what a claim's step sees.
type Snapshot struct {
	Facts states.ClaimFacts
	learned
	key   view.Key
	claim *ext.SandboxClaim
	pool  *ext.SandboxWarmPool
	// template is the one that its pool has now.
	template *ext.SandboxTemplate
	sandbox  *agents.Sandbox // what it holds
	pod      *corev1.Pod     // that sandbox's pod, as long as it is to be handed over
	problem  view.Problem
	// stranger says whose the sandbox is that it would take with it, if not its own.
	stranger string
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
	// failure is why its own sandbox could not be made, or its pod not be handed over.
	failure    view.Problem
	reported   states.Reason
	annotating bool
	// startup is what the claim was annotated with beside the hand-over: its status says
	// the same.
	startup ext.StartupStatus
	// mends is how often the labels of its sandbox were mended.
	mends int
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
	s := Snapshot{key: key, learned: known, claim: c, sandbox: held(l.Stores, c)}
	f := &s.Facts
	*f = states.ClaimFacts{
		State: apply.ClaimState(c), Terminating: c.DeletionTimestamp != nil,
		Named: c.Status.SandboxStatus.Name != "", Sandbox: known.sandboxIs,
		NeedsOwn: len(c.Spec.Env) > 0 || len(c.Spec.VolumeClaimTemplates) > 0,
		Offer:    known.offer.Offer, MaxWait: l.MaxWait, Reported: known.reported,
	}
	if f.Offer == states.OfferInLine {
		f.Waited, f.Still = l.Now().Sub(known.offer.Since), l.Now().Sub(known.offer.Still)
	}
	pool, hasPool := l.Stores.Pools.Get(view.PoolOf(c))
	f.Pool = view.Presence(hasPool, known.poolIs)
	if hasPool {
		s.pool = pool
		template, ok := l.Stores.Templates.Get(view.TemplateOf(pool))
		f.Template = view.Presence(ok, known.templateIs)
		s.template = template
	}
	// Should the pool be gone, nobody knows whether it was strict.
	if f.Strict = !hasPool || view.UpdatePolicy(pool).Strict(); f.Strict {
		f.Freshness = l.freshness(s)
	}
	l.expiry(&s)
	s.problem = l.problem(s)
	f.Problem = s.problem.Reason
	if s.sandbox != nil {
		l.hold(&s)
	}
	return s
}

// hold reads what there is to know of the sandbox that a claim holds.
func (l *Claims) hold(s *Snapshot) {
	f, b := &s.Facts, s.sandbox
	f.Holds = states.HoldingOf(view.Sandbox(b))
	f.Outdated = f.Strict && !l.Stores.Current(b, s.subject().Template, s.pool)
	f.Mislabelled = mends(f.State, *s) && s.mends < apply.MostSyncs && apply.ClaimedDiffers(l.adding(*s))
	f.Misannotated = l.Annotate != nil && !s.annotating && misannotated(s.claim, b)
	if f.Holds == states.HoldsWarm && f.State == states.Binding {
		l.handover(s)
	}
	f.Refused = f.State == states.Warming && l.remakes(*s)
}

// handover reads how far the hand-over of a warm sandbox's pod has come. The claim is
// annotated beside it only if it will be Ready: one of the annotations says when.
func (l *Claims) handover(s *Snapshot) {
	f, b := &s.Facts, view.Sandbox(s.sandbox)
	is, state := states.PodNone, states.Pod.Initial
	if pod, ok := l.Stores.Pods.Get(view.KeyOf(s.sandbox)); ok {
		s.pod, is, state = pod, view.Pod(pod, s.sandbox), view.StateOf(pod)
	}
	if f.Handover = states.HandoverOf(b, is, state); f.Handover != states.HandoverDue {
		return
	}
	f.Quiet = l.Quiet()
	f.Misannotated = f.Quiet && b.Ready && l.Annotate != nil && apply.ClaimMisannotated(s.claim, s.sandbox.Name)
}

// mends reports whether a claim looks after the labels of its sandbox: when it is bound,
// and while its own sandbox is starting. One that a hand gave it stays as it is until
// the claim was told of it: the label that says whose it is makes it count as taken.
func mends(is states.State, s Snapshot) bool {
	return is == states.Bound || is == states.Warming && s.sandbox.Labels[apply.LabelClaimUID] == string(s.claim.UID)
}

// remakes reports whether a claim's own sandbox, whose pod is refused and never was,
// would be made otherwise now.
func (l *Claims) remakes(s Snapshot) bool {
	if !l.unmade(s.sandbox) {
		return false
	}
	blueprint, err := l.blueprint(s)
	return err == nil && blueprint.Revision != s.sandbox.Labels[apply.LabelRevision]
}

// unmade reports whether a claim's own sandbox has no pod because that is refused.
func (l *Claims) unmade(s *agents.Sandbox) bool {
	b := view.Sandbox(s)
	_, ran := l.Stores.Pods.Get(view.KeyOf(s))
	return !b.Warm && b.PodRefused && !ran
}

// blueprint is what a claim's own sandbox is made from.
func (l *Claims) blueprint(s Snapshot) (apply.Blueprint, error) {
	if s.template == nil {
		return apply.Blueprint{}, errors.New("there is no template")
	}
	b, err := l.Stores.Blueprint(s.template)
	if err != nil {
		return b, err
	}
	return b.For(s.claim, l.labelDomains())
}

// claimed is the sandbox of a claim with the claim.
func (s Snapshot) claimed() apply.Claimed {
	return apply.Claimed{Sandbox: s.sandbox, Claim: s.claim, Template: s.subject().Template.Name, Now: s.template, Seize: s.mends > 0}
}

// adding is the sandbox of a claim with what the claim adds to its pod. What it may not
// add its status says.
func (l *Claims) adding(s Snapshot) apply.Claimed {
	of := s.claimed()
	if s.template != nil {
		of.Says, _ = l.Stores.Blueprint(s.template) // one that cannot be read says nothing
	}
	of.Added, _ = apply.ClaimMetadataOf(of, l.labelDomains())
	return of
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

// Older orders claims as they are served: by the time they were made, which the API
// keeps in seconds. Within a second one whose status was written goes first, for a
// leader has seen it already, and then the one of the lower resource version: of
// claims that were never written since, that is the order in which they were made.
func Older(a, b *ext.SandboxClaim) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	told := func(c *ext.SandboxClaim) bool { return c.Status.State != "" || len(c.Status.Conditions) > 0 }
	switch {
	case told(a) && !told(b):
		return -1
	case told(b) && !told(a):
		return 1
	}
	c, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		c = 0
	}
	return cmp.Or(c, cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
