package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A move is one change of an object's word, as the watch showed it.
type move struct {
	at       time.Time
	object   string
	from, to string
	// said is what happened and who wrote it, in the words of the chart.
	said string
	// listed tells that the chart knows the move. It may not happen otherwise.
	listed bool
}

// Words for what no chart has: an object that is not there.
const (
	absent  = "-"
	deleted = "gone"
)

// note adds the move between two words, if they differ.
func (r *recorder) note(at time.Time, chart states.Chart, name, from, to string, gone bool) {
	if gone {
		from, to = to, deleted
	}
	if from == to {
		return
	}
	m := move{at: at, object: chart.Kind + "/" + name, from: from, to: to, listed: true}
	edge, known := chart.Between(states.State(from), states.State(to))
	switch {
	case to == deleted:
		m.said = "deleted"
	case from == absent:
		m.said = "created"
	case known:
		m.said = fmt.Sprintf("%s by %s", edge.Event, edge.By)
	default:
		m.said, m.listed = "AGAINST THE CHART", false
	}
	r.moves = append(r.moves, m)
}

// legal returns an error if any move recorded so far is not in its chart.
func (r *recorder) legal() error {
	for _, m := range r.since(time.Time{}) {
		if !m.listed {
			return fmt.Errorf("%s moved %s -> %s, which its chart does not list", m.object, m.from, m.to)
		}
	}
	return nil
}

func timeline(moves []move, zero time.Time) {
	for _, m := range moves {
		when := fmt.Sprintf("+%dms", m.at.Sub(zero).Milliseconds())
		fmt.Printf("  %7s  %-18s %-8s -> %-8s %s\n", when, m.object, m.from, m.to, m.said)
	}
}

func wordOfPod(p *corev1.Pod) string {
	if p == nil {
		return absent
	}
	return string(states.Pod.Parse(p.Labels[labelState]))
}

func wordOfClaim(c *extensions.SandboxClaim) string {
	if c == nil {
		return absent
	}
	return string(states.Claim.Parse(string(c.Status.State)))
}
