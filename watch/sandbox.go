package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// launchHush is how long the not-ready status of a new pod is kept back. A
// launch that goes well is over by then and costs one status write.
const launchHush = 5 * time.Second

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
		// A ghost is being collected: nobody reads its status any more.
		Due: holder != states.ByGhost && !apply.SameSandboxStatus(s.Status, sight.status),
	}
	if !telling(s, sight.pods) {
		born := s.CreationTimestamp.Time
		sight.facts.Hush = launchHush - l.now().Sub(born)
	}
	return sight, true
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
	case claim.Status.SandboxStatus.Name != "" && !tellsOf(claim, s) && s.Labels[apply.LabelClaim] == string(claim.UID):
		return states.ByTwin, nil
	}
	return states.ByClaim, claim
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
		sight.view, sight.pod = states.PodForeign, pod
		return sight
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

// unservable says why no pod can be made from a sandbox as it stands.
func unservable(s *agents.Sandbox) string {
	switch _, err := apply.PodSpec(s); {
	case err != nil:
		return err.Error()
	case len(s.Spec.VolumeClaimTemplates) > 0:
		return "spec.volumeClaimTemplates: this version does not make storage; remove it"
	case s.Spec.Service != nil && *s.Spec.Service:
		return "spec.service: this version does not make Services; remove it"
	}
	return ""
}

// act makes the one write that a decision asks for.
func (l sandboxes) act(ctx context.Context, sight sandboxSight, d states.Decision, known *asked) error {
	s := sight.sandbox
	switch d.Act {
	case states.Create:
		return l.createPod(ctx, s, known)
	case states.Move:
		pod, err := l.apply.MovePod(ctx, sight.pods.pod, s, sight.claim, d.Event)
		return settle(ctx, l.stores.pods, l.reads.core.CoreV1().Pods(s.Namespace), sight.pods.pod, pod, err)
	case states.Report:
		got, err := l.apply.SandboxStatus(ctx, s, sight.status)
		return l.settleSandbox(ctx, s, got, err)
	case states.Retire:
		got, err := l.apply.Retire(ctx, s, states.Surplus)
		return l.settleSandbox(ctx, s, got, err)
	case states.Delete:
		return l.deleteSandbox(ctx, s)
	case states.Check:
		p, err := ask(ctx, l.stores.claims, l.reads.kiln.Claims(s.Namespace), ownerKey(s, metav1.GetControllerOfNoCopy(s)))
		known.claimGone = p == states.Missing
		return err
	case states.Rest, states.Adopt: // not a sandbox's
	}
	return nil
}

// createPod makes the pod. What the server refuses is remembered for this step,
// so that the status says it; the loop's back-off then tries again.
func (l sandboxes) createPod(ctx context.Context, s *agents.Sandbox, known *asked) error {
	if !apply.Born(s) && s.Annotations[apply.NotePod] != s.Name {
		noted, err := l.apply.NotePod(ctx, s)
		if err := l.settleSandbox(ctx, s, noted, err); err != nil {
			return err
		}
	}
	pod, err := l.apply.CreatePod(ctx, s)
	switch {
	case errors.Is(err, apply.ErrRefused):
		known.refusal = apply.Words(err)
		return nil
	case errors.Is(err, apply.ErrLost):
		return l.collide(ctx, s, known)
	case err != nil:
		return err
	}
	return take(l.stores.pods, pod)
}

// collide looks at the pod that has the sandbox's name already: its own, after a
// lost answer, or one that is not to be touched. That one may be outside what
// the informer watches, so no event tells when it goes; the back-off looks again.
func (l sandboxes) collide(ctx context.Context, s *agents.Sandbox, known *asked) error {
	pod, err := l.reads.core.CoreV1().Pods(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // it went in this moment
	case err != nil:
		return err
	case !controls(s.UID, pod):
		known.refusal = fmt.Sprintf("pod %q is owned by %s; delete it, or give the sandbox another name", pod.Name, ownerWords(pod))
	case pod.Labels[apply.LabelNameHash] == "":
		known.refusal = fmt.Sprintf("pod %q has lost its label %s; put it back, or delete the pod", pod.Name, apply.LabelNameHash)
	default:
		return take(l.stores.pods, pod)
	}
	return nil
}

// deleteSandbox deletes a retired sandbox. Should a finalizer keep it, there is
// still nothing left to do about it.
func (l sandboxes) deleteSandbox(ctx context.Context, s *agents.Sandbox) error {
	err := l.apply.DeleteSandbox(ctx, s)
	if err == nil {
		l.stores.sandboxes.bury(s)
		return nil
	}
	return l.settleSandbox(ctx, s, nil, err)
}
