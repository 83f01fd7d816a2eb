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

// podConfig is the pod of a sandbox at its birth. From then on its word belongs
// to kiln-state.
func podConfig(s *agents.Sandbox) (*corev1ac.PodApplyConfiguration, error) {
	spec, err := PodSpec(s)
	if err != nil {
		return nil, err
	}
	meta := s.Spec.PodTemplate.ObjectMeta
	labels := free(meta.Labels)
	labels[LabelNameHash] = Hash(s.Name)
	labels[LabelState] = string(states.Pod.Initial)
	if template, ok := s.Labels[LabelTemplate]; ok && Born(s) {
		labels[LabelTemplate] = template
	}
	notes := free(meta.Annotations)
	if member(s) { // what outlives its sandbox still says whose member it was
		notes[NotePool] = string(metav1.GetControllerOfNoCopy(s).UID)
	}
	return corev1ac.Pod(s.Name, s.Namespace).WithResourceVersion(unborn).
		WithLabels(labels).WithAnnotations(notes).
		WithOwnerReferences(ownerRef(agents.SchemeGroupVersion.String(), "Sandbox", s.Name, s.UID)).
		WithSpec(spec), nil
}

// free is the part of a user's labels or annotations that reaches pods.
func free(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	if kept == nil {
		kept = map[string]string{}
	}
	maps.DeleteFunc(kept, func(k, _ string) bool { return Reserved(k) })
	return kept
}

// wordConfig is what kiln-state holds of a pod in a state: the word, and what
// goes with it. What a state does not name is removed with the move.
func (a *Applier) wordConfig(p *corev1.Pod, s *agents.Sandbox, claim *ext.SandboxClaim, to states.State) *corev1ac.PodApplyConfiguration {
	c := corev1ac.Pod(p.Name, p.Namespace).WithUID(p.UID)
	labels := map[string]string{LabelState: string(to)}
	notes := map[string]string{}
	if by, ok := s.Labels[LabelCreatedBy]; ok && Born(s) {
		labels[LabelCreatedBy] = Creator(by)
	}
	switch to {
	case states.Warming, states.Ready:
		labels[LabelPool] = s.Labels[LabelPool]
		if _, own := s.Spec.PodTemplate.ObjectMeta.Annotations[NoteEvict]; a.opts.SafeToEvict && !own {
			notes[NoteEvict] = "true"
		}
	case states.Binding, states.Stale: // a stale one that was a claim's still says so: it is no pool's
		maps.Copy(labels, only(s.Labels, []string{LabelClaim}))
	case states.Bound:
		if claim != nil {
			labels[LabelClaim] = string(claim.UID)
			added(labels, claim.Spec.AdditionalPodMetadata.Labels, s.Spec.PodTemplate.ObjectMeta.Labels)
			added(notes, claim.Spec.AdditionalPodMetadata.Annotations, s.Spec.PodTemplate.ObjectMeta.Annotations)
		}
	}
	return c.WithLabels(labels).WithAnnotations(notes)
}

// added copies what a claim adds to its pod. What the template says already
// belongs to kiln-pod, which gave birth to it, and is left alone.
func added(to, more, template map[string]string) {
	for k, v := range more {
		if _, has := template[k]; !has {
			to[k] = v
		}
	}
}

// member reports whether a sandbox belongs to a pool.
func member(s *agents.Sandbox) bool {
	owner := metav1.GetControllerOfNoCopy(s)
	return owner != nil && owner.Kind == poolKind
}

// CreatePod makes the pod of a sandbox. ErrLost says that the name is taken.
func (a *Applier) CreatePod(ctx context.Context, s *agents.Sandbox) (*corev1.Pod, error) {
	config, err := podConfig(s)
	if err != nil {
		return nil, err
	}
	w := Write{Lane: WarmLane, Manager: states.Birth, Kind: "pod", Edge: "create", Key: keyOf(s)}
	return send(ctx, a, w, func(ctx context.Context, c clients) (*corev1.Pod, error) {
		return c.core.CoreV1().Pods(s.Namespace).Apply(ctx, config, w.options())
	})
}

// MovePod writes an edge of a pod, as it was seen. The claim is the one its
// sandbox belongs to, or nil.
func (a *Applier) MovePod(ctx context.Context, p *corev1.Pod, s *agents.Sandbox, claim *ext.SandboxClaim, event states.Event) (*corev1.Pod, error) {
	edge, err := states.Pod.Judge(states.Pod.Parse(p.Labels[LabelState]), event)
	if err != nil {
		return nil, err
	}
	config := a.wordConfig(p, s, claim, edge.To)
	if edge.Event != states.Retired || !member(s) {
		config.WithResourceVersion(p.ResourceVersion)
	}
	lane := BackgroundLane
	if edge.Event == states.Warmed || edge.Event == states.Cooled {
		lane = WarmLane
	}
	w := Write{
		Lane: lane, Manager: edge.By, Kind: "pod", Edge: string(event), Key: keyOf(p),
		From: edge.From, To: edge.To,
	}
	return send(ctx, a, w, func(ctx context.Context, c clients) (*corev1.Pod, error) {
		return c.core.CoreV1().Pods(p.Namespace).Apply(ctx, config, w.options())
	})
}
