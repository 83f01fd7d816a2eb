package kit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// Admin is the administrator's client of everything that is not Kiln's.
func (w *World) Admin() kubernetes.Interface { return server.core }

// Context lives as long as the world.
func (w *World) Context() context.Context { return w.ctx }

// Sandbox is a sandbox as the recorder last saw it; an empty one if it did not.
func (w *World) Sandbox(name string) *agents.Sandbox {
	one := &agents.Sandbox{}
	w.Look(func(s *Sight) {
		if seen, ok := s.Sandboxes[name]; ok {
			one = seen
		}
	})
	return one
}

// Told is the name of the sandbox that a claim was told of.
func (w *World) Told(claim string) (name string) {
	w.Look(func(s *Sight) { name = s.SandboxOf(claim) })
	return name
}

// Pod is a pod that nobody's controller made.
func Pod(name string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}}}
	p.Name = name
	return p
}
