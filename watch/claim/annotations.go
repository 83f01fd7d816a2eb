package claim

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// Annotations is the loop of the annotations that others look for on a claim. They
// trail behind everything that somebody waits for: the claim's own loop never
// stands in their queue.
type Annotations struct {
	Stores *store.Stores
	Writer interface {
		AnnotateClaim(context.Context, *ext.SandboxClaim, apply.ClaimAnnotations) (*ext.SandboxClaim, error)
	}
	Metrics *Metrics
	Now     func() time.Time
}

// An AnnotationSnapshot is what a step of a claim's annotations sees.
type AnnotationSnapshot struct {
	Facts   states.AnnotationFacts
	claim   *ext.SandboxClaim
	sandbox *agents.Sandbox
}

// Observe reads a claim and the sandbox that it holds.
func (l *Annotations) Observe(key view.Key, _ struct{}) AnnotationSnapshot {
	c, ok := l.Stores.Claims.Get(key)
	if !ok || c.DeletionTimestamp != nil {
		return AnnotationSnapshot{Facts: states.AnnotationFacts{Gone: true}}
	}
	s := AnnotationSnapshot{claim: c, sandbox: held(l.Stores, c)}
	s.Facts.Gone = s.sandbox == nil
	s.Facts.Misannotated = s.sandbox != nil && misannotated(c, s.sandbox)
	return s
}

// Decide decides the next step of a claim's annotations.
func (l *Annotations) Decide(s AnnotationSnapshot) states.Decision {
	return states.StepAnnotations(s.Facts)
}

// Do writes the annotations.
func (l *Annotations) Do(ctx context.Context, s AnnotationSnapshot, d states.Decision) (none struct{}, err error) {
	switch d.Act {
	case states.Annotate:
		ctx = apply.While(ctx, l.Stores.Claims.Still(s.claim))
		seen := metav1.NewMicroTime(l.Metrics.FirstObserved(s.claim, l.Now()))
		got, err := l.Writer.AnnotateClaim(ctx, s.claim, apply.ClaimAnnotations{
			Sandbox: s.sandbox.Name, Startup: ext.StartupStatus{ControllerObservedTime: &seen},
		})
		err = l.Stores.Claims.Settle(ctx, s.claim, got, err)
		if !l.Stores.Claims.Has(s.claim) {
			l.Metrics.Forget(s.claim) // it ended meanwhile
		}
		return none, err
	case states.Rest, states.Wait, states.Retry:
		if s.claim != nil && s.claim.Status.State == ext.StateBound {
			l.Metrics.Forget(s.claim) // nothing measures it any more
		}
	case states.AskShelf, states.ReadPool, states.ReadTemplate, states.ReadSandbox, states.ReadClaim, states.ReadPod, states.ProveFresh,
		states.Move, states.Report, states.Adopt, states.Refuse, states.Create, states.Retire, states.Delete, states.Sync, states.Label:
	}
	return none, nil
}

// misannotated reports whether the annotations of a claim that was told that it is
// Ready are not what they should be. One that was not has not all to say yet, and
// they are written at once.
func misannotated(c *ext.SandboxClaim, s *agents.Sandbox) bool {
	ready := c.Status.Startup.FirstReadyTime != nil || meta.IsStatusConditionTrue(c.Status.Conditions, view.Ready)
	return c.Status.State == ext.StateBound && ready && apply.ClaimMisannotated(c, s.Name)
}
