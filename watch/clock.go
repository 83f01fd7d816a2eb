package watch

import (
	"context"
	"time"
)

// How often the clock is looked at, and what is no jump yet.
const (
	clockLook  = 10 * time.Second
	clockSteps = time.Second
)

// A clock notices when the hour has moved on by more than the time that has passed:
// somebody has set it, or the machine was suspended. Whoever waits for an hour waits
// for a time, and would wake too late.
type clock struct {
	hour time.Time
	// passed is how long the process has run by then.
	passed time.Duration
}

// jumps reports whether the hour has jumped ahead since the last look.
func (c *clock) jumps(hour time.Time, passed time.Duration) bool {
	was := *c
	c.hour, c.passed = hour.Round(0), passed // without what time has passed of itself
	return !was.hour.IsZero() && c.hour.Sub(was.hour)-(passed-was.passed) > clockSteps
}

// watchClock wakes the claims that end at an hour when that comes sooner than it
// seemed. A clock that is set back needs nothing: they wake too early, and wait on.
func (c *Controller) watchClock(ctx context.Context) {
	var looks clock
	begun := time.Now()
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	for {
		if looks.jumps(c.opts.Now(), time.Since(begun)) {
			c.Claims.WakeEnding()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
