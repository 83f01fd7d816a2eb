package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/world"
)

// calm mends what the storm has broken, and waits until everything is in order.
func (s *soak) calm(ctx context.Context) error {
	fmt.Println("\nThe faults stop.")
	h := &hands{soak: s, rnd: s.random(5), image: 1_000_000}
	for i := range nodes {
		persist(ctx, func(ctx context.Context) error { return h.cordon(ctx, fmt.Sprintf("node-%d", i), false) })
	}
	for _, ns := range namespaces {
		for _, one := range strategies {
			k := key{ns, one.pool}
			persist(ctx, func(ctx context.Context) error { return h.template(ctx, k, h.good()) })
			persist(ctx, func(ctx context.Context) error { return h.spec(ctx, k, fmt.Sprintf(`{"replicas":%d}`, replicas)) })
		}
		persist(ctx, func(ctx context.Context) error {
			return h.spec(ctx, key{ns, "rolling"}, `{"updateStrategy":{"rollingUpdate":{"paused":false}}}`)
		})
	}
	h.flip(ctx, "", corev1.ConditionTrue)
	if err := s.renew(ctx, h); err != nil {
		return err
	}
	for _, one := range []struct {
		what  string
		holds world.Condition
	}{
		{"every pool is full and says so", s.full},
		{"every claim is bound, or says why not", served},
		{"there is nothing that belongs to nobody, or is half", whole},
	} {
		if err := s.await(ctx, one.what, one.holds); err != nil {
			return err
		}
	}
	return s.await(ctx, "all of that at once", world.All(s.full, served, whole))
}

// renew empties the pools that keep old members, and fills them again: what was made
// from a broken template, and waits for a node that never comes, is kept there until
// somebody does that.
func (s *soak) renew(ctx context.Context, h *hands) error {
	for _, size := range []int{0, replicas} {
		var all []world.Condition
		for _, ns := range namespaces {
			k := key{ns, "replenish"}
			persist(ctx, func(ctx context.Context) error { return h.spec(ctx, k, fmt.Sprintf(`{"replicas":%d}`, size)) })
			all = append(all, world.Full(k.String(), size))
		}
		if err := s.await(ctx, fmt.Sprintf("the pools that keep old members have %d", size), world.All(all...)); err != nil {
			return err
		}
	}
	return nil
}

// full holds when every pool is.
func (s *soak) full(now *world.Snapshot) error {
	var missing []error
	for _, ns := range namespaces {
		for _, one := range strategies {
			k := key{ns, one.pool}.String()
			missing = append(missing, world.Full(k, replicas)(now), world.Counted(k, replicas)(now))
		}
	}
	return errors.Join(missing...)
}

// refused are the reasons for which a claim is right to have nothing.
var refused = []string{"InvalidMetadata"}

// served holds when every claim is bound, has lost its sandbox, or says why it has none.
func served(now *world.Snapshot) error {
	for name, c := range now.Claims {
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		switch {
		case c.Status.State == ext.StateStale:
		case c.Status.State == ext.StateBound:
			if err := world.All(world.Bound(name), world.Annotated(name), honest(name))(now); err != nil && !brokenOwn(now, c) {
				return err
			}
		case ready != nil && ready.Status == metav1.ConditionFalse && slices.Contains(refused, ready.Reason):
		case ready != nil && brokenOwn(now, c):
		default:
			return fmt.Errorf("claim %s is %q and says %+v", name, c.Status.State, ready)
		}
	}
	return nil
}

// honest holds when a claim, its sandbox and its pod give the same addresses.
func honest(claim string) world.Condition {
	return func(now *world.Snapshot) error {
		b, p := now.Sandboxes[now.SandboxOf(claim)], now.Pods[now.SandboxOf(claim)]
		told := now.Claims[claim].Status.SandboxStatus.PodIPs
		if b == nil || p == nil || len(told) != 1 || told[0] != p.Status.PodIP || !slices.Equal(told, b.Status.PodIPs) {
			return fmt.Errorf("claim %s gives the addresses %q, which are not its pod's", claim, told)
		}
		return nil
	}
}

// brokenOwn reports whether a claim's own sandbox was made from a template that did not
// work: what runs, or does not, is never changed.
func brokenOwn(now *world.Snapshot, c *ext.SandboxClaim) bool {
	return slices.ContainsFunc(now.HeldBy(c.UID), func(name string) bool { return broken(now.Sandboxes[name]) })
}

func broken(b *agents.Sandbox) bool { return b.Spec.PodTemplate.ObjectMeta.Labels[brokenLabel] != "" }

// whole holds when every sandbox belongs to somebody who is there, and every pod to its
// sandbox, and no hand-over is half done.
func whole(now *world.Snapshot) error {
	there := map[string]bool{}
	for _, kind := range []string{"claim", "pool", "sandbox"} {
		for _, o := range now.All(kind) {
			there[string(o.GetUID())] = true
		}
	}
	for name, b := range now.Sandboxes {
		if owner := metav1.GetControllerOf(b); owner == nil || !there[string(owner.UID)] || b.DeletionTimestamp != nil {
			return fmt.Errorf("sandbox %s belongs to nobody, or goes", name)
		}
		if _, ok := now.Pods[name]; !ok && !broken(b) {
			return fmt.Errorf("sandbox %s has no pod", name)
		}
	}
	for name, p := range now.Pods {
		owner := metav1.GetControllerOf(p)
		if owner == nil || !there[string(owner.UID)] || p.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s belongs to nobody, or goes", name)
		}
		switch state := now.PodState(name); {
		case broken(now.Sandboxes[name]):
		case state != string(states.Ready) && state != string(states.Bound):
			return fmt.Errorf("pod %s is %q", name, state)
		}
	}
	return nil
}

// A figure is how a process is.
type figure struct {
	memory, goroutines float64
}

// How much a process may grow: by a share, and by what a full heap more or less is.
const (
	growth       = 1.5
	memorySlack  = 64 << 20
	routineSlack = 200
)

// verdict judges the whole run.
func (s *soak) verdict(before, after map[string]figure) error {
	s.witness.advance(time.Now().Add(time.Hour))
	var wrong []error
	for _, v := range s.witness.violations() {
		wrong = append(wrong, errors.New(v))
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, is := before[name], after[name]
		fmt.Printf("  %s: %.0f MB and %.0f goroutines, before the faults %.0f MB and %.0f\n",
			name, is.memory/(1<<20), is.goroutines, was.memory/(1<<20), was.goroutines)
		if is.memory > was.memory*growth+memorySlack || is.goroutines > was.goroutines*growth+routineSlack {
			wrong = append(wrong, fmt.Errorf("%s has grown", name))
		}
	}
	if len(after) != len(s.replicas) {
		wrong = append(wrong, fmt.Errorf("%d of %d replicas say how they are", len(after), len(s.replicas)))
	}
	n, each := s.journal.faults()
	fmt.Printf("\nsoak: %s\nsoak: %d faults: %s\nsoak: %d writes by Kiln, %d violations\n", s.load, n, each, s.proxy.writes.Load(), len(wrong))
	return errors.Join(wrong...)
}

// figures are how the replicas are that run.
func (s *soak) figures(ctx context.Context) map[string]figure {
	all := map[string]figure{}
	for _, r := range s.replicas {
		run := r.now()
		if run == nil {
			continue
		}
		gauges, err := world.GaugesAt(ctx, run.Metrics)
		if err != nil {
			s.journal.write("%s: %s", r.kiln.Name, strings.TrimSpace(err.Error()))
			continue
		}
		all[r.kiln.Name] = figure{gauges["process_resident_memory_bytes"], gauges["go_goroutines"]}
	}
	return all
}
