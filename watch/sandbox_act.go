package watch

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

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
		why := states.Surplus
		if sight.claim != nil && refusedBy(sight.claim, s) {
			why = states.Outdated
		}
		got, err := l.apply.Retire(ctx, s, why)
		return l.settleSandbox(ctx, s, got, err)
	case states.Delete:
		return l.deleteSandbox(ctx, s)
	case states.Check:
		p, err := ask(ctx, l.stores.claims, l.reads.kiln.Claims(s.Namespace), ownerKey(s, metav1.GetControllerOfNoCopy(s)))
		known.claimGone = p == states.Missing
		return err
	case states.Rest, states.Note, states.Adopt, states.Refuse: // not a sandbox's
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
	l.births.begin(s)
	defer l.wakeOwner(s) // a pool counts it, should the sandbox be no more
	defer l.births.end(s)
	if !l.exists(keyOf(s), s.UID) {
		return nil // it ended before its pool could know that a pod comes
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
