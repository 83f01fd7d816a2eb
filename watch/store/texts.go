package store

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// The members of a pool say the same in many short texts: the keys of their labels and
// most of the values, their owner, their conditions. Each such text is kept once: with
// 10,000 members the process had 228 MiB before, and 203 then.

// unlike are the labels and annotations whose values no two objects have in common: to
// look for another one costs more than it saves.
var unlike = []string{apply.LabelNameHash, apply.LabelClaimUID, apply.AnnotationPodName, apply.AnnotationTrace}

// shareTexts lets an object that is kept share texts with others.
func shareTexts(o metav1.Object) {
	o.SetNamespace(text(o.GetNamespace()))
	o.SetLabels(texts(o.GetLabels()))
	o.SetAnnotations(texts(o.GetAnnotations()))
	owners := o.GetOwnerReferences()
	for i := range owners {
		share(&owners[i].APIVersion, &owners[i].Kind)
		if owners[i].Kind != "Sandbox" { // which owns one of a kind
			share(&owners[i].Name)
			share(&owners[i].UID)
		}
	}
	switch o := o.(type) {
	case *agents.Sandbox:
		share(&o.APIVersion, &o.Kind, &o.Status.NodeName)
		for i := range o.Status.Conditions {
			c := &o.Status.Conditions[i]
			share(&c.Type, &c.Reason, &c.Message)
			share(&c.Status)
		}
	case *corev1.Pod:
		share(&o.Spec.NodeName)
		share(&o.Status.Phase)
		for i := range o.Status.Conditions {
			c := &o.Status.Conditions[i]
			share(&c.Reason, &c.Message)
			share(&c.Type)
			share(&c.Status)
		}
	}
}

// text is a text that says the same, and may be that of another object.
func text(s string) string { return unique.Make(s).Value() }

func share[T ~string](all ...*T) {
	for _, t := range all {
		*t = unique.Make(*t).Value()
	}
}

// texts is a map that says the same. It is a new one, for a key is kept as it was first
// put in.
func texts(all map[string]string) map[string]string {
	if len(all) == 0 {
		return all
	}
	shared := make(map[string]string, len(all))
	for k, v := range all {
		if !slices.Contains(unlike, k) {
			v = text(v)
		}
		shared[text(k)] = v
	}
	return shared
}
