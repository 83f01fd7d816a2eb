package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
)

// A Condition is what somebody waits for: nil when it holds, and what is missing
// otherwise.
type Condition func(*Snapshot) error

// All holds when everything does at once.
func All(conditions ...Condition) Condition {
	return func(s *Snapshot) error {
		var missing []error
		for _, condition := range conditions {
			missing = append(missing, condition(s))
		}
		return errors.Join(missing...)
	}
}

// Either holds when one of two does.
func Either(one, other Condition) Condition {
	return func(s *Snapshot) error {
		first, second := one(s), other(s)
		if first == nil || second == nil {
			return nil
		}
		return errors.Join(first, second)
	}
}

// Full holds when a pool has a number of free members and no other.
func Full(pool string, n int) Condition {
	return func(s *Snapshot) error {
		if free, all := len(s.Free(pool)), len(s.Members(pool)); free != n || all != n {
			return fmt.Errorf("pool %s has %d members, %d free; it should have %d", pool, all, free, n)
		}
		return nil
	}
}

// Counted holds when a pool's status says that it has a number of members, all
// ready, and none on its way out.
func Counted(pool string, n int32) Condition {
	return func(s *Snapshot) error {
		p, ok := s.Pools[pool]
		if !ok || p.Status.Replicas != n || p.Status.ReadyReplicas != n || p.Status.StaleReplicas != 0 || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("pool %s does not say that it has %d members", pool, n)
		}
		return nil
	}
}

// HasState holds when a claim is in a state.
func HasState(claim string, state states.State) Condition {
	return func(s *Snapshot) error {
		if s.ClaimState(claim) != string(state) {
			return fmt.Errorf("claim %s is %q, not %q", claim, s.ClaimState(claim), state)
		}
		return nil
	}
}

// PodHasState holds when a pod is in a state.
func PodHasState(pod string, state states.State) Condition {
	return func(s *Snapshot) error {
		if s.PodState(pod) != string(state) {
			return fmt.Errorf("pod %s is %q, not %q", pod, s.PodState(pod), state)
		}
		return nil
	}
}

// HasReason holds when a claim's Ready condition gives a reason.
func HasReason(claim, reason string) Condition { return ClaimSays(claim, reason, "") }

// ClaimSays holds when a claim's Ready condition gives a reason, and a message
// that contains a text.
func ClaimSays(claim, reason, message string) Condition {
	return says("claim "+claim, func(s *Snapshot) []metav1.Condition {
		if c, ok := s.Claims[claim]; ok {
			return c.Status.Conditions
		}
		return nil
	}, "Ready", reason, message)
}

// PoolSays is ClaimSays for any condition of a pool.
func PoolSays(pool, kind, reason, message string) Condition {
	return says("pool "+pool, func(s *Snapshot) []metav1.Condition {
		if p, ok := s.Pools[pool]; ok {
			return p.Status.Conditions
		}
		return nil
	}, kind, reason, message)
}

// SandboxSays is ClaimSays for a sandbox.
func SandboxSays(sandbox, reason, message string) Condition {
	return says("sandbox "+sandbox, func(s *Snapshot) []metav1.Condition {
		if b, ok := s.Sandboxes[sandbox]; ok {
			return b.Status.Conditions
		}
		return nil
	}, "Ready", reason, message)
}

func says(object string, conditions func(*Snapshot) []metav1.Condition, kind, reason, message string) Condition {
	return func(s *Snapshot) error {
		c := meta.FindStatusCondition(conditions(s), kind)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
			return fmt.Errorf("%s says %+v; it should say %s: %s", object, c, reason, message)
		}
		return nil
	}
}

// Told holds when claims say that they are bound and Ready, whatever their pods
// say.
func Told(claims ...string) Condition {
	return func(s *Snapshot) error {
		for _, claim := range claims {
			c, ok := s.Claims[claim]
			if !ok || s.ClaimState(claim) != string(states.Bound) || !meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") {
				return fmt.Errorf("claim %s is %q, and not both bound and Ready", claim, s.ClaimState(claim))
			}
		}
		return nil
	}
}

// Bound holds when claims are bound: each told of a sandbox that is its alone,
// whose pod says so too.
func Bound(claims ...string) Condition {
	return func(s *Snapshot) error {
		for _, claim := range claims {
			if err := bound(s, claim); err != nil {
				return err
			}
		}
		return nil
	}
}

func bound(s *Snapshot, claim string) error {
	if err := Told(claim)(s); err != nil {
		return err
	}
	c, name := s.Claims[claim], s.SandboxOf(claim)
	if held := s.HeldBy(c.UID); !slices.Equal(held, []string{name}) {
		return fmt.Errorf("claim %s was told of %q and holds %q", claim, name, held)
	}
	pod, ok := s.Pods[name]
	if !ok || s.PodState(name) != string(states.Bound) || !metav1.IsControlledBy(pod, s.Sandboxes[name]) {
		return fmt.Errorf("the pod of claim %s is %q, not bound", claim, s.PodState(name))
	}
	if pod.Labels[apply.LabelClaimUID] != string(c.UID) {
		return fmt.Errorf("claim %s is bound, and its pod does not name it", claim)
	}
	return nil
}

// Launched holds when the sandboxes that claims were told of came about in a way:
// warm or cold.
func Launched(launch string, claims ...string) Condition {
	return func(s *Snapshot) error {
		for _, claim := range claims {
			b, ok := s.Sandboxes[s.SandboxOf(claim)]
			if !ok || b.Labels[apply.LabelLaunch] != launch {
				return fmt.Errorf("the sandbox %q of claim %s was not launched %s", s.SandboxOf(claim), claim, launch)
			}
		}
		return nil
	}
}

// Annotated holds when the annotations of claims name, for others to read, the
// sandboxes they were told of, and when.
func Annotated(claims ...string) Condition {
	return func(s *Snapshot) error {
		for _, claim := range claims {
			if c, ok := s.Claims[claim]; !ok || c.Annotations[apply.AnnotationSandboxName] != c.Status.SandboxStatus.Name || c.Annotations[apply.AnnotationFirstObserved] == "" || c.Annotations[apply.AnnotationFirstReady] == "" {
				return fmt.Errorf("the annotations of claim %s do not say that it has %q", claim, s.SandboxOf(claim))
			}
		}
		return nil
	}
}

// Converged holds when a world has come to rest: a full pool that says so, these
// claims bound and no others, and not a sandbox or pod too many.
func Converged(pool string, n int, claims ...string) Condition {
	return All(Full(pool, n), Counted(pool, int32(n)), Bound(claims...), func(s *Snapshot) error {
		all := n + len(claims)
		if len(s.Sandboxes) != all || len(s.Pods) != all || len(s.Claims) != len(claims) {
			return fmt.Errorf("there are %d claims, %d sandboxes and %d pods; %d claims and %d each is right",
				len(s.Claims), len(s.Sandboxes), len(s.Pods), len(claims), all)
		}
		for name, t := range s.Templates {
			if t.Labels[apply.LabelTemplate] != apply.Hash(t.Name) {
				return fmt.Errorf("template %s lacks its label", name)
			}
		}
		return nil
	})
}

// Reported holds when every sandbox says that it is Ready.
func Reported(s *Snapshot) error {
	for name, b := range s.Sandboxes {
		if !meta.IsStatusConditionTrue(b.Status.Conditions, "Ready") {
			return fmt.Errorf("sandbox %s does not say that it is Ready", name)
		}
	}
	return nil
}

// Empty holds when nothing is left.
func Empty(s *Snapshot) error {
	if n := len(s.Pods) + len(s.Sandboxes) + len(s.Claims) + len(s.Pools) + len(s.Templates); n > 0 {
		return fmt.Errorf("%d objects are left", n)
	}
	return nil
}

// Deleted holds when an object is no more, whatever has its name now.
func Deleted(o metav1.Object) Condition {
	return func(s *Snapshot) error {
		if !s.Deleted[o.GetUID()] {
			return fmt.Errorf("%s %s is still there", KindOf(o), o.GetName())
		}
		return nil
	}
}

// Seen holds when the recorder has seen an object as the server returned it, or
// later, or its end.
func Seen(o metav1.Object) Condition {
	want, err := newChange(o, false)
	return func(s *Snapshot) error {
		if err != nil || s.Deleted[o.GetUID()] || s.versions[o.GetUID()] >= want.Version {
			return err
		}
		return fmt.Errorf("%s is at version %d and not yet at %d", o.GetName(), s.versions[o.GetUID()], want.Version)
	}
}
