// Package sandbox steps sandboxes, each with what it owns: one key for the sandbox,
// its pod, its Service and its claims for storage.
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
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Writer is what sandboxes write.
type Writer interface {
	CreatePod(context.Context, *agents.Sandbox) (*corev1.Pod, error)
	AdoptPod(context.Context, *agents.Sandbox, *corev1.Pod) (*corev1.Pod, error)
	MovePod(context.Context, apply.PodMove) (*corev1.Pod, error)
	SyncPod(context.Context, apply.PodMove, states.State) (*corev1.Pod, error)
	DeletePod(context.Context, *agents.Sandbox, *corev1.Pod) (*corev1.Pod, error)
	CreateService(context.Context, *agents.Sandbox) (*corev1.Service, error)
	SyncService(context.Context, *agents.Sandbox, *corev1.Service) (*corev1.Service, error)
	DeleteService(context.Context, *corev1.Service) error
	CreateVolume(context.Context, *agents.Sandbox, agents.PersistentVolumeClaimTemplate) (*corev1.PersistentVolumeClaim, error)
	AdoptVolume(context.Context, *agents.Sandbox, agents.PersistentVolumeClaimTemplate, *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error)
	ReportSandbox(context.Context, *agents.Sandbox, agents.SandboxStatus) (*agents.Sandbox, error)
	Recover(context.Context, *agents.Sandbox, *ext.SandboxWarmPool) (*agents.Sandbox, error)
	Retire(context.Context, *agents.Sandbox, states.Reason) (*agents.Sandbox, error)
	DeleteSandbox(context.Context, *agents.Sandbox) error
}

// Sandboxes is the loop of sandboxes.
type Sandboxes struct {
	Stores      *store.Stores
	Shelves     *shelf.Shelves
	Writer      Writer
	Events      *loop.Emitter
	Churn       *memory.Churn
	InFlight    *memory.PodsInFlight
	Retirements *memory.Retirements
	Refusals    *memory.Refusals
	News        *memory.News
	Problems    *memory.PolicyProblems
	Deletions   *memory.PolicyDeletions
	// Drifted reports whether the metadata of a pod that is to be in a state is not as
	// it should be; nil means that it always is.
	Drifted func(apply.PodMove, states.State) bool
	// Wake, WakeClaim, WakePool and WakeTemplate have those look again.
	Wake, WakeClaim, WakePool, WakeTemplate func(view.Key)
	// ClusterDomain ends the names that Services have in DNS.
	ClusterDomain string
	Now           func() time.Time
}

// podsFree is how many pods of one sandbox may vanish before the next one waits.
const podsFree = 2

// longestSleep is the longest time after which a sandbox that will end is looked at
// again. A clock that is put forward is noticed by then.
const longestSleep = time.Hour

// A Snapshot is what a sandbox's step sees.
type Snapshot struct {
	Facts states.SandboxFacts
	learned
	key     view.Key
	sandbox *agents.Sandbox
	claim   *ext.SandboxClaim // whose it is, if a claim's
	pods    pods
	pool    *ext.SandboxWarmPool // that may take an orphan in
	volumes volumes
	service service
	// problem is why something cannot be made as things stand.
	problem view.Problem
}

// learned is what a step has learned that no store shows.
type learned struct {
	claimIs states.Presence
	// poolRead: the API server was asked for the pool of an orphan.
	poolRead bool
	// podRead: it was asked for the pod of a suspended sandbox.
	podRead bool
	loan    states.Loan
	// refusal is why something could not be written, in the words of who refused it.
	refusal refusal
	// syncs is how often this step has brought something in line.
	syncs    int
	reported states.Reason
}

// Observe reads what there is to know of a sandbox and what it owns.
func (l *Sandboxes) Observe(key view.Key, known learned) Snapshot {
	b, ok := l.Stores.Sandboxes.Get(key)
	if !ok {
		return Snapshot{key: key, Facts: states.SandboxFacts{Gone: true}}
	}
	over, in := l.expiry(b)
	s := Snapshot{key: key, learned: known, sandbox: b, pods: l.pods(b, over)}
	v := view.Sandbox(b)
	claim, is := l.claim(b, v, known)
	s.claim = claim
	s.Facts = states.SandboxFacts{
		Terminating: v.Terminating || l.poolEnds(b, v), Retired: v.Retired, Retire: l.Retirements.Reason(b.UID),
		Suspended: view.Suspends(b), Ephemeral: b.Spec.ShutdownPolicy == agents.ShutdownDelete,
		Retryable: known.refusal.retry, Warm: v.Warm, Loan: known.loan, Pod: s.pods.is, State: states.Pod.Initial,
		Reported: known.reported, PodDelay: l.Churn.Wait(b.UID, podsFree, l.Now()),
	}
	f := &s.Facts
	f.PodUnseen = f.Suspended && s.pods.is == states.PodNone && !known.podRead && !saysPodEnded(b)
	if s.pods.pod != nil {
		f.State = view.StateOf(s.pods.pod)
	}
	s.pool, f.Orphan = l.orphan(b, v, f.State, known)
	var c states.ClaimView
	if claim != nil {
		c = view.Claim(claim)
		f.ClaimKnows, f.Refused, f.Retired = c.Knows(v), c.Refuses(v), v.Retired && !c.Keeps(v)
		f.ClaimEnds = c.Terminating && c.UID == v.Owner.UID
		f.ClaimUntold, f.Own = f.ClaimEnds && c.State == states.Binding, v.OwnOf(c)
	}
	f.Holder = states.HolderOf(v, c, is)
	f.Expired, f.ExpiresIn = over, in
	l.owned(&s)
	l.protect(&s)
	p := s.podFacts()
	f.Readiness = states.ReadinessOf(p)
	reported := meta.FindStatusCondition(b.Status.Conditions, view.Ready) != nil
	f.StatusDelay = states.StatusDelayOf(p, f.Holder, reported, l.Now().Sub(s.launched()))
	return s
}

// launched is when the launch of a sandbox began: when its pod was made, if there is one.
// While thousands are to be made, one may wait for its pod for minutes.
func (s Snapshot) launched() time.Time {
	if pod := s.pods.pod; pod != nil {
		return pod.CreationTimestamp.Time
	}
	return s.sandbox.CreationTimestamp.Time
}

// expiry says whether a sandbox's time is over, and if not, when to look for that.
func (l *Sandboxes) expiry(b *agents.Sandbox) (over bool, in time.Duration) {
	switch end := b.Spec.ShutdownTime; {
	case view.Expired(b):
		return true, 0
	case end == nil:
		return false, 0
	case !l.Now().Before(end.Time):
		return true, 0
	default:
		return false, min(end.Sub(l.Now()), longestSleep)
	}
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
