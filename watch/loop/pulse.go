package loop

import (
	"fmt"
	"sync"
	"time"
)

// StuckAfter is how long steps of a loop may run without any of them ending before the
// loop counts as stuck. A request to a server that hangs fails after half a minute, so a
// loop that is merely slow ends steps much more often than that.
const StuckAfter = 10 * time.Minute

// A pulse is when a loop last moved.
type pulse struct {
	mu      sync.Mutex
	running int
	moved   time.Time
}

// began notes that a step has begun. A loop that had nothing to do has moved by that.
func (p *pulse) began(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		p.moved = now
	}
	p.running++
}

// ended notes that a step has ended.
func (p *pulse) ended(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.moved = now
}

// Stuck is an error if steps of the loop are running of which none ends.
func (l *Loop) Stuck(now time.Time) error {
	p := &l.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle := now.Sub(p.moved); p.running > 0 && idle >= StuckAfter {
		return fmt.Errorf("loop %s is stuck: steps are running (%d) and none has ended for %s", l.name, p.running, idle.Round(time.Second))
	}
	return nil
}
