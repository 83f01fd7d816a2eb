package kit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Admin is the administrator's client of everything that is not Kiln's.
func (w *World) Admin() kubernetes.Interface { return server.core }

// Context lives as long as the world.
func (w *World) Context() context.Context { return w.ctx }

// Pod is a pod that nobody's controller made.
func Pod(name string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}}}
	p.Name = name
	return p
}
