package main

import (
	"context"
	"fmt"

	"github.com/kiln-sandbox/kiln/test/world"
)

// The namespaces: of the controller, of those who claim, and of those who did before Kiln was
// there.
const (
	home      = "agent-sandbox-system"
	claiming  = "agents"
	inherited = "inherited"
)

// prove shows everything, in an order in which one thing stands on the other.
func (s *stand) prove(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	chapters := []struct {
		title  string
		proofs func() []proof
	}{
		{"A release", func() []proof { return s.installation(watching) }},
		{"Claims and sandboxes", s.claims},
		{"Faults", s.faults},
		{"Another release", s.changes},
		{"The agent-sandbox controller's place", func() []proof { return s.succession(watching) }},
	}
	for _, c := range chapters {
		if err := s.run(ctx, c.title, c.proofs()); err != nil {
			return err
		}
	}
	return s.judge(ctx)
}

// judge looks at all that was ever seen: what may never be was not so for a moment either.
func (s *stand) judge(ctx context.Context) error {
	for name, t := range s.tenants {
		if wrong := world.Violations(t.History(), nil); len(wrong) > 0 {
			return fmt.Errorf("in namespace %s, %d things were as they never may be: %s", name, len(wrong), wrong[0])
		}
	}
	if err := s.tenants[claiming].reachable(); err != nil {
		return err
	}
	return s.tenants[claiming].fenced(ctx)
}
