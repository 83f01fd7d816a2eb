package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/kiln-sandbox/kiln/test/world"
)

// timeline prints what the watches have shown since a time.
func (s *story) timeline(zero time.Time) {
	s.Look(func(now *world.Snapshot) {
		for _, t := range now.Transitions {
			if t.At.Before(zero) {
				continue
			}
			when := fmt.Sprintf("+%dms", t.At.Sub(zero).Milliseconds())
			fmt.Printf("  %7s  %-18s %-8s -> %-8s %s\n", when, t.Chart.Kind+"/"+t.Object.GetName(), t.From, t.To, t.Cause())
		}
	})
}

// legal returns an error if anything that happened so far breaks a promise.
func (s *story) legal() (err error) {
	s.Look(func(now *world.Snapshot) {
		if i := slices.IndexFunc(now.Transitions, func(t world.Transition) bool { return !t.Legal }); i >= 0 {
			err = fmt.Errorf("%s", now.Transitions[i])
		}
	})
	if violations := world.Violations(s.History(), nil); err == nil && len(violations) > 0 {
		err = fmt.Errorf("%s", violations[0])
	}
	return err
}
