package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

var warmClaims = []string{"a", "b", "c"}

// fill applies the quickstart and waits until its pool is ready.
func (s *story) fill(ctx context.Context) error {
	heading("A warm pool")
	begun := time.Now()
	if err := s.kubectl(ctx, "apply", "-f", "examples/quickstart.yaml"); err != nil {
		return err
	}
	if err := s.await(ctx, func(w *world) error { return w.full(pool) }); err != nil {
		return err
	}
	fmt.Printf("\nThe pool is full after %d ms.\n", time.Since(begun).Milliseconds())
	return s.kubectl(ctx, "get", "swp")
}

// claim takes three sandboxes and shows what that took.
func (s *story) claim(ctx context.Context) error {
	heading("Three claims")
	before, err := readWrites(ctx, s.metrics)
	if err != nil {
		return err
	}
	created := map[string]time.Time{}
	for _, name := range warmClaims {
		if created[name], err = s.create(ctx, name, pool); err != nil {
			return err
		}
	}
	if err := s.await(ctx, func(w *world) error {
		return cmp.Or(w.held("warm", warmClaims...), w.full(pool))
	}); err != nil {
		return err
	}
	s.bound += len(warmClaims)
	timeline(s.since(created["a"]), created["a"])
	fmt.Println("\nFrom create to Ready, as the watch showed it:")
	for _, name := range warmClaims {
		fmt.Printf("  claim/%s  %4d ms  sandbox %s\n", name, s.readyAt(name).Sub(created[name]).Milliseconds(), s.sandboxOf(name))
	}
	if err := s.kubectl(ctx, "get", "sandboxtemplates,swp,sandboxclaims,sandboxes"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "pods", "-L", labelState); err != nil {
		return err
	}
	// Only now, and before the claims not right after the pool was full: a watch
	// may show a write before its answer has reached the one who counts it.
	after, err := readWrites(ctx, s.metrics)
	if err != nil {
		return err
	}
	fmt.Println("\nWrites by Kiln for three claims and the refill of the pool:")
	// A pool's status is written a few times a second, however many claims there
	// are; it is shown apart.
	status, spent := after.minus(before).of(string(states.Pooler))
	spent.table(len(warmClaims))
	fmt.Printf("Beside them, the pool's status was written %.0f times.\n", status.sum())
	s.perWarm = spent.sum() / float64(len(warmClaims))
	return nil
}

// release deletes a claim and waits until what it held is gone.
func (s *story) release(ctx context.Context) error {
	heading("A claim is deleted")
	begun := time.Now()
	held := s.sandboxOf("a")
	if err := s.kubectl(ctx, "delete", "sandboxclaim", "a"); err != nil {
		return err
	}
	if err := s.await(ctx, func(w *world) error { return cmp.Or(w.absent("a", held), w.full(pool)) }); err != nil {
		return err
	}
	timeline(s.since(begun), begun)
	fmt.Printf("\nSandbox and pod %s are gone; the pool is full.\n", held)
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
	if err := s.await(ctx, func(w *world) error { return w.held("cold", "cold") }); err != nil {
		return err
	}
	timeline(s.since(begun), begun)
	s.bound++
	fmt.Printf("\nclaim/cold is Ready after %d ms.\n", s.readyAt("cold").Sub(begun).Milliseconds())
	return s.kubectl(ctx, "get", "sandboxclaims,sandboxes")
}
