package apply

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// sameStatus reports whether two statuses say the same. An apply that changes
// nothing costs the server as much as one that does, so it is not sent.
func sameStatus[S agents.SandboxStatus | ext.SandboxClaimStatus | ext.SandboxWarmPoolStatus](a, b S) bool {
	return statusEqualities.DeepEqual(a, b)
}

// statusEqualities are the usual ones of the API, and conditions as a map.
var statusEqualities = withConditions(equality.Semantic.Copy())

func withConditions(e conversion.Equalities) conversion.Equalities {
	if err := e.AddFunc(sameConditions); err != nil {
		panic(err) // the function has the form that is asked for
	}
	return e
}

// sameConditions compares conditions as a map by their type, as the API keeps
// them: their order means nothing.
func sameConditions(a, b []metav1.Condition) bool {
	byType := map[string]metav1.Condition{}
	for _, c := range a {
		byType[c.Type] = c
	}
	for _, c := range b {
		if is, ok := byType[c.Type]; !ok || !equality.Semantic.DeepEqual(is, c) {
			return false
		}
	}
	return len(a) == len(b)
}

func conditions(all []metav1.Condition) []*metav1ac.ConditionApplyConfiguration {
	var out []*metav1ac.ConditionApplyConfiguration
	for _, c := range all {
		out = append(out, metav1ac.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
			WithMessage(c.Message).WithObservedGeneration(c.ObservedGeneration).WithLastTransitionTime(c.LastTransitionTime))
	}
	return out
}
