package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/states"
)

// All wishes for everything at once.
func All(wishes ...Wish) Wish {
	return func(s *Sight) error {
		var missing []error
		for _, wish := range wishes {
			missing = append(missing, wish(s))
		}
		return errors.Join(missing...)
	}
}

// Either wishes for one of two.
func Either(one, other Wish) Wish {
	return func(s *Sight) error {
		first, second := one(s), other(s)
		if first == nil || second == nil {
			return nil
		}
		return errors.Join(first, second)
	}
}

// Full wishes for a pool to have a number of free members and no other.
func Full(pool string, n int) Wish {
	return func(s *Sight) error {
		if free, all := len(s.Free(pool)), len(s.Members(pool)); free != n || all != n {
			return fmt.Errorf("pool %s has %d members, %d free; it should have %d", pool, all, free, n)
		}
		return nil
	}
}

// Counted wishes for a pool's status to say that it has a number of members, all
// ready, and none on its way out.
func Counted(pool string, n int32) Wish {
	return func(s *Sight) error {
		p, ok := s.Pools[pool]
		if !ok || p.Status.Replicas != n || p.Status.ReadyReplicas != n || p.Status.StaleReplicas != 0 || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("pool %s does not say that it has %d members", pool, n)
		}
		return nil
	}
}

// Words wishes for a claim to carry a word.
func Words(claim string, word states.State) Wish {
	return func(s *Sight) error {
		if s.State(claim) != string(word) {
			return fmt.Errorf("claim %s is %q, not %q", claim, s.State(claim), word)
		}
		return nil
	}
}

// Says wishes for a claim's Ready condition to give a reason.
func Says(claim, reason string) Wish {
	return func(s *Sight) error {
		c, ok := s.Claims[claim]
		if !ok {
			return fmt.Errorf("there is no claim %s", claim)
		}
		if got := meta.FindStatusCondition(c.Status.Conditions, "Ready"); got == nil || got.Reason != reason {
			return fmt.Errorf("claim %s does not say %s: %s", claim, reason, readyWords(c.Status.Conditions))
		}
		return nil
	}
}

// PodWords wishes for a pod to carry a word.
func PodWords(pod string, word states.State) Wish {
	return func(s *Sight) error {
		if s.Word(pod) != string(word) {
			return fmt.Errorf("pod %s is %q, not %q", pod, s.Word(pod), word)
		}
		return nil
	}
}

// Bound wishes for claims to be bound: each told of a sandbox that is its alone,
// whose pod says so too.
func Bound(claims ...string) Wish {
	return func(s *Sight) error {
		for _, claim := range claims {
			if err := bound(s, claim); err != nil {
				return err
			}
		}
		return nil
	}
}

func bound(s *Sight, claim string) error {
	c, ok := s.Claims[claim]
	if !ok || s.State(claim) != string(states.Bound) {
		return fmt.Errorf("claim %s is %q, not bound", claim, s.State(claim))
	}
	name := s.SandboxOf(claim)
	if held := s.HeldBy(c.UID); !slices.Equal(held, []string{name}) {
		return fmt.Errorf("claim %s was told of %q and holds %q", claim, name, held)
	}
	pod, ok := s.Pods[name]
	if !ok || s.Word(name) != string(states.Bound) || !controlled(pod, s.Sandboxes[name]) {
		return fmt.Errorf("the pod of claim %s is %q, not bound", claim, s.Word(name))
	}
	if pod.Labels[apply.LabelClaim] != string(c.UID) || !meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") {
		return fmt.Errorf("claim %s is bound and not Ready, or its pod does not name it", claim)
	}
	return nil
}

// Noted wishes for what is noted on claims, for others to read, to be what they
// were told.
func Noted(claims ...string) Wish {
	return func(s *Sight) error {
		for _, claim := range claims {
			if c, ok := s.Claims[claim]; !ok || c.Annotations[apply.NoteSandbox] != s.SandboxOf(claim) || c.Annotations[apply.NoteSeen] == "" {
				return fmt.Errorf("what is noted on claim %s is not that it has %q", claim, s.SandboxOf(claim))
			}
		}
		return nil
	}
}

// Right wishes for a world that has come to rest: a full pool that says so,
// these claims bound and no others, and not a sandbox or pod too many.
func Right(pool string, n int, claims ...string) Wish {
	return All(Full(pool, n), Counted(pool, int32(n)), Bound(claims...), func(s *Sight) error {
		all := n + len(claims)
		if len(s.Sandboxes) != all || len(s.Pods) != all || len(s.Claims) != len(claims) {
			return fmt.Errorf("there are %d claims, %d sandboxes and %d pods; %d claims and %d each is right",
				len(s.Claims), len(s.Sandboxes), len(s.Pods), len(claims), all)
		}
		for name, t := range s.Templates {
			if t.Labels[apply.LabelTemplate] != apply.Hash(name) {
				return fmt.Errorf("template %s lacks its label", name)
			}
		}
		return nil
	})
}

// Gone wishes for an object to be no more, whatever has its name now.
func Gone(o metav1.Object) Wish {
	return func(s *Sight) error {
		if !s.Ended[o.GetUID()] {
			return fmt.Errorf("%s %s is still there", KindOf(o), o.GetName())
		}
		return nil
	}
}

// seen wishes for a kind to be seen at least as it is now.
func seen[L runtime.Object](ctx context.Context, kind string, c watchable[L]) func() (Wish, error) {
	return func() (Wish, error) {
		list, err := c.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		there := map[types.UID]Change{}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			change, err := newChange(o.(metav1.Object), false)
			there[change.Object.GetUID()] = change
			return err
		})
		return func(s *Sight) error { return s.covers(kind, there) }, err
	}
}

// covers reports what a sight has not caught up with.
func (s *Sight) covers(kind string, there map[types.UID]Change) error {
	known := map[types.UID]uint64{}
	for _, o := range s.all(kind) {
		change, err := newChange(o, false)
		if err != nil {
			return err
		}
		known[o.GetUID()] = change.Version
		if _, ok := there[o.GetUID()]; !ok {
			return fmt.Errorf("the recorder has not seen the end of %s %s", kind, o.GetName())
		}
	}
	for uid, c := range there {
		if known[uid] < c.Version && !s.Ended[uid] {
			return fmt.Errorf("the recorder has not seen %s", c)
		}
	}
	return nil
}

func (s *Sight) all(kind string) (all []metav1.Object) {
	switch kind {
	case "pod":
		return objects(s.Pods)
	case "sandbox":
		return objects(s.Sandboxes)
	case "claim":
		return objects(s.Claims)
	}
	return objects(s.Pools)
}

func objects[T metav1.Object](in map[string]T) (all []metav1.Object) {
	for _, o := range in {
		all = append(all, o)
	}
	return all
}
