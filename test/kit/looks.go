package kit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// Pod is a pod as it was last seen.
func (r *Recorder) Pod(name string) (pod *corev1.Pod) {
	r.t.Helper()
	r.Look(func(s *Sight) { pod = s.Pods[name] })
	return there(r, pod, name)
}

// Sandbox is a sandbox as it was last seen.
func (r *Recorder) Sandbox(name string) (sandbox *agents.Sandbox) {
	r.t.Helper()
	r.Look(func(s *Sight) { sandbox = s.Sandboxes[name] })
	return there(r, sandbox, name)
}

// Claim is a claim as it was last seen.
func (r *Recorder) Claim(name string) (claim *ext.SandboxClaim) {
	r.t.Helper()
	r.Look(func(s *Sight) { claim = s.Claims[name] })
	return there(r, claim, name)
}

// Pool is a pool as it was last seen.
func (r *Recorder) Pool(name string) (pool *ext.SandboxWarmPool) {
	r.t.Helper()
	r.Look(func(s *Sight) { pool = s.Pools[name] })
	return there(r, pool, name)
}

func there[T comparable](r *Recorder, o T, name string) T {
	r.t.Helper()
	var none T
	if o == none {
		r.t.Fatalf("there is no %T %s", o, name)
	}
	return o
}

// Members are the members of a pool, by name.
func (r *Recorder) Members(pool string) (names []string) {
	r.Look(func(s *Sight) { names = s.Members(pool) })
	return names
}

// Words are the words an object has had, one after another, as they stood there.
func (r *Recorder) Words(of metav1.Object) (words []string) {
	for _, c := range r.History() {
		if c.Object.GetUID() != of.GetUID() {
			continue
		}
		var word string
		switch o := c.Object.(type) {
		case *corev1.Pod:
			word = o.Labels[apply.LabelState]
		case *ext.SandboxClaim:
			word = string(o.Status.State)
		}
		if len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	return words
}

// EverHeld are the sandboxes, by name, that a claim has ever been the owner of.
func (r *Recorder) EverHeld(claim string) (names []string) {
	uid := r.Claim(claim).UID
	for _, c := range r.History() {
		s, ok := c.Object.(*agents.Sandbox)
		if !ok || slices.Contains(names, s.Name) {
			continue
		}
		if owner := metav1.GetControllerOf(s); owner != nil && owner.UID == uid {
			names = append(names, s.Name)
		}
	}
	return names
}
