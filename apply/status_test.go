package apply

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

func TestConditionsAreAMapByTheirType(t *testing.T) {
	a := metav1.Condition{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(noon)}
	b := metav1.Condition{Type: "B", Status: "True", LastTransitionTime: metav1.NewTime(noon)}
	later := a
	later.LastTransitionTime = metav1.NewTime(noon.Add(time.Second))
	elsewhere := a
	elsewhere.LastTransitionTime = metav1.NewTime(noon.In(time.FixedZone("x", 3600)))
	for _, row := range []struct {
		name     string
		one, two []metav1.Condition
		same     bool
	}{
		{"the same in another order", []metav1.Condition{a, b}, []metav1.Condition{b, a}, true},
		{"none and nil", []metav1.Condition{}, nil, true},
		{"one more", []metav1.Condition{a}, []metav1.Condition{a, b}, false},
		{"one less", []metav1.Condition{a, b}, []metav1.Condition{a}, false},
		{"another type", []metav1.Condition{a}, []metav1.Condition{b}, false},
		{"another time", []metav1.Condition{a}, []metav1.Condition{later}, false},
		{"the same time in another zone", []metav1.Condition{a}, []metav1.Condition{elsewhere}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(sameStatus(agents.SandboxStatus{Conditions: row.one}, agents.SandboxStatus{Conditions: row.two})).To(Equal(row.same))
			g.Expect(sameStatus(ext.SandboxClaimStatus{Conditions: row.one}, ext.SandboxClaimStatus{Conditions: row.two})).To(Equal(row.same))
			g.Expect(sameStatus(ext.SandboxWarmPoolStatus{Conditions: row.one}, ext.SandboxWarmPoolStatus{Conditions: row.two})).To(Equal(row.same))
		})
	}
}

func TestEveryOtherFieldOfAStatusCounts(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sameStatus(agents.SandboxStatus{NodeName: "a"}, agents.SandboxStatus{NodeName: "b"})).To(BeFalse())
	g.Expect(sameStatus(ext.SandboxClaimStatus{State: ext.StateBound}, ext.SandboxClaimStatus{})).To(BeFalse())
	at, then := metav1.NewTime(noon), metav1.NewTime(noon)
	g.Expect(sameStatus(
		ext.SandboxWarmPoolStatus{Rollout: ext.RolloutStatus{LastProgressTime: &at}},
		ext.SandboxWarmPoolStatus{Rollout: ext.RolloutStatus{LastProgressTime: &then}})).To(BeTrue())
	g.Expect(sameStatus(ext.SandboxWarmPoolStatus{Rollout: ext.RolloutStatus{Phase: "Complete"}}, ext.SandboxWarmPoolStatus{})).To(BeFalse())
}
