package watch

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// How long the not-ready status of a new pod is kept back. A launch that goes well
// is over by then and costs one status write. Nobody waits for a pool member's
// status: until a claim has it, its pod's word and the pool's counts say how it is.
const (
	launchHush = 5 * time.Second
	memberHush = time.Minute
)

// podsFree is how many pods of one sandbox may vanish before the next one waits.
const podsFree = 2

// sandboxes steps sandboxes, each with its pod.
type sandboxes struct{ *world }

// sandboxSight is what one look at a sandbox shows.
type sandboxSight struct {
	facts   states.SandboxFacts
	sandbox *agents.Sandbox
	claim   *ext.SandboxClaim // whose it is, if a claim's
	pods    podSight
	status  agents.SandboxStatus // what it should say
}

// asked is what a step learnt from the API server itself; it holds for that
// step only.
type asked struct {
	claimGone bool
	refusal   string
}

// step advances a sandbox until it rests.
func (l sandboxes) step(ctx context.Context, key Key) (time.Duration, error) {
	defer l.shelves.sync(key)
	var known asked
	for range maxMoves {
		sight, ok := l.see(key, known)
		if !ok {
			return 0, nil // deleted: nothing is left to decide
		}
		d := states.StepSandbox(sight.facts)
		if d.Rests() {
			return d.After, l.refusalOf(known)
		}
		if err := l.act(ctx, sight, d, &known); err != nil {
			return 0, err
		}
		l.woke(sight.sandbox)
	}
	return 0, errRestless
}

// refusalOf makes a refused pod an error once its status is told, so that it is
// tried again, ever more rarely.
func (l sandboxes) refusalOf(known asked) error {
	if known.refusal == "" {
		return nil
	}
	return apply.ErrRefused
}

// woke wakes the owner of a sandbox that a step has just changed.
func (l sandboxes) woke(s *agents.Sandbox) {
	l.shelves.sync(keyOf(s))
	l.wakeOwner(s)
}

func (l sandboxes) see(key Key, known asked) (sandboxSight, bool) {
	s, ok := l.stores.sandboxes.get(key)
	if !ok {
		return sandboxSight{}, false
	}
	sight := sandboxSight{sandbox: s, pods: l.pods(s, known)}
	var holder states.Holder
	holder, sight.claim = l.holder(s, known)
	sight.status = sandboxStatus(s, sight.pods, metav1.NewTime(l.now().Truncate(time.Second)))
	sight.facts = states.SandboxFacts{
		Deleting: s.DeletionTimestamp != nil || l.orphaned(s),
		Retired:  retired(s),
		Halted:   sight.pods.refusal != "" || s.Spec.OperatingMode == agents.Suspended,
		Holder:   holder,
		Warm:     s.Labels[apply.LabelLaunch] == apply.Warm,
		Told:     sight.claim != nil && tellsOf(sight.claim, s) && sight.claim.Status.State == ext.StateBound,
		Pod:      sight.pods.view,
		Word:     word(sight.pods.pod),
		Wait:     l.troubles.wait(s.UID, podsFree, l.now()),
		// A ghost is being collected: nobody reads its status any more.
		Due: holder != states.ByGhost && !apply.SameSandboxStatus(s.Status, sight.status),
	}
	if !telling(s, sight.pods) {
		sight.facts.Hush = hush(holder) - l.now().Sub(s.CreationTimestamp.Time)
	}
	return sight, true
}

func hush(holder states.Holder) time.Duration {
	if holder == states.ByPool {
		return memberHush
	}
	return launchHush
}

// holder says whose a sandbox is.
func (l sandboxes) holder(s *agents.Sandbox, known asked) (states.Holder, *ext.SandboxClaim) {
	owner := metav1.GetControllerOfNoCopy(s)
	switch {
	case isPool(owner):
		return states.ByPool, nil
	case !isClaim(owner):
		return states.ByNobody, nil
	}
	claim, ok := l.stores.claims.get(ownerKey(s, owner))
	switch {
	case !ok && (known.claimGone || l.stores.claims.reached(s.ResourceVersion)):
		return states.ByGhost, nil
	case !ok:
		return states.ByUnseen, nil
	case claim.UID != owner.UID, claim.DeletionTimestamp != nil:
		return states.ByGhost, nil
	case neverTold(claim, s):
		return states.ByTwin, claim
	}
	return states.ByClaim, claim
}

// neverTold reports whether a claim will never be told of a sandbox that Kiln
// gave it: it has refused it, was told of another one, or holds nothing any more.
func neverTold(c *ext.SandboxClaim, s *agents.Sandbox) bool {
	return (disowned(c, s) || c.Status.State == ext.StateStale) && s.Labels[apply.LabelClaim] == string(c.UID)
}

// orphaned reports whether a member's pool is gone or going: the garbage
// collector takes the member too.
func (l sandboxes) orphaned(s *agents.Sandbox) bool {
	owner := metav1.GetControllerOfNoCopy(s)
	if !isPool(owner) {
		return false
	}
	pool, ok := l.stores.pools.get(ownerKey(s, owner))
	if !ok {
		return l.stores.pools.reached(s.ResourceVersion)
	}
	return pool.UID != owner.UID || pool.DeletionTimestamp != nil
}

// pods looks at the pods of a sandbox.
func (l sandboxes) pods(s *agents.Sandbox, known asked) podSight {
	owned := l.stores.pods.by(byOwner, uidOf(s))
	sight := podSight{refusal: known.refusal}
	if len(owned) == 0 && sight.refusal == "" {
		sight.refusal = unservable(s)
	}
	switch {
	case len(owned) > 1:
		sight.view, sight.many = states.PodMany, len(owned)
		return sight
	case len(owned) == 1:
		sight.pod = owned[0]
	default:
		pod, ok := l.stores.pods.get(keyOf(s))
		if !ok {
			return sight
		}
		sight.pod = pod
		if !controls(s.UID, pod) {
			sight.view = states.PodForeign
			return sight
		}
		sight.refusal = known.refusal // its own after all: the watch has just shown it
	}
	switch {
	case sight.pod.DeletionTimestamp != nil:
		sight.view = states.PodLeaving
	case podReady(sight.pod):
		sight.view = states.PodReady
	default:
		sight.view = states.PodStarting
	}
	return sight
}
