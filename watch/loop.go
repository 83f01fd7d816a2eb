package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kiln-sandbox/kiln/apply"
)

// A loop takes keys of one kind and steps each until it rests.
type loop struct {
	name    string
	workers int
	queue   workqueue.TypedRateLimitingInterface[Key]
	step    func(context.Context, Key) (after time.Duration, err error)
	log     *slog.Logger
}

// The back-off of a key that fails: its own, never a bucket it shares.
const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = time.Minute
)

func newLoop(name string, workers int, m workqueue.MetricsProvider, log *slog.Logger) *loop {
	return &loop{
		name: name, workers: workers, log: log,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Key](backoffFirst, backoffMost),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: name, MetricsProvider: m},
		),
	}
}

// wake asks for a step of a key.
func (l *loop) wake(key Key) { l.queue.Add(key) }

// run works until the queue is shut down and everything started is finished.
func (l *loop) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range l.workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	wg.Wait()
}

// next takes one key; it reports false when the queue has closed.
func (l *loop) next(ctx context.Context) bool {
	key, closed := l.queue.Get()
	if closed {
		return false
	}
	defer l.queue.Done(key)
	after, err := l.step(ctx, key)
	switch {
	case err != nil:
		l.tell(key, err)
		l.queue.AddRateLimited(key)
		if after > 0 { // something is due that does not wait for the back-off
			l.queue.AddAfter(key, after)
		}
	case after > 0:
		l.queue.Forget(key)
		l.queue.AddAfter(key, after)
	default:
		l.queue.Forget(key)
	}
	return true
}

// tell logs a failure. Losing a race is no failure, and what the server refuses
// is told where its user looks: in a condition.
func (l *loop) tell(key Key, err error) {
	if errors.Is(err, apply.ErrLost) || errors.Is(err, apply.ErrGone) || errors.Is(err, apply.ErrRefused) {
		l.log.Debug("again", "loop", l.name, "key", key.String(), "err", err)
		return
	}
	l.log.Warn("again", "loop", l.name, "key", key.String(), "err", err)
}
