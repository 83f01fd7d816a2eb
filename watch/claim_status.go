package watch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// told is the status that goes with an edge.
func (l claims) told(sight claimSight, event states.Event) ext.SandboxClaimStatus {
	if event != states.ClaimLost {
		return sight.status
	}
	want := ext.SandboxClaimStatus{}
	c := condition(condReady, metav1.ConditionFalse, reasonLost, lostWords(sight.claim))
	return l.with(sight.claim, want, c)
}

func lostWords(c *ext.SandboxClaim) string {
	return fmt.Sprintf("Sandbox %q of this claim is gone, and what was in it is lost; create a new claim to get another", c.Status.SandboxStatus.Name)
}

// wants is the status a claim should have as it stands.
func (l claims) wants(sight claimSight) ext.SandboxClaimStatus {
	c := sight.claim
	want := ext.SandboxClaimStatus{State: ext.State(sight.facts.State)}
	if s := sight.sandbox; s != nil {
		want.SandboxStatus = ext.SandboxStatus{Name: s.Name, UID: s.UID, PodIPs: s.Status.PodIPs}
		if done := meta.FindStatusCondition(s.Status.Conditions, condFinished); done != nil {
			want.Conditions = append(want.Conditions, *done)
		}
		r := meta.FindStatusCondition(s.Status.Conditions, condReady)
		if r == nil {
			return l.with(c, want, condition(condReady, metav1.ConditionFalse, reasonStarting, "Sandbox is not ready"))
		}
		ready := *r
		ready.ObservedGeneration = c.Generation
		want.Conditions = append(want.Conditions, ready)
		return want
	}
	if sight.facts.Told || sight.facts.State != states.Binding {
		return c.Status // it has lost its sandbox, or the watch is behind: an edge will say
	}
	want.RefusedSandboxes = c.Status.RefusedSandboxes
	reason, message := l.waits(sight)
	return l.with(c, want, condition(condReady, metav1.ConditionFalse, reason, message))
}

// waits says why a claim has no sandbox yet.
func (l claims) waits(sight claimSight) (reason, message string) {
	pool := sight.claim.Spec.WarmPoolRef.Name
	switch {
	case sight.facts.Pool == states.Missing:
		return reasonNoPool, fmt.Sprintf("SandboxWarmPool %q not found", pool)
	case sight.fault.reason != "":
		return sight.fault.reason, sight.fault.message
	case sight.clash != "":
		return reasonError, "Error seen: " + sight.clash
	case sight.facts.Template == states.Missing:
		return reasonNoTemplate, fmt.Sprintf("SandboxTemplate %q not found", sight.pool.Spec.TemplateRef.Name)
	}
	return reasonPending, fmt.Sprintf("waiting for a warm sandbox of pool %q; one is starting", pool)
}

// with adds the Ready condition of a claim.
func (l claims) with(c *ext.SandboxClaim, want ext.SandboxClaimStatus, ready metav1.Condition) ext.SandboxClaimStatus {
	ready.ObservedGeneration = c.Generation
	now := metav1.NewTime(l.now().Truncate(time.Second))
	want.Conditions = append(want.Conditions, since(c.Status.Conditions, ready, now))
	return want
}
