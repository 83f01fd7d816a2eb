package claim

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// lifecycle is the one that counts for a claim: its own, or what its pool gave it.
func lifecycle(c *ext.SandboxClaim) *ext.Lifecycle {
	if c.Spec.Lifecycle != nil {
		return c.Spec.Lifecycle
	}
	return c.Status.Lifecycle
}

// deletes reports whether a claim goes when its time is over.
func deletes(how *ext.Lifecycle) bool {
	return how != nil && (how.ShutdownPolicy == ext.ShutdownDelete || how.ShutdownPolicy == ext.ShutdownDeleteForeground)
}

// inherited is the lifecycle that a claim has from its pool. It is given with the
// sandbox, to a claim that has none of its own at that time, and never changes.
func inherited(s Snapshot) *ext.Lifecycle {
	c := s.claim
	if given := s.Facts.State != states.Binding || s.sandbox == nil; given {
		return c.Status.Lifecycle
	}
	if c.Spec.Lifecycle != nil || s.pool == nil {
		return nil
	}
	return s.pool.Spec.ClaimDefaults.Lifecycle
}

// expiry reads when and how a claim ends.
func (l *Claims) expiry(s *Snapshot) {
	c, f := s.claim, &s.Facts
	ready := meta.FindStatusCondition(c.Status.Conditions, view.Ready)
	f.Ended = f.State != states.Stale && ready != nil && ready.Reason == claimExpired
	how := lifecycle(c)
	if how == nil {
		return
	}
	f.Lifetime.Deletes = deletes(how)
	for _, at := range []*metav1.Time{how.ShutdownTime, finishedFor(*s, how.TTLSecondsAfterFinished)} {
		if at == nil {
			continue
		}
		if left := at.Sub(l.Now()); !f.Lifetime.Ends || left < f.Lifetime.Left {
			f.Lifetime.Ends, f.Lifetime.Left = true, left
		}
	}
	if over := f.Lifetime.Ends && f.Lifetime.Left <= 0; over && !f.Lifetime.Deletes {
		s.stranger = l.strangerOf(*s)
		f.Foreign = s.stranger != ""
	}
}

// finishedFor is when the work of a claim's pod has been over for a time, if it is
// over. What the sandbox said of that outlives it in the claim's status.
func finishedFor(s Snapshot, seconds *int32) *metav1.Time {
	conditions := s.claim.Status.Conditions
	if s.sandbox != nil {
		conditions = s.sandbox.Status.Conditions
	}
	done := meta.FindStatusCondition(conditions, view.Finished)
	if seconds == nil || done == nil || done.Status != metav1.ConditionTrue {
		return nil
	}
	return &metav1.Time{Time: done.LastTransitionTime.Add(time.Duration(*seconds) * time.Second)}
}

// strangerOf says whose the sandbox is that a claim which holds none would take with
// it by its name, if there is one.
func (l *Claims) strangerOf(s Snapshot) string {
	key := s.key
	if name := s.claim.Status.SandboxStatus.Name; name != "" {
		key.Name = name
	}
	b, ok := l.Stores.Sandboxes.Get(key)
	if s.sandbox != nil || !ok || apply.ControlledBy(s.claim.UID, b) {
		return ""
	}
	return fmt.Sprintf("Sandbox %q is owned by %s", b.Name, view.OwnerName(b))
}
