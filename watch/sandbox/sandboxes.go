// Package sandbox steps sandboxes, each with its pod: one key for both.
package sandbox

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what sandboxes write.
type Writer interface {
	AnnotatePodName(context.Context, *agents.Sandbox) (*agents.Sandbox, error)
	CreatePod(context.Context, *agents.Sandbox) (*corev1.Pod, error)
	MovePod(context.Context, apply.PodMove) (*corev1.Pod, error)
	ReportSandbox(context.Context, *agents.Sandbox, agents.SandboxStatus) (*agents.Sandbox, error)
	Retire(context.Context, *agents.Sandbox, states.Reason) (*agents.Sandbox, error)
	DeleteSandbox(context.Context, *agents.Sandbox) error
}

// Sandboxes is the loop of sandboxes.
type Sandboxes struct {
	Stores      *store.Stores
	Shelves     *shelf.Shelves
	Writer      Writer
	Churn       *memory.Churn
	InFlight    *memory.PodsInFlight
	Retirements *memory.Retirements
	// Wake, WakeClaim and WakePool have those look again.
	Wake, WakeClaim, WakePool func(view.Key)
	Now                       func() time.Time
}

// podsFree is how many pods of one sandbox may vanish before the next one waits.
const podsFree = 2

// A Snapshot is what a sandbox's step sees.
type Snapshot struct {
	Facts states.SandboxFacts
	learned
	key     view.Key
	sandbox *agents.Sandbox
	claim   *ext.SandboxClaim // whose it is, if a claim's
	pods    pods
}

// learned is what a step has learned that no store shows.
type learned struct {
	claimIs states.Presence
	loan    states.Loan
	// refusal is why its pod could not be made, in the words of who refused it.
	refusal  string
	reported states.Reason
}

// pods are what a step sees of a sandbox's pods.
type pods struct {
	is states.PodView
	// pod is the one pod that the view is about; nil with PodNone and PodMultiple.
	pod   *corev1.Pod
	count int
	facts states.PodFacts
	// problem is why the pod cannot be made.
	problem string
}

// Observe reads what there is to know of a sandbox and its pod.
func (l *Sandboxes) Observe(key view.Key, known learned) Snapshot {
	b, ok := l.Stores.Sandboxes.Get(key)
	if !ok {
		return Snapshot{key: key, Facts: states.SandboxFacts{Gone: true}}
	}
	s := Snapshot{key: key, learned: known, sandbox: b, pods: l.pods(b, known)}
	v := view.Sandbox(b)
	claim, is := l.claim(b, v, known)
	s.claim = claim
	s.Facts = states.SandboxFacts{
		Terminating: v.Terminating || l.poolEnds(b, v), Retired: v.Retired, Retire: l.Retirements.Reason(b.UID),
		Blocked: s.pods.problem != "" || b.Spec.OperatingMode == agents.Suspended, Retryable: known.refusal != "",
		Warm: v.Warm, Loan: known.loan, Pod: s.pods.is, State: states.Pod.Initial,
		Readiness: states.ReadinessOf(s.pods.facts), Reported: known.reported,
		PodDelay: l.Churn.Wait(b.UID, podsFree, l.Now()),
	}
	f := &s.Facts
	if s.pods.pod != nil {
		f.State = view.StateOf(s.pods.pod)
	}
	var c states.ClaimView
	if claim != nil {
		c = view.Claim(claim)
		f.ClaimKnows, f.Refused = c.Knows(v), c.Refuses(v)
	}
	f.Holder = states.HolderOf(v, c, is)
	reported := meta.FindStatusCondition(b.Status.Conditions, view.Ready) != nil
	f.StatusDelay = states.StatusDelayOf(s.pods.facts, f.Holder, reported, l.Now().Sub(b.CreationTimestamp.Time))
	return s
}

// Decide decides a sandbox's next step.
func (l *Sandboxes) Decide(s Snapshot) states.Decision { return states.StepSandbox(s.Facts) }

// claim finds the claim that owns a sandbox, and says what is known of it. What the
// watch does not show although it has passed the sandbox does not exist. Until then a
// claim of the same name and another UID may be the one before.
func (l *Sandboxes) claim(b *agents.Sandbox, v states.Sandbox, known learned) (*ext.SandboxClaim, states.Presence) {
	if v.Owner.Kind != states.OwnerClaim {
		return nil, states.PresenceMissing
	}
	c, ok := l.Stores.Claims.Get(view.OwnerKey(b))
	passed := l.Stores.Claims.Passed(b.ResourceVersion)
	switch {
	case ok && (string(c.UID) == v.Owner.UID || passed || known.claimIs == states.PresenceShown):
		return c, states.PresenceShown
	case passed:
		return nil, states.PresenceMissing
	}
	return nil, view.Presence(false, known.claimIs)
}

// poolEnds reports whether a member's pool is gone or terminating: the garbage
// collector takes the member too.
func (l *Sandboxes) poolEnds(b *agents.Sandbox, v states.Sandbox) bool {
	if v.Owner.Kind != states.OwnerPool {
		return false
	}
	pool, ok := l.Stores.Pools.Get(view.OwnerKey(b))
	if !ok {
		return l.Stores.Pools.Passed(b.ResourceVersion)
	}
	return string(pool.UID) != v.Owner.UID || pool.DeletionTimestamp != nil
}

// pods looks at the pods of a sandbox.
func (l *Sandboxes) pods(b *agents.Sandbox, known learned) pods {
	owned := l.Stores.Pods.By(store.ByOwner, store.ID(b))
	p := pods{count: len(owned), problem: known.refusal}
	switch {
	case len(owned) > 1:
		p.is = states.PodMultiple
	case len(owned) == 1:
		p.pod = owned[0]
	default:
		p.pod, _ = l.Stores.Pods.Get(view.KeyOf(b))
	}
	if p.pod != nil {
		p.is = view.Pod(p.pod, b)
		p.facts = view.PodFacts(p.pod, p.is)
	}
	if p.problem == "" && (p.is == states.PodNone || p.is == states.PodForeign) {
		p.problem = unservable(b)
	}
	p.facts.View, p.facts.Problem = p.is, p.problem != ""
	p.facts.Suspended = b.Spec.OperatingMode == agents.Suspended
	return p
}

// unservable says why no pod can be made from a sandbox as it stands.
func unservable(b *agents.Sandbox) string {
	switch _, err := apply.PodSpec(b); {
	case err != nil:
		return err.Error()
	case len(b.Spec.VolumeClaimTemplates) > 0:
		return "spec.volumeClaimTemplates: this version does not make storage; remove it"
	case b.Spec.Service != nil && *b.Spec.Service:
		return "spec.service: this version does not make Services; remove it"
	}
	return ""
}
