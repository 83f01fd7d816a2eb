package apply

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/states"
)

// VolumeName is the name of a sandbox's claim for storage.
func VolumeName(s *agents.Sandbox, v agents.PersistentVolumeClaimTemplate) string {
	return v.ObjectMeta.Name + "-" + s.Name
}

// VolumeSpec decodes a claim for storage, as strictly as PodSpec does a pod.
func VolumeSpec(v agents.PersistentVolumeClaimTemplate) (*corev1ac.PersistentVolumeClaimSpecApplyConfiguration, error) {
	var spec *corev1ac.PersistentVolumeClaimSpecApplyConfiguration
	path := fmt.Sprintf("spec.volumeClaimTemplates[%s].spec", v.ObjectMeta.Name)
	err := decode(path, v.Spec.Raw, func() any {
		spec = &corev1ac.PersistentVolumeClaimSpecApplyConfiguration{}
		return spec
	})
	if err != nil {
		return nil, err
	}
	return spec, nil
}

// volumeConfig is a new claim for storage of a sandbox. Nothing of it ever changes.
func volumeConfig(s *agents.Sandbox, v agents.PersistentVolumeClaimTemplate) (*corev1ac.PersistentVolumeClaimApplyConfiguration, error) {
	spec, err := VolumeSpec(v)
	if err != nil {
		return nil, err
	}
	labels := unreserved(v.ObjectMeta.Labels)
	maps.Copy(labels, map[string]string{LabelNameHash: Hash(s.Name)})
	return corev1ac.PersistentVolumeClaim(VolumeName(s, v), s.Namespace).WithResourceVersion(mustNotExist).
		WithLabels(labels).WithAnnotations(unreserved(v.ObjectMeta.Annotations)).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(s, gvkOf(s)))).WithSpec(spec), nil
}

// adoptedVolumeConfig makes a sandbox the owner of storage that is nobody's. Of what
// kiln-pod has made itself it says everything again: what it leaves out is removed.
func adoptedVolumeConfig(s *agents.Sandbox, v agents.PersistentVolumeClaimTemplate, is *corev1.PersistentVolumeClaim) (*corev1ac.PersistentVolumeClaimApplyConfiguration, error) {
	config, err := volumeConfig(s, v)
	if err != nil {
		return nil, err
	}
	if !managedBy(is, states.PodManager) {
		config = corev1ac.PersistentVolumeClaim(is.Name, is.Namespace).WithLabels(map[string]string{LabelNameHash: Hash(s.Name)}).
			WithOwnerReferences(ownerRef(*metav1.NewControllerRef(s, gvkOf(s))))
	}
	return config.WithUID(is.UID).WithResourceVersion(is.ResourceVersion), nil
}

// CreateVolume makes a claim for storage. ErrLost says that the name is taken.
func (a *Applier) CreateVolume(ctx context.Context, s *agents.Sandbox, v agents.PersistentVolumeClaimTemplate) (*corev1.PersistentVolumeClaim, error) {
	config, err := volumeConfig(s, v)
	return a.applyVolume(ctx, s, applied{"create", err}, config)
}

// AdoptVolume makes a sandbox the owner of a claim for storage that is nobody's, as
// it was read with all its metadata.
func (a *Applier) AdoptVolume(ctx context.Context, s *agents.Sandbox, v agents.PersistentVolumeClaimTemplate, is *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	config, err := adoptedVolumeConfig(s, v, is)
	return a.applyVolume(ctx, s, applied{"adopt", err}, config)
}

// An applied is the verb of an apply, and why it could not be built, if so.
type applied struct {
	verb string
	err  error
}

func (a *Applier) applyVolume(ctx context.Context, s *agents.Sandbox, how applied, config *corev1ac.PersistentVolumeClaimApplyConfiguration) (*corev1.PersistentVolumeClaim, error) {
	w := write{urgency: a.launch(s, classTake), manager: states.PodManager, kind: "persistentvolumeclaim", edge: how.verb, key: keyOf(s), pool: PoolOf(s)}
	if how.err != nil {
		return nil, w.wrap(how.err)
	}
	w.key.Name = *config.GetName()
	if seen := *config.ResourceVersion; seen != mustNotExist {
		w.seen = seen
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.PersistentVolumeClaim, error) {
		return c.Core.CoreV1().PersistentVolumeClaims(s.Namespace).Apply(ctx, config, w.options())
	})
}
