package main

import (
	"fmt"
	"time"

	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// tell has the next line say a count, if the last line is a while ago.
func (t *tale) tell(now count) {
	if t.due != (count{}) && t.now.Sub(t.saidAt) >= beat {
		t.flush()
	}
	t.due, t.dueAt = now, t.now
}

// flush writes the line that is due.
func (t *tale) flush() {
	if t.due != (count{}) && t.due != t.said {
		t.line(t.dueAt, t.due.String())
		t.said, t.saidAt = t.due, t.dueAt
	}
	t.due = count{}
}

func (t *tale) line(at time.Time, text string) {
	t.lines = append(t.lines, fmt.Sprintf("  %8s  %s", fmt.Sprintf("+%dms", at.Sub(t.zero).Milliseconds()), text))
}

// claim tells of a claim that has got its sandbox.
func (t *tale) claim(c *extensions.SandboxClaim) {
	known, ok := t.claims[c.Name]
	if !ok {
		known.born = t.now
	}
	if s := t.world.sandboxes[c.Status.SandboxStatus.Name]; s != nil && known.version == "" && t.world.bound(c.Name) {
		known.version, known.launch = "v2", s.Labels[labelLaunch]
		if s.Labels[labelRevision] == t.old {
			known.version = "v1"
		}
		t.flush()
		t.line(t.now, fmt.Sprintf("claim/%s bound to %s (%s) after %d ms", c.Name, known.version, known.launch, t.now.Sub(known.born).Milliseconds()))
	}
	t.claims[c.Name] = known
}

func (t *tale) print() {
	for _, l := range t.lines {
		fmt.Println(l)
	}
}

// verdict compares the tale with what its strategy promises.
func (t *tale) verdict(r rollout, claims []string) (string, error) {
	got := map[string]int{}
	for _, c := range claims {
		got[t.claims[c].version]++
	}
	end := t.count()
	switch {
	case r.strict && got["v1"] > 0:
		return "", fmt.Errorf("%d claims made after the change got the older template", got["v1"])
	case r.strict && end.updated != members:
		return "", fmt.Errorf("%d of %d sandboxes are new in the end", end.updated, members)
	case !r.strict && t.gaveUp > 0:
		return "", fmt.Errorf("%d old sandboxes were dropped, and should have stayed", t.gaveUp)
	case t.gaveUp > 0 && t.least < r.least:
		return "", fmt.Errorf("the rollout left %d ready, and %d is the least", t.least, r.least)
	case t.most > r.most:
		return "", fmt.Errorf("there were %d sandboxes at once, and %d is the most", t.most, r.most)
	}
	said := fmt.Sprintf("%d claims: %d got v1, %d got v2. In the end %d of %d are v2.", len(claims), got["v1"], got["v2"], end.updated, members)
	if r.least > 0 {
		said += fmt.Sprintf(" The rollout left at least %d ready, what claims had just taken counted in; %d sandboxes was the most there were.", t.least, t.most)
	}
	return "Kept: " + said, nil
}
