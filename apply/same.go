package apply

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// An apply that changes nothing costs the server as much as one that does, so it
// is not sent. Conditions are a map by their type: their order means nothing.

// SameSandboxStatus reports whether two statuses say the same.
func SameSandboxStatus(a, b agents.SandboxStatus) bool {
	a.Conditions, b.Conditions = sorted(a.Conditions), sorted(b.Conditions)
	return equality.Semantic.DeepEqual(a, b)
}

// SameClaimStatus reports whether two statuses say the same.
func SameClaimStatus(a, b ext.SandboxClaimStatus) bool {
	a.Conditions, b.Conditions = sorted(a.Conditions), sorted(b.Conditions)
	return equality.Semantic.DeepEqual(a, b)
}

// SamePoolStatus reports whether two statuses say the same.
func SamePoolStatus(a, b ext.SandboxWarmPoolStatus) bool {
	a.Conditions, b.Conditions = sorted(a.Conditions), sorted(b.Conditions)
	return equality.Semantic.DeepEqual(a, b)
}

func sorted(all []metav1.Condition) []metav1.Condition {
	return slices.SortedFunc(slices.Values(all), func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
}
