package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/test/world"
)

// clear deletes everything, and waits until no replica remembers anything of it.
func (s *soak) clear(ctx context.Context) error {
	for _, empty := range []func(context.Context, string) error{s.noClaims, s.noPools} {
		for _, ns := range namespaces {
			persist(ctx, func(ctx context.Context) error { return empty(ctx, ns) })
		}
	}
	if err := s.await(ctx, "nothing is left", world.Empty); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("after %s", longest))
	defer cancel()
	for {
		err := s.forgotten(ctx)
		if err == nil {
			fmt.Println("  no replica remembers anything of it")
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("not so: no replica remembers anything of what is gone: %w: %w", err, context.Cause(ctx))
		}
	}
}

// noClaims deletes the claims of a namespace.
func (s *soak) noClaims(ctx context.Context, ns string) error {
	claims, err := s.clients.Kiln.Claims(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, c := range claims.Items {
		err = errors.Join(err, gone(s.clients.Kiln.Claims(ns).Delete(ctx, c.Name, metav1.DeleteOptions{})))
	}
	return err
}

// noPools deletes the pools of a namespace and their templates.
func (s *soak) noPools(ctx context.Context, ns string) (err error) {
	for _, one := range strategies {
		err = errors.Join(err,
			gone(s.clients.Kiln.Pools(ns).Delete(ctx, one.pool, metav1.DeleteOptions{})),
			gone(s.clients.Kiln.Templates(ns).Delete(ctx, one.pool, metav1.DeleteOptions{})))
	}
	return err
}

// gone is why a deletion did not end what it was for.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// forgotten says what the replicas still remember.
func (s *soak) forgotten(ctx context.Context) (wrong error) {
	for _, r := range s.replicas {
		run := r.now()
		if run == nil {
			return errAway
		}
		sizes, err := world.GaugeAt(ctx, run.Metrics, "kiln_remembered")
		switch {
		case err != nil:
			return err
		case len(sizes) == 0:
			return fmt.Errorf("%s does not say what it remembers", r.kiln.Name)
		}
		for _, what := range slices.Sorted(maps.Keys(sizes)) {
			if sizes[what] > 0 {
				wrong = errors.Join(wrong, fmt.Errorf("%s remembers %.0f of %s", r.kiln.Name, sizes[what], what))
			}
		}
	}
	return wrong
}
