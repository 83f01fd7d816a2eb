package world

import (
	"bytes"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kiln-sandbox/kiln/apply"
)

// Ours begins the name of every field manager of Kiln.
const Ours = "kiln-"

// Fields is what one entry of an object's managedFields says its manager owns.
func Fields(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil {
		return set, nil
	}
	return set, set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes()))
}

// OwnersOf lists the managers that own a field of an object.
func OwnersOf(o metav1.Object, field ...any) []string {
	var managers []string
	for _, e := range o.GetManagedFields() {
		set, err := Fields(e)
		if err == nil && set.Has(fieldpath.MakePathOrDie(field...)) {
			managers = append(managers, e.Manager)
		}
	}
	slices.Sort(managers)
	return managers
}

// StateManagers lists the managers that own an object's state.
func StateManagers(o metav1.Object) []string {
	if _, ok := o.(*corev1.Pod); ok {
		return OwnersOf(o, "metadata", "labels", apply.LabelState)
	}
	return OwnersOf(o, "status", "state")
}

// byHand reports whether what these managers own was put there, or taken away, by
// somebody who is not Kiln.
func byHand(managers []string) bool {
	return !slices.ContainsFunc(managers, func(m string) bool { return strings.HasPrefix(m, Ours) })
}
