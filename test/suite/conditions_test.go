package suite

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/test/kit"
	"github.com/kiln-sandbox/kiln/test/world"
)

var errWaits = errors.New("not yet")

// pending holds when the pool p has a number of members, each with a pod.
func pending(n int) world.Condition {
	return func(s *world.Snapshot) error {
		if len(s.Members("p")) != n || len(s.Pods) != n {
			return errWaits
		}
		return nil
	}
}

// owns holds when a claim is the owner of a sandbox.
func owns(claim string) world.Condition {
	return func(s *world.Snapshot) error {
		for _, b := range s.Sandboxes {
			if c, ok := s.Claims[claim]; ok && metav1.IsControlledBy(b, c) {
				return nil
			}
		}
		return errWaits
	}
}

// pods holds when there is a number of pods.
func pods(n int) world.Condition {
	return func(s *world.Snapshot) error {
		if len(s.Pods) != n {
			return errWaits
		}
		return nil
	}
}

// counted holds when a pool's status counts so many members, and so many ready.
func counted(pool string, all, ready int32) world.Condition {
	return func(s *world.Snapshot) error {
		if p, ok := s.Pools[pool]; !ok || p.Status.Replicas != all || p.Status.ReadyReplicas != ready {
			return errWaits
		}
		return nil
	}
}

// warming holds when a pool's status counts so many members that are starting.
func warming(pool string, n int32) world.Condition {
	return func(s *world.Snapshot) error {
		if p, ok := s.Pools[pool]; !ok || p.Status.WarmingReplicas != n {
			return errWaits
		}
		return nil
	}
}

// stopped holds when p has so many old members, all free, and so many new
// ones, none of them ready.
func stopped(old, fresh int, revision string) world.Condition {
	return func(s *world.Snapshot) error {
		of := 0
		for _, name := range s.Members("p") {
			if s.Sandboxes[name].Labels[apply.LabelRevision] == revision {
				of++
			}
		}
		if free, all := len(s.Free("p")), len(s.Members("p")); free != old || of != fresh || all != old+fresh {
			return fmt.Errorf("%d members, %d of them free and %d new; it should have %d and %d", all, free, of, old, fresh)
		}
		return nil
	}
}

// standing holds when p says that it has so many members, so many of them new and
// so many on their way out, and has seen its spec as it is.
func standing(all, updated, leaving int32) world.Condition {
	return func(s *world.Snapshot) error {
		p, ok := s.Pools["p"]
		if !ok || p.Status.Replicas != all || p.Status.UpdatedReplicas != updated || p.Status.StaleReplicas != leaving ||
			p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("p does not say that it has %d members, %d of them new, and that %d are leaving", all, updated, leaving)
		}
		return nil
	}
}

// kubeletSays holds when a pod's Ready condition is so.
func kubeletSays(pod string, ready bool) world.Condition {
	return func(s *world.Snapshot) error {
		if p, ok := s.Pods[pod]; !ok || world.IsReady(p) != ready {
			return errWaits
		}
		return nil
	}
}

// begun holds when a controller has asked for a number of pods.
func begun(c *kit.Controller, n int) world.Condition {
	return func(*world.Snapshot) error {
		asked := slices.DeleteFunc(c.Wire.Writes(), func(w kit.Write) bool { return !w.Is("pod", "create") })
		if len(asked) != n {
			return fmt.Errorf("%d pods were asked for, not %d", len(asked), n)
		}
		return nil
	}
}

// observes holds when p speaks of its spec and of a template as they are.
func observes(w *kit.World, template string) world.Condition {
	t, err := w.Templates().Get(w.Context(), template, metav1.GetOptions{})
	return func(s *world.Snapshot) error {
		if p := s.Pools["p"]; err != nil || p.Status.ObservedTemplateGeneration != t.Generation || p.Status.ObservedGeneration != p.Generation {
			return errors.Join(err, errWaits)
		}
		return nil
	}
}

// renewed holds when there is a number of sandboxes of a revision and no others.
func renewed(revision string, n int) world.Condition {
	return func(s *world.Snapshot) error {
		for name, sandbox := range s.Sandboxes {
			if len(s.Sandboxes) != n || sandbox.Labels[apply.LabelRevision] != revision {
				return fmt.Errorf("%d sandboxes, and %s is of revision %s", len(s.Sandboxes), name, sandbox.Labels[apply.LabelRevision])
			}
		}
		return nil
	}
}

// members holds when a pool has a number of members, ready or not.
func members(pool string, n int) world.Condition {
	return func(s *world.Snapshot) error {
		if got := len(s.Members(pool)); got != n {
			return fmt.Errorf("pool %s has %d members, not %d", pool, got, n)
		}
		return nil
	}
}

// resting holds when the pool p is full and these claims are bound, and the
// controller has nothing under way and nothing left to write: all that it would
// write stands on the server, and was answered. Whatever is held back from here on
// holds nothing back that began before.
func resting(c *kit.Controller, n int, claims ...string) world.Condition {
	return world.All(world.Converged("p", n, claims...), world.Annotated(claims...), world.Reported, c.Settled())
}
