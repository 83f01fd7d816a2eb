package apply

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// PodSpec decodes a sandbox's pod spec, strictly: a server whose schema was slimmer
// may have kept what no pod can have. The error names the field.
func PodSpec(s *agents.Sandbox) (*corev1ac.PodSpecApplyConfiguration, error) {
	var spec *corev1ac.PodSpecApplyConfiguration
	err := decode("spec.podTemplate.spec", s.Spec.PodTemplate.Spec.Raw, func() any {
		spec = &corev1ac.PodSpecApplyConfiguration{}
		return spec
	})
	if err != nil {
		return nil, err
	}
	return spec, nil
}

// startingMember is the value of the pool's label that a member's pod is born with, so
// that no router takes it for somebody's. It is not yet the pool's hash: kiln-state
// could not remove a label whose value kiln-pod has written too, and a value of its own
// makes the label kiln-state's alone with the first move.
const startingMember = "starting"

// podConfig is a new pod of a sandbox. From its first move on its state belongs to
// kiln-state.
func podConfig(s *agents.Sandbox) (*corev1ac.PodApplyConfiguration, error) {
	spec, err := mountedSpec(s)
	if err != nil {
		return nil, err
	}
	labels, annotations := podLabels(s), podAnnotations(s)
	labels[LabelState] = string(states.Pod.Initial)
	if owner := OwnerOf(s); owner.Kind == states.OwnerPool { // a pod that outlives its sandbox still says whose member it was
		annotations[AnnotationPoolUID] = owner.UID
		labels[LabelPool] = startingMember
	}
	return corev1ac.Pod(s.Name, s.Namespace).WithResourceVersion(mustNotExist).
		WithLabels(labels).WithAnnotations(annotations).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(s, gvkOf(s)))).
		WithSpec(spec), nil
}

// mountedSpec is a sandbox's pod spec with its storage. A volume of the same name
// as a claim for storage gives way to that.
func mountedSpec(s *agents.Sandbox) (*corev1ac.PodSpecApplyConfiguration, error) {
	spec, err := PodSpec(s)
	if err != nil {
		return nil, err
	}
	for _, v := range s.Spec.VolumeClaimTemplates {
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(was corev1ac.VolumeApplyConfiguration) bool {
			return was.Name != nil && *was.Name == v.ObjectMeta.Name
		})
		spec.WithVolumes(corev1ac.Volume().WithName(v.ObjectMeta.Name).WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(VolumeName(s, v))))
	}
	return spec, nil
}

// adoptedPodConfig makes a sandbox the owner of a pod that is nobody's. Should
// kiln-pod have made it, as after an orphaning deletion, it also says again what
// kiln-pod owns of it: what a manager leaves out is removed.
func adoptedPodConfig(s *agents.Sandbox, pod *corev1.Pod) (*corev1ac.PodApplyConfiguration, error) {
	config := corev1ac.Pod(pod.Name, pod.Namespace)
	if managedBy(pod, states.PodManager) {
		var err error
		if config, err = podConfig(s); err != nil {
			return nil, err
		}
		delete(config.Labels, LabelState)
		delete(config.Labels, LabelPool)
	}
	return config.WithUID(pod.UID).WithResourceVersion(pod.ResourceVersion).
		WithLabels(map[string]string{LabelNameHash: Hash(s.Name)}).
		WithOwnerReferences(ownerRefOf(config, s)...), nil
}

// ownerRefOf is the reference to a sandbox, if a configuration lacks it.
func ownerRefOf(config *corev1ac.PodApplyConfiguration, s *agents.Sandbox) []*metav1ac.OwnerReferenceApplyConfiguration {
	if len(config.OwnerReferences) > 0 {
		return nil
	}
	return []*metav1ac.OwnerReferenceApplyConfiguration{ownerRef(*metav1.NewControllerRef(s, gvkOf(s)))}
}

// managedBy reports whether a manager has applied something of an object, which was
// read with all its metadata.
func managedBy(o metav1.Object, m states.Manager) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == string(m) && e.Operation == metav1.ManagedFieldsOperationApply
	})
}

// A PodMove is a move of a pod, as it was seen.
type PodMove struct {
	Pod     *corev1.Pod
	Sandbox *agents.Sandbox
	// Claim is the one that the sandbox belongs to, or nil.
	Claim *ext.SandboxClaim
	// Seize: what must not be there was left out once, and somebody else has it there.
	Seize bool
	// Decision names the event and the reason.
	Decision states.Decision
}

// stateConfig is what kiln-state holds of a pod in a state: the state, and what
// goes with it.
func (a *Applier) stateConfig(m PodMove, to states.State) *corev1ac.PodApplyConfiguration {
	is := a.metadata(m, to)
	return corev1ac.Pod(m.Pod.Name, m.Pod.Namespace).WithUID(m.Pod.UID).WithLabels(is.labels).WithAnnotations(is.annotations)
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
	w := write{urgency: a.launch(s, classTake), manager: states.PodManager, kind: "pod", edge: "create", key: keyOf(s), pool: PoolOf(s)}
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
		urgency: a.ofMove(m.Sandbox, move.edge.Event), manager: move.edge.By,
		kind: "pod", edge: string(move.edge.Event), key: keyOf(m.Pod), move: move, pool: PoolOf(m.Sandbox),
	}
	if config.ResourceVersion != nil {
		w.seen = *config.ResourceVersion
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Pod, error) {
		return c.Core.CoreV1().Pods(m.Pod.Namespace).Apply(ctx, config, w.options())
	})
}

// SyncPod brings the metadata of a pod, as it was seen, in line with the state that it
// stays in.
func (a *Applier) SyncPod(ctx context.Context, m PodMove, is states.State) (*corev1.Pod, error) {
	config := a.stateConfig(m, is).WithResourceVersion(m.Pod.ResourceVersion)
	w := write{urgency: urgency{class: classWarm}, manager: states.StateManager, kind: "pod", edge: "sync", key: keyOf(m.Pod), pool: PoolOf(m.Sandbox), seen: m.Pod.ResourceVersion}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Pod, error) {
		return c.Core.CoreV1().Pods(m.Pod.Namespace).Apply(ctx, config, w.options())
	})
}

// AdoptPod makes a sandbox the owner of a pod that is nobody's, as it was read with
// all its metadata.
func (a *Applier) AdoptPod(ctx context.Context, s *agents.Sandbox, pod *corev1.Pod) (*corev1.Pod, error) {
	w := write{urgency: a.launch(s, classTake), manager: states.PodManager, kind: "pod", edge: "adopt", key: keyOf(pod), pool: PoolOf(s), seen: pod.ResourceVersion}
	config, err := adoptedPodConfig(s, pod)
	if err != nil {
		return nil, w.wrap(err)
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Pod, error) {
		return c.Core.CoreV1().Pods(pod.Namespace).Apply(ctx, config, w.options())
	})
}

// DeletePod deletes the pod of a sandbox, as it was seen. It returns the pod as it is
// while the kubelet ends it, or nil if nobody has to end it and it is gone.
func (a *Applier) DeletePod(ctx context.Context, s *agents.Sandbox, pod *corev1.Pod) (*corev1.Pod, error) {
	w := write{urgency: a.launch(s, classTake), manager: states.PodManager, kind: "pod", edge: "delete", key: keyOf(pod), pool: PoolOf(s), seen: pod.ResourceVersion}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Pod, error) {
		options, got := deletion(pod), &corev1.Pod{} // the typed client drops the answer
		err := c.Core.CoreV1().RESTClient().Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Body(&options).Do(ctx).Into(got)
		if err != nil || got.DeletionTimestamp == nil {
			return nil, err
		}
		return got, nil
	})
}
