package main

import (
	"fmt"
	"time"

	"github.com/kiln-sandbox/kiln/apply"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// say has the next line say a count, if the last line is a while ago.
func (l *rolloutLog) say(now count) {
	if l.due != (count{}) && l.now.Sub(l.saidAt) >= interval {
		l.flush()
	}
	l.due, l.dueAt = now, l.now
}

// flush writes the line that is due.
func (l *rolloutLog) flush() {
	if l.due != (count{}) && l.due != l.said {
		l.line(l.dueAt, l.due.String())
		l.said, l.saidAt = l.due, l.dueAt
	}
	l.due = count{}
}

func (l *rolloutLog) line(at time.Time, text string) {
	l.lines = append(l.lines, fmt.Sprintf("  %8s  %s", fmt.Sprintf("+%dms", at.Sub(l.zero).Milliseconds()), text))
}

// claim tells of a claim that has got its sandbox.
func (l *rolloutLog) claim(c *extensions.SandboxClaim) {
	known, ok := l.claims[c.Name]
	if !ok {
		known.born = l.now
	}
	if s := l.Sandboxes[c.Status.SandboxStatus.Name]; s != nil && known.version == "" && world.Told(c.Name)(l.Snapshot) == nil {
		known.version, known.launch = "v2", s.Labels[apply.LabelLaunch]
		if s.Labels[apply.LabelRevision] == l.old {
			known.version = "v1"
		}
		l.flush()
		l.line(l.now, fmt.Sprintf("claim/%s bound to %s (%s) after %d ms", c.Name, known.version, known.launch, l.now.Sub(known.born).Milliseconds()))
	}
	l.claims[c.Name] = known
}

func (l *rolloutLog) print() {
	for _, line := range l.lines {
		fmt.Println(line)
	}
}

// verdict compares the log with what its strategy promises.
func (l *rolloutLog) verdict(r rollout, claims []string) (string, error) {
	got := map[string]int{}
	for _, c := range claims {
		got[l.claims[c].version]++
	}
	end := l.count()
	switch {
	case r.strict && got["v1"] > 0:
		return "", fmt.Errorf("%d claims made after the change got the older template", got["v1"])
	case r.strict && end.updated != members:
		return "", fmt.Errorf("%d of %d sandboxes are new in the end", end.updated, members)
	case !r.strict && l.retired > 0:
		return "", fmt.Errorf("%d old sandboxes were dropped, and should have stayed", l.retired)
	case l.retired > 0 && l.least < r.least:
		return "", fmt.Errorf("the rollout left %d ready, and %d is the least", l.least, r.least)
	case l.most > r.most:
		return "", fmt.Errorf("there were %d sandboxes at once, and %d is the most", l.most, r.most)
	}
	said := fmt.Sprintf("%d claims: %d got v1, %d got v2. In the end %d of %d are v2.", len(claims), got["v1"], got["v2"], end.updated, members)
	if r.least > 0 {
		said += fmt.Sprintf(" The rollout left at least %d ready, what claims had just taken counted in; %d sandboxes was the most there were.", l.least, l.most)
	}
	return "Kept: " + said, nil
}
