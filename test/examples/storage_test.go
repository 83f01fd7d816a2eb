package examples

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

// provision stands for a storage provisioner: it binds every claim for a volume to a
// new volume, until ctx ends.
func provision(ctx context.Context, core typed.CoreV1Interface) error {
	claims, err := core.PersistentVolumeClaims("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	go func() {
		for e := range claims.ResultChan() {
			claim, ok := e.Object.(*corev1.PersistentVolumeClaim)
			if !ok || e.Type == watch.Deleted || claim.Spec.VolumeName != "" {
				continue
			}
			if err := bind(ctx, core, claim); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "storage:", err)
			}
		}
	}()
	return nil
}

func bind(ctx context.Context, core typed.CoreV1Interface, claim *corev1.PersistentVolumeClaim) error {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
	volume, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	volume.Status.Phase = corev1.VolumeBound
	if _, err := core.PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return err
	}
	bound := claim.DeepCopy()
	bound.Spec.VolumeName = volume.Name
	metav1.SetMetaDataAnnotation(&bound.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	if bound, err = core.PersistentVolumeClaims(claim.Namespace).Update(ctx, bound, metav1.UpdateOptions{}); err != nil {
		return err
	}
	bound.Status.Phase, bound.Status.AccessModes, bound.Status.Capacity = corev1.ClaimBound, volume.Spec.AccessModes, volume.Spec.Capacity
	_, err = core.PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, bound, metav1.UpdateOptions{})
	return err
}
