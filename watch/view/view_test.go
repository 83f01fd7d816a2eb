package view

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

func TestPresenceJoinsTheStoreAndTheServer(t *testing.T) {
	g := NewWithT(t)
	for _, said := range states.Presences {
		g.Expect(Presence(true, said)).To(Equal(states.PresenceShown))
	}
	g.Expect(Presence(false, states.PresenceUnseen)).To(Equal(states.PresenceUnseen))
	g.Expect(Presence(false, states.PresenceMissing)).To(Equal(states.PresenceMissing))
	g.Expect(Presence(false, states.PresenceHidden)).To(Equal(states.PresenceHidden))
	g.Expect(Presence(false, states.PresenceShown)).To(Equal(states.PresenceHidden), "it went since it was asked for")
}

func TestAConditionKeepsItsTimeWhileItsStatusStays(t *testing.T) {
	g := NewWithT(t)
	was := Condition(Ready, metav1.ConditionFalse, "a", "")
	was.LastTransitionTime = noon
	later := metav1.NewTime(noon.Add(time.Hour))
	before := []metav1.Condition{was}
	g.Expect(Since(before, Condition(Ready, metav1.ConditionFalse, "b", ""), later).LastTransitionTime).To(Equal(noon))
	g.Expect(Since(before, Condition(Ready, metav1.ConditionTrue, "b", ""), later).LastTransitionTime).To(Equal(later))
	g.Expect(Since(before, Condition(Degraded, metav1.ConditionFalse, "b", ""), later).LastTransitionTime).To(Equal(later))
	g.Expect(Second(noon.Add(time.Millisecond))).To(Equal(noon))
}

func TestAClaimIsSeenByItsStatus(t *testing.T) {
	c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{UID: "u", DeletionTimestamp: &noon}}
	c.Status = ext.SandboxClaimStatus{
		State: ext.StateBound, SandboxStatus: ext.SandboxStatus{Name: "s", UID: "v"}, RefusedSandboxes: []types.UID{"x"},
	}
	NewWithT(t).Expect(Claim(c)).To(Equal(states.ClaimView{
		UID: "u", State: states.Bound, SandboxName: "s", SandboxUID: "v", Refused: []string{"x"}, Terminating: true,
	}))
	NewWithT(t).Expect(Claim(&ext.SandboxClaim{}).State).To(Equal(states.Binding), "one that has no state yet")
}

func TestAPoolsSpecIsReadWithItsDefaults(t *testing.T) {
	g := NewWithT(t)
	p := &ext.SandboxWarmPool{}
	g.Expect(Replicas(p)).To(Equal(1))
	g.Expect(UpdatePolicy(p)).To(Equal(states.UpdatePolicy{}))
	g.Expect(Deadline(p)).To(Equal(10 * time.Minute))

	five, seconds := int32(5), int32(7)
	p.Spec.Replicas = &five
	p.Spec.UpdateStrategy.Type = ext.Recreate
	g.Expect(Replicas(p)).To(Equal(5))
	g.Expect(UpdatePolicy(p)).To(Equal(states.UpdatePolicy{Strategy: states.Recreate}))

	p.Spec.UpdateStrategy.Type = ext.Rolling
	g.Expect(UpdatePolicy(p)).To(Equal(states.UpdatePolicy{Strategy: states.Rolling}))
	p.Spec.UpdateStrategy.RollingUpdate = &ext.RollingUpdate{
		Paused: true, ClaimPolicy: ext.ClaimAny, ProgressDeadlineSeconds: &seconds,
		MaxUnavailable: &intstr.IntOrString{Type: intstr.String, StrVal: "30%"}, MaxSurge: &intstr.IntOrString{IntVal: 3},
	}
	g.Expect(UpdatePolicy(p)).To(Equal(states.UpdatePolicy{
		Strategy: states.Rolling, Paused: true, ClaimsTakeAny: true,
		MaxUnavailable: &states.Share{N: 30, Percent: true}, MaxSurge: &states.Share{N: 3},
	}))
	g.Expect(Deadline(p)).To(Equal(7 * time.Second))
	for _, neither := range []string{"", "many", "3", "x%"} {
		g.Expect(share(&intstr.IntOrString{Type: intstr.String, StrVal: neither})).To(BeNil(), neither)
	}
}

func TestWhatAStatusSaysOfARolloutIsReadWhole(t *testing.T) {
	g := NewWithT(t)
	p := &ext.SandboxWarmPool{}
	g.Expect(Progress(p)).To(Equal(states.Progress{Phase: states.PhaseWarming}), "a pool that was never reported is at the beginning")
	p.Status = ext.SandboxWarmPoolStatus{
		CurrentRevision: "r", UpdatedReadyReplicas: 2,
		Rollout: ext.RolloutStatus{Phase: "RollingOut", CompletedRevision: "q", LastProgressTime: &noon},
	}
	g.Expect(Progress(p)).To(Equal(states.Progress{
		Phase: states.PhaseRollingOut, Revision: "r", UpdatedReady: 2, Since: noon.Time, Arrived: "q",
	}))
}

func TestKeysNeverLeaveTheNamespace(t *testing.T) {
	g := NewWithT(t)
	c := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}
	c.Spec.WarmPoolRef.Name = "p"
	g.Expect(PoolOf(c)).To(Equal(Key{Namespace: "a", Name: "p"}))
	p := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}
	p.Spec.TemplateRef.Name = "t"
	g.Expect(TemplateOf(p)).To(Equal(Key{Namespace: "a", Name: "t"}))
	b := running()
	b.Namespace = "a"
	g.Expect(OwnerKey(b)).To(Equal(Key{Namespace: "a", Name: "s"}))
	g.Expect(OwnerName(b)).To(Equal("Sandbox s"))
	g.Expect(OwnerName(c)).To(Equal("nobody"))
}

func TestAPodsAddressesAreListed(t *testing.T) {
	NewWithT(t).Expect(PodIPs(running())).To(Equal([]string{"10.0.0.1"}))
	NewWithT(t).Expect(PodIPs(running(noIPs))).To(BeEmpty())
}

func TestAPoolsOwnGraceComesFirst(t *testing.T) {
	g := NewWithT(t)
	p := &ext.SandboxWarmPool{}
	g.Expect(Grace(p, time.Hour)).To(Equal(time.Hour))
	seconds := int32(30)
	p.Spec.ReadinessGracePeriodSeconds = &seconds
	g.Expect(Grace(p, time.Hour)).To(Equal(30 * time.Second))
	g.Expect(Grace(p, time.Second)).To(Equal(30 * time.Second))
}
