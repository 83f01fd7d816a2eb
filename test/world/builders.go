package world

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// podSpec is the smallest pod there is.
const podSpec = `{"containers":[{"name":"main","image":"image"}]}`

// Template is a template named t.
func Template(name string) *ext.SandboxTemplate {
	return &ext.SandboxTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       ext.SandboxTemplateSpec{PodTemplate: agents.PodTemplate{Spec: raw(podSpec)}},
	}
}

// Pool is a pool of a size, made from the template named t.
func Pool(name string, replicas int32) *ext.SandboxWarmPool {
	return &ext.SandboxWarmPool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       ext.SandboxWarmPoolSpec{Replicas: &replicas, TemplateRef: ext.SandboxTemplateRef{Name: "t"}},
	}
}

// Claim is a claim on a pool, as changed by with.
func Claim(name, pool string, with ...func(*ext.SandboxClaim)) *ext.SandboxClaim {
	c := &ext.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       ext.SandboxClaimSpec{WarmPoolRef: ext.WarmPoolRef{Name: pool}},
	}
	for _, change := range with {
		change(c)
	}
	return c
}

// WithLabel has a claim add a label to its pod.
func WithLabel(key, value string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) {
		put(&c.Spec.AdditionalPodMetadata.Labels, key, value)
	}
}

// WithAnnotation has a claim add an annotation to its pod.
func WithAnnotation(key, value string) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) {
		put(&c.Spec.AdditionalPodMetadata.Annotations, key, value)
	}
}

func put(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// Sandbox is a sandbox as a user makes it.
func Sandbox(name string) *agents.Sandbox {
	return &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       agents.SandboxSpec{PodTemplate: agents.PodTemplate{Spec: raw(podSpec)}},
	}
}

// Pod is a pod that no controller made.
func Pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}

func raw(json string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(json)} }
