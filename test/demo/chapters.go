package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/world"
)

var warmClaims = []string{"a", "b", "c"}

// full holds when the pool of the story is full, and says so.
func full(now *world.Snapshot) error {
	p := now.Pools[pool]
	if p == nil || p.Spec.Replicas == nil {
		return fmt.Errorf("there is no pool %s", pool)
	}
	n := *p.Spec.Replicas
	return world.All(world.Full(pool, int(n)), world.Counted(pool, n))(now)
}

// held holds when claims hold sandboxes that were launched in a way, each one of
// its own.
func held(launch string, claims ...string) world.Condition {
	return world.All(world.Bound(claims...), world.Launched(launch, claims...))
}

// fill applies the quickstart and waits until its pool is ready.
func (s *story) fill(ctx context.Context) error {
	heading("A warm pool")
	begun := time.Now()
	if err := s.kubectl(ctx, "apply", "-f", "examples/quickstart.yaml"); err != nil {
		return err
	}
	if err := s.await(ctx, full); err != nil {
		return err
	}
	fmt.Printf("\nThe pool is full after %d ms.\n", time.Since(begun).Milliseconds())
	return s.kubectl(ctx, "get", "swp")
}

// claim takes three sandboxes and shows what that took.
func (s *story) claim(ctx context.Context) error {
	heading("Three claims")
	before, err := s.counted(ctx)
	if err != nil {
		return err
	}
	created := map[string]time.Time{}
	for _, name := range warmClaims {
		if created[name], err = s.create(ctx, name, pool); err != nil {
			return err
		}
	}
	if err := s.await(ctx, held(apply.LaunchWarm, warmClaims...), full); err != nil {
		return err
	}
	s.bound += len(warmClaims)
	s.timeline(created["a"])
	fmt.Println("\nFrom create until it can be used (Ready, and its pod is marked as its own), as the watch showed it:")
	for _, name := range warmClaims {
		fmt.Printf("  claim/%s  %4d ms  sandbox %s\n", name, s.When(world.Bound(name)).Sub(created[name]).Milliseconds(), s.SandboxOf(name))
	}
	if err := s.kubectl(ctx, "get", "sandboxtemplates,swp,sandboxclaims,sandboxes"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "pods", "-L", apply.LabelState); err != nil {
		return err
	}
	// Only now, and before the claims not right after the pool was full: a watch
	// may show a write before its answer has reached the one who counts it.
	after, err := s.counted(ctx)
	if err != nil {
		return err
	}
	fmt.Println("\nWrites by Kiln for three claims and the refill of the pool:")
	// A pool's status is written a few times a second, however many claims there
	// are; it is shown apart.
	pooler := func(k world.Counter) bool { return k.Manager == string(states.PoolManager) }
	spent := after.Less(before)
	others := spent.Of(func(k world.Counter) bool { return !pooler(k) })
	table(others, len(warmClaims))
	fmt.Printf("Beside them, the pool's status was written %d times.\n", spent.Sum(pooler))
	s.perWarm = float64(others.Sum(everything)) / float64(len(warmClaims))
	return nil
}

// release deletes a claim and waits until what it held is gone.
func (s *story) release(ctx context.Context) error {
	heading("A claim is deleted")
	begun := time.Now()
	had := s.SandboxOf("a")
	var left []world.Condition
	s.Look(func(now *world.Snapshot) {
		left = append(left, world.Deleted(now.Claims["a"]), world.Deleted(now.Sandboxes[had]), world.Deleted(now.Pods[had]))
	})
	if err := s.kubectl(ctx, "delete", "sandboxclaim", "a"); err != nil {
		return err
	}
	if err := s.await(ctx, append(left, full)...); err != nil {
		return err
	}
	s.timeline(begun)
	fmt.Printf("\nSandbox and pod %s are gone; the pool is full.\n", had)
	return nil
}

// coldStart claims from a pool that keeps nothing warm.
func (s *story) coldStart(ctx context.Context) error {
	heading("A cold start: a claim on a pool of 0")
	none := int32(0)
	if _, err := s.clients.Pools(namespace).Create(ctx, &extensions.SandboxWarmPool{
		ObjectMeta: metav1.ObjectMeta{Name: "empty"},
		Spec:       extensions.SandboxWarmPoolSpec{Replicas: &none, TemplateRef: extensions.SandboxTemplateRef{Name: pool}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	begun, err := s.create(ctx, "cold", "empty")
	if err != nil {
		return err
	}
	if err := s.await(ctx, held(apply.LaunchCold, "cold")); err != nil {
		return err
	}
	s.timeline(begun)
	s.bound++
	fmt.Printf("\nclaim/cold can be used after %d ms.\n", s.When(world.Bound("cold")).Sub(begun).Milliseconds())
	return s.kubectl(ctx, "get", "sandboxclaims,sandboxes")
}
