package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/json"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// PodSpec decodes a sandbox's pod spec. A field that pods do not have, or one
// that is given twice, is an error that names it: the server keeps the spec as
// the user wrote it, so nobody else would say.
func PodSpec(s *agents.Sandbox) (*corev1ac.PodSpecApplyConfiguration, error) {
	spec := &corev1ac.PodSpecApplyConfiguration{}
	strict, err := json.UnmarshalStrict(s.Spec.PodTemplate.Spec.Raw, spec)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return nil, fmt.Errorf("spec.podTemplate.spec: %w", err)
	}
	return spec, nil
}

// podConfig is a new pod of a sandbox. From its first move on its state belongs to
// kiln-state.
func podConfig(s *agents.Sandbox) (*corev1ac.PodApplyConfiguration, error) {
	spec, err := PodSpec(s)
	if err != nil {
		return nil, err
	}
	meta := s.Spec.PodTemplate.ObjectMeta
	labels := unreserved(meta.Labels)
	labels[LabelNameHash] = Hash(s.Name)
	labels[LabelState] = string(states.Pod.Initial)
	if template, ok := s.Labels[LabelTemplate]; ok && MadeByKiln(s) {
		labels[LabelTemplate] = template
	}
	annotations := unreserved(meta.Annotations)
	if owner := OwnerOf(s); owner.Kind == states.OwnerPool { // a pod that outlives its sandbox still says whose member it was
		annotations[AnnotationPoolUID] = owner.UID
	}
	return corev1ac.Pod(s.Name, s.Namespace).WithResourceVersion(mustNotExist).
		WithLabels(labels).WithAnnotations(annotations).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(s, gvkOf(s)))).
		WithSpec(spec), nil
}

// unreserved is the part of a user's labels or annotations that reaches pods.
func unreserved(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	if kept == nil {
		kept = map[string]string{}
	}
	maps.DeleteFunc(kept, func(k, _ string) bool { return reserved(k) })
	return kept
}

// A PodMove is a move of a pod, as it was seen.
type PodMove struct {
	Pod     *corev1.Pod
	Sandbox *agents.Sandbox
	// Claim is the one that the sandbox belongs to, or nil.
	Claim *ext.SandboxClaim
	// Decision names the event and the reason.
	Decision states.Decision
}

// stateConfig is what kiln-state holds of a pod in a state: the state, and what
// goes with it. It does not depend on the state that the pod comes from: what the
// new one does not name is removed with the move.
func (a *Applier) stateConfig(m PodMove, to states.State) *corev1ac.PodApplyConfiguration {
	labels := map[string]string{LabelState: string(to)}
	annotations := map[string]string{}
	if by, ok := m.Sandbox.Labels[LabelCreatedBy]; ok && MadeByKiln(m.Sandbox) {
		labels[LabelCreatedBy] = Creator(by)
	}
	template := m.Sandbox.Spec.PodTemplate.ObjectMeta
	switch to {
	case states.Warming, states.Ready:
		labels[LabelPool] = m.Sandbox.Labels[LabelPool]
		if _, own := template.Annotations[AnnotationSafeToEvict]; a.opts.SafeToEvict && !own {
			annotations[AnnotationSafeToEvict] = "true"
		}
	case states.Binding, states.Stale: // a stale one that was a claim's still says so: it is no pool's
		maps.Copy(labels, only(m.Sandbox.Labels, []string{LabelClaimUID}))
	case states.Bound:
		if m.Claim != nil {
			labels[LabelClaimUID] = string(m.Claim.UID)
			addMissing(labels, m.Claim.Spec.AdditionalPodMetadata.Labels, template.Labels)
			addMissing(annotations, m.Claim.Spec.AdditionalPodMetadata.Annotations, template.Annotations)
		}
	}
	return corev1ac.Pod(m.Pod.Name, m.Pod.Namespace).WithUID(m.Pod.UID).WithLabels(labels).WithAnnotations(annotations)
}

// addMissing copies what a claim adds to its pod. What the template says already
// belongs to kiln-pod, which created the pod, and is left alone.
func addMissing(to, more, template map[string]string) {
	for k, v := range more {
		if _, has := template[k]; !has {
			to[k] = v
		}
	}
}

// moveConfig is a move of a pod with its guard. Only retired, of a pool member,
// has no resourceVersion: every state that such a pod can be in allows that move,
// and the scheduler and the kubelet write a pod that is starting at the same time.
func (a *Applier) moveConfig(m PodMove, edge states.Edge) *corev1ac.PodApplyConfiguration {
	config := a.stateConfig(m, edge.To)
	if edge.Event != states.EventRetired || OwnerOf(m.Sandbox).Kind != states.OwnerPool {
		config.WithResourceVersion(m.Pod.ResourceVersion)
	}
	return config
}

// CreatePod makes the pod of a sandbox. ErrLost says that the name is taken.
func (a *Applier) CreatePod(ctx context.Context, s *agents.Sandbox) (*corev1.Pod, error) {
	config, err := podConfig(s)
	if err != nil {
		return nil, fmt.Errorf("pod %s: create: %w", keyOf(s), err)
	}
	w := write{class: launchClass(s), manager: states.PodManager, kind: "pod", edge: "create", key: keyOf(s)}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Pod, error) {
		return c.Core.CoreV1().Pods(s.Namespace).Apply(ctx, config, w.options())
	})
}

// MovePod writes the edge that a decision makes of a pod.
func (a *Applier) MovePod(ctx context.Context, m PodMove) (*corev1.Pod, error) {
	move, err := judge(states.Pod, m.Pod.Labels[LabelState], m.Decision)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyOf(m.Pod), err)
	}
	config := a.moveConfig(m, move.edge)
	w := write{
		class: podClass[move.edge.Event], manager: move.edge.By,
		kind: "pod", edge: string(move.edge.Event), key: keyOf(m.Pod), move: move,
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Pod, error) {
		return c.Core.CoreV1().Pods(m.Pod.Namespace).Apply(ctx, config, w.options())
	})
}
