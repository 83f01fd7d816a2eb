package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// The labels the demo reads.
const (
	labelState  = "agents.x-k8s.io/state"
	labelLaunch = "agents.x-k8s.io/launch-type"
)

// A world is what the watches have shown, by name.
type world struct {
	pods      map[string]*corev1.Pod
	claims    map[string]*extensions.SandboxClaim
	sandboxes map[string]*agents.Sandbox
	pools     map[string]*extensions.SandboxWarmPool
}

// podsIn counts the pods that carry a word.
func (w *world) podsIn(word states.State) int {
	n := 0
	for _, p := range w.pods {
		if states.State(p.Labels[labelState]) == word {
			n++
		}
	}
	return n
}

// full returns nil if a pool says it is full and as many pods are ready.
func (w *world) full(name string) error {
	p := w.pools[name]
	if p == nil || p.Spec.Replicas == nil {
		return fmt.Errorf("there is no pool %s", name)
	}
	want, ready := *p.Spec.Replicas, w.podsIn(states.Ready)
	if p.Status.ReadyReplicas != want || p.Status.Replicas != want || ready != int(want) {
		return fmt.Errorf("pool %s says %d of %d are ready, %d pods are, and there should be %d",
			name, p.Status.ReadyReplicas, p.Status.Replicas, ready, want)
	}
	return nil
}

// bound reports whether a claim says that it has its sandbox.
func (w *world) bound(name string) bool {
	c := w.claims[name]
	return c != nil && c.Status.State == extensions.StateBound &&
		meta.IsStatusConditionTrue(c.Status.Conditions, "Ready")
}

// heldBy returns the sandbox of a claim if all that must hold of the two does:
// the claim is bound and names it, it belongs to that very claim, it was
// launched that way, and its pod says bound.
func (w *world) heldBy(claim, launch string) (*agents.Sandbox, error) {
	c := w.claims[claim]
	if !w.bound(claim) {
		return nil, fmt.Errorf("claim %s is not bound", claim)
	}
	s := w.sandboxes[c.Status.SandboxStatus.Name]
	if s == nil {
		return nil, fmt.Errorf("claim %s names sandbox %q, which is not there", claim, c.Status.SandboxStatus.Name)
	}
	owner := metav1.GetControllerOf(s)
	pod := w.pods[s.Name]
	switch {
	case owner == nil || owner.UID != c.UID:
		return nil, fmt.Errorf("sandbox %s is not owned by claim %s", s.Name, claim)
	case s.Labels[labelLaunch] != launch:
		return nil, fmt.Errorf("sandbox %s has launch type %q, not %q", s.Name, s.Labels[labelLaunch], launch)
	case pod == nil:
		return nil, fmt.Errorf("sandbox %s has no pod", s.Name)
	case states.State(pod.Labels[labelState]) != states.Bound:
		return nil, fmt.Errorf("pod %s is %q", s.Name, pod.Labels[labelState])
	}
	return s, nil
}

// held returns nil if the claims hold sandboxes, each one of its own.
func (w *world) held(launch string, claims ...string) error {
	holder := map[string]string{}
	for _, claim := range claims {
		s, err := w.heldBy(claim, launch)
		if err != nil {
			return err
		}
		if other, taken := holder[s.Name]; taken {
			return fmt.Errorf("claims %s and %s both hold sandbox %s", other, claim, s.Name)
		}
		holder[s.Name] = claim
	}
	return nil
}

// absent returns nil if nothing of a claim and its sandbox is left.
func (w *world) absent(claim, sandbox string) error {
	switch {
	case w.claims[claim] != nil:
		return fmt.Errorf("claim %s is still there", claim)
	case w.sandboxes[sandbox] != nil:
		return fmt.Errorf("sandbox %s is still there", sandbox)
	case w.pods[sandbox] != nil:
		return fmt.Errorf("pod %s is still there", sandbox)
	}
	return nil
}

// String says briefly how things stand, for the text of a failure.
func (w *world) String() string {
	var all []string
	for name, p := range w.pods {
		all = append(all, fmt.Sprintf("pod/%s %s (%s)", name, p.Labels[labelState], p.Status.Phase))
	}
	for name, c := range w.claims {
		all = append(all, fmt.Sprintf("claim/%s %s%s", name, c.Status.State, reasons(c.Status.Conditions)))
	}
	for name, p := range w.pools {
		all = append(all, fmt.Sprintf("pool/%s %d of %d ready%s", name,
			p.Status.ReadyReplicas, p.Status.Replicas, reasons(p.Status.Conditions)))
	}
	slices.Sort(all)
	return strings.Join(all, "\n  ")
}

func reasons(conditions []metav1.Condition) string {
	var b strings.Builder
	for _, c := range conditions {
		fmt.Fprintf(&b, ", %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}
