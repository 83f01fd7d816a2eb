// Package template steps templates: it keeps the NetworkPolicy of each, without which
// no pod is made from it, and labels each so that its pods can be selected by it.
package template

import (
	"context"
	"errors"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what templates write.
type Writer interface {
	LabelTemplate(context.Context, *ext.SandboxTemplate) (*ext.SandboxTemplate, error)
	CreatePolicy(context.Context, apply.Policy) (*networkingv1.NetworkPolicy, error)
	SyncPolicy(context.Context, apply.Policy, *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error)
	DeletePolicy(context.Context, *networkingv1.NetworkPolicy) error
}

// Templates is the loop of templates.
type Templates struct {
	Stores *store.Stores
	Writer Writer
	Events *loop.Emitter
	// Problems are what keeps policies from being what they should be.
	Problems *memory.PolicyProblems
	// Deletions are the policies on their way out.
	Deletions *memory.PolicyDeletions
	// Wake has a template look again, and WakeSandbox a sandbox. PoolChanged has the
	// pool that uses a template look again, and that pool's claims; WakePoolStatus has
	// that pool's status looked at.
	Wake, WakeSandbox, WakePoolStatus func(view.Key)
	PoolChanged                       func(*ext.SandboxWarmPool)
}

// A Snapshot is what a template's step sees.
type Snapshot struct {
	Facts states.TemplateFacts
	learned
	key      view.Key
	template *ext.SandboxTemplate
	policy   *networkingv1.NetworkPolicy
	wanted   apply.Policy
	// problem is what keeps the policy from being what it should be, and invalid why
	// none can be made from the template's rules.
	problem memory.PolicyProblem
	invalid error
}

// learned is what a step has learned that no store shows.
type learned struct {
	refusal error // of the policy, by the API server
	synced  bool
}

// Observe reads what there is to know of a template and its policy.
func (l *Templates) Observe(key view.Key, known learned) Snapshot {
	s := Snapshot{key: key, learned: known}
	f := &s.Facts
	*f = states.TemplateFacts{Refused: known.refusal != nil, Synced: known.synced}
	t, ok := l.Stores.Templates.Get(key)
	f.Gone = !ok
	var want *apply.Policy
	if ok {
		s.template = t
		f.Terminating, f.Labelled, f.Managed = t.DeletionTimestamp != nil, t.Labels[apply.LabelTemplate] == apply.Hash(t.Name), apply.ManagesPolicy(t)
		if s.wanted, s.invalid = apply.PolicyOf(t); s.invalid == nil {
			want = &s.wanted
		}
		f.Invalid = s.invalid != nil
	}
	if p, ok := l.Stores.Policies.Get(view.PolicyKey(key)); ok {
		s.policy, f.Policy = p, view.Policy(p, key, s.template, want)
	}
	f.Used = f.Gone && l.used(key)
	s.problem = problem(s)
	f.Told = l.Problems.Of(key) == s.problem
	return s
}

// used reports whether anything that was made from a template is still there. A pod
// may be left of a sandbox that is gone.
func (l *Templates) used(key view.Key) bool {
	made := store.MadeFrom(key)
	return len(l.Stores.Sandboxes.By(store.ByTemplateHash, made)) > 0 || len(l.Stores.Pods.By(store.ByTemplateHash, made)) > 0
}

// Decide decides a template's next step.
func (l *Templates) Decide(s Snapshot) states.Decision { return states.StepTemplate(s.Facts) }

// Do carries out the one effect of a decision.
func (l *Templates) Do(ctx context.Context, s Snapshot, d states.Decision) (learned, error) {
	known := s.learned
	var err error
	switch d.Act {
	case states.Create:
		got, wrote := l.Writer.CreatePolicy(ctx, s.wanted)
		known.refusal, err = l.settle(ctx, s, got, wrote)
	case states.Sync:
		known.synced = true
		got, wrote := l.Writer.SyncPolicy(ctx, s.wanted, s.policy)
		known.refusal, err = l.settle(ctx, s, got, wrote)
	case states.Delete:
		err = l.delete(ctx, s)
	case states.Report:
		l.tell(s)
	case states.Label:
		got, wrote := l.Writer.LabelTemplate(ctx, s.template)
		err = l.Stores.Templates.Settle(ctx, s.template, got, wrote)
	case states.Rest, states.Wait, states.Retry:
		err = l.end(ctx, s)
	case states.AskShelf, states.ReadPool, states.ReadTemplate, states.ReadSandbox, states.ReadClaim, states.ReadPod, states.ProveFresh,
		states.Move, states.Annotate, states.Adopt, states.Refuse, states.Retire: // not a template's
	}
	return known, err
}

// settle takes in the answer to a write of the policy, and has those look again who
// wait for it. What the API server refuses is no failure of the step.
func (l *Templates) settle(ctx context.Context, s Snapshot, got *networkingv1.NetworkPolicy, wrote error) (refusal, err error) {
	switch {
	case errors.Is(wrote, apply.ErrRefused):
		return wrote, nil
	case wrote == nil:
		err = l.Stores.Policies.Put(got)
	case errors.Is(wrote, apply.ErrLost), errors.Is(wrote, apply.ErrGone):
		_, err = l.Stores.Policies.Read(ctx, view.PolicyKey(s.key))
	default:
		return nil, wrote
	}
	l.wakeWaiting(s.key)
	return nil, err
}

// delete deletes the policy. Whoever made a template unmanaged is told what that was.
// What needs a policy may come while it is decided that nothing does. So the deletion is
// noted first, for sandboxes to see, and decided once more after that: what came before
// the note is seen here, and what comes after it sees the note. Another leader, or a
// template too new for the watch, is seen by asking the API server what the template is
// now: who uses the policy for a later one writes it first, and then the deletion of it as
// it was before the question fails. A deletion that has failed may still happen, so its
// note stays until end has asked the API server.
func (l *Templates) delete(ctx context.Context, s Snapshot) error {
	l.Deletions.Begin(s.key)
	was := s.policy
	if _, err := l.Stores.Templates.Read(ctx, s.key); err != nil {
		l.Deletions.End(s.key)
		return err
	}
	s = l.Observe(s.key, s.learned)
	d := l.Decide(s)
	if d.Act != states.Delete {
		l.Deletions.End(s.key)
		l.wakeWaiting(s.key)
		return nil
	}
	if err := l.Writer.DeletePolicy(ctx, was); err != nil {
		return l.Stores.Policies.Settle(ctx, was, nil, err)
	}
	l.Stores.Policies.MarkDeleted(was)
	l.Deletions.End(s.key)
	l.emit(s, occasions[d.Reason])
	return nil
}

// tell has everybody know what is wrong with the policy, or that nothing is any more.
func (l *Templates) tell(s Snapshot) {
	l.Problems.Set(s.key, s.problem)
	l.emit(s, occasions[s.problem.Reason])
	l.wakeWaiting(s.key)
	for _, p := range l.Stores.Pools.By(store.ByTemplate, s.key.String()) {
		l.WakePoolStatus(view.KeyOf(p))
	}
}

// end settles what became of a deletion that failed, and forgets a template that is gone.
func (l *Templates) end(ctx context.Context, s Snapshot) error {
	if l.Deletions.Underway(s.key) {
		if _, err := l.Stores.Policies.Read(ctx, view.PolicyKey(s.key)); err != nil {
			return err
		}
		l.Deletions.End(s.key)
		l.wakeWaiting(s.key)
		l.Wake(s.key)
	}
	if s.Facts.Gone {
		l.Problems.Set(s.key, memory.PolicyProblem{})
	}
	return s.refusal
}
