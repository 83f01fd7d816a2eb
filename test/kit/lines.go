package kit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// String is what matters of a change, in a line.
func (c Change) String() string {
	var b strings.Builder
	o := c.Object
	if c.Version > 0 {
		fmt.Fprintf(&b, "%6d ", c.Version)
	}
	fmt.Fprintf(&b, "%-7s %s", KindOf(o), o.GetName())
	if c.Gone {
		b.WriteString(" is gone;")
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		fmt.Fprintf(&b, " of %s %s", owner.Kind, owner.Name)
	}
	if o.GetDeletionTimestamp() != nil {
		b.WriteString(" leaving")
	}
	switch o := o.(type) {
	case *corev1.Pod:
		fmt.Fprintf(&b, " word=%q by=%s %s ready=%t", o.Labels[apply.LabelState], writersOf(o), o.Status.Phase, podIsReady(o))
	case *agents.Sandbox:
		fmt.Fprintf(&b, " retired=%q node=%q ips=%v %s", o.Annotations[apply.NoteRetired], o.Status.NodeName, o.Status.PodIPs, readyWords(o.Status.Conditions))
	case *ext.SandboxClaim:
		fmt.Fprintf(&b, " word=%q by=%s sandbox=%q %s", o.Status.State, writersOf(o), o.Status.SandboxStatus.Name, readyWords(o.Status.Conditions))
	case *ext.SandboxWarmPool:
		fmt.Fprintf(&b, " wants=%d has=%d ready=%d stale=%d", *o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.StaleReplicas)
	}
	return b.String()
}

func readyWords(all []metav1.Condition) string {
	c := meta.FindStatusCondition(all, "Ready")
	if c == nil {
		return "-"
	}
	return fmt.Sprintf("ready=%s/%s %q", c.Status, c.Reason, c.Message)
}

// changes are a history, a change a line.
func changes(all []Change) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "    %s\n", c)
	}
	return b.String()
}

// life is the history of one object.
func life(all []Change, uid types.UID) string {
	return changes(slices.DeleteFunc(slices.Clone(all), func(c Change) bool { return c.Object.GetUID() != uid }))
}
