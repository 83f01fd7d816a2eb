package world

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// A Change is one object as one event showed it.
type Change struct {
	Object metav1.Object
	// Deleted: this is how it was when it was deleted.
	Deleted bool
	// Version is the revision at which it happened: one order over all kinds.
	Version uint64
	// At is when the watch showed it.
	At time.Time
	// Gap: the watch was broken before. This is how the object was when that was over,
	// and what it went through meanwhile is not known.
	Gap bool
}

func newChange(o metav1.Object, deleted bool) (Change, error) {
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return Change{Object: o, Deleted: deleted, Version: version, At: time.Now()}, err
}

// KindOf names an object's kind as the metrics do.
func KindOf(o metav1.Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "pod"
	case *agents.Sandbox:
		return "sandbox"
	case *ext.SandboxClaim:
		return "claim"
	case *ext.SandboxWarmPool:
		return "pool"
	case *ext.SandboxTemplate:
		return "template"
	case *networkingv1.NetworkPolicy:
		return "policy"
	}
	panic(errors.New("a kind that is not watched"))
}

// String is what matters of a change, in a line.
func (c Change) String() string {
	var b strings.Builder
	o := c.Object
	if c.Version > 0 {
		fmt.Fprintf(&b, "%6d ", c.Version)
	}
	fmt.Fprintf(&b, "%-7s %s", KindOf(o), o.GetName())
	if c.Deleted {
		b.WriteString(" is deleted;")
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		fmt.Fprintf(&b, " of %s %s", owner.Kind, owner.Name)
	}
	if o.GetDeletionTimestamp() != nil {
		b.WriteString(" terminating")
	}
	switch o := o.(type) {
	case *corev1.Pod:
		fmt.Fprintf(&b, " state=%q by=%s %s ready=%t", o.Labels[apply.LabelState], stateManagers(o), o.Status.Phase, IsReady(o))
	case *agents.Sandbox:
		fmt.Fprintf(&b, " retired=%q node=%q ips=%v %s", o.Annotations[apply.AnnotationRetired], o.Status.NodeName, o.Status.PodIPs, readyText(o.Status.Conditions))
	case *ext.SandboxClaim:
		fmt.Fprintf(&b, " state=%q by=%s sandbox=%q %s", o.Status.State, stateManagers(o), o.Status.SandboxStatus.Name, readyText(o.Status.Conditions))
	case *ext.SandboxWarmPool:
		fmt.Fprintf(&b, " wants=%d has=%d ready=%d stale=%d", *o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.StaleReplicas)
	}
	return b.String()
}

func stateManagers(o metav1.Object) string { return strings.Join(StateManagers(o), ",") }

// IsReady reports whether a pod's Ready condition is true.
func IsReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func readyText(all []metav1.Condition) string {
	c := meta.FindStatusCondition(all, "Ready")
	if c == nil {
		return "-"
	}
	return fmt.Sprintf("ready=%s/%s %q", c.Status, c.Reason, c.Message)
}

// Text is a history, a change a line.
func Text(history []Change) string {
	var b strings.Builder
	for _, c := range history {
		fmt.Fprintf(&b, "    %s\n", c)
	}
	return b.String()
}

// textOf is the history of one object.
func textOf(history []Change, uid types.UID) string {
	return Text(slices.DeleteFunc(slices.Clone(history), func(c Change) bool { return c.Object.GetUID() != uid }))
}
