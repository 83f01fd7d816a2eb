package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A board holds the newest status of a pool, and tells when it changes.
type board struct {
	mu      sync.Mutex
	status  status
	changed chan struct{}
}

func newBoard() *board { return &board{changed: make(chan struct{})} }

func (b *board) set(s status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = s
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) read() (status, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.changed
}

// errStill means that what was waited for came no nearer.
var errStill = errors.New("nothing changed")

// await returns when done says so. It gives up when nothing has changed for as long as
// patience says.
func (b *board) await(ctx context.Context, patience time.Duration, done func(status) bool) error {
	for {
		now, changed := b.read()
		if done(now) {
			return nil
		}
		timer := time.NewTimer(patience)
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
			return errStill
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
