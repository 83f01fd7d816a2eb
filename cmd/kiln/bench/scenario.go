package bench

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The numbers of a scenario for which nobody gave another.
const (
	ownPool   = 100
	ownSerial = 50
	ownBurst  = 300
)

const usual = "OnReplenish"

// or is a number that somebody gave, or the scenario's own.
func or(given, own int) int {
	if given > 0 {
		return given
	}
	return own
}

// warm is the size of the pool that a scenario begins with.
func (s *session) warm(own int) int {
	if s.Pool >= 0 {
		return s.Pool
	}
	return own
}

// play runs a scenario. Those with steps have several results.
func (s *session) play(ctx context.Context, scenario string) ([]Result, error) {
	switch scenario {
	case Floor:
		return s.playFloor(ctx)
	case Serial:
		return s.on(ctx, s.warm(ownPool), usual, Serial, 0, serial(or(s.Claims, ownSerial)))
	case Sustained:
		return s.on(ctx, s.warm(ownPool), usual, Sustained, s.Rate, s.sustained(s.Rate))
	case Rollout:
		return s.on(ctx, s.warm(ownPool), s.Strategy, Rollout, s.Rate, s.rollout)
	case Burst:
		claims := or(s.Claims, ownBurst)
		return s.on(ctx, s.warm(claims), usual, Burst, 0, burst(claims))
	case Sweep:
		return s.sweep(ctx)
	case Scale:
		return s.scale(ctx)
	}
	return nil, fmt.Errorf("there is no scenario %q", scenario)
}

// on measures a load on a pool.
func (s *session) on(ctx context.Context, size int, strategy, scenario string, rate float64, put load) ([]Result, error) {
	if err := s.ensure(ctx, size, strategy); err != nil {
		return nil, err
	}
	r, err := s.measure(ctx, scenario, rate, put)
	if err != nil {
		return nil, err
	}
	return []Result{r}, nil
}

// serial makes one claim after another: the next when the one before was served and has
// been deleted.
func serial(claims int) load {
	return func(ctx context.Context, t *trial) error {
		for range claims {
			one, _ := t.ask(ctx)
			t.drop(ctx, one)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

// droppers is how many claims are deleted at once after a burst.
const droppers = 16

// burst makes all claims at once, and deletes them when all were served.
func burst(claims int) load {
	return func(ctx context.Context, t *trial) error {
		var asking, dropping sync.WaitGroup
		lives, start := make(chan *life, claims), make(chan struct{})
		for range claims {
			asking.Go(func() {
				<-start
				one, _ := t.ask(ctx)
				lives <- one
			})
		}
		close(start)
		asking.Wait()
		close(lives)
		for range droppers {
			dropping.Go(func() {
				for one := range lives {
					t.drop(ctx, one)
				}
			})
		}
		dropping.Wait()
		return context.Cause(ctx)
	}
}

// sustained makes claims at a rate for as long as a load shall be.
func (s *session) sustained(rate float64) load {
	return s.arriving(rate, func() time.Duration { return s.Duration })
}

// arriving makes claims at a rate, whatever becomes of those before, until an end; each
// is deleted when it has been held for a while.
func (s *session) arriving(rate float64, end func() time.Duration) load {
	return func(ctx context.Context, t *trial) error {
		var going sync.WaitGroup
		defer going.Wait()
		for at := range arrivals(s.Seed+uint64(s.round), rate) {
			if at >= end() {
				break
			}
			if err := wait(ctx, at-time.Since(t.ledger.begun)); err != nil {
				return err
			}
			going.Go(func() {
				one, served := t.ask(ctx)
				if served && wait(ctx, s.Dwell) != nil {
					return
				}
				t.drop(ctx, one)
			})
		}
		return nil
	}
}

// rollout changes the template when a third of a sustained load has come, and goes on
// for two thirds from when that was answered. Claims that are made from then on are
// promised the new template, if the strategy promises it.
func (s *session) rollout(ctx context.Context, t *trial) error {
	t.look = t.inspect
	var end atomic.Int64
	end.Store(math.MaxInt64)
	changed := make(chan error, 1)
	go func() {
		err := wait(ctx, s.Duration/3)
		if err == nil {
			err = s.revise(ctx)
		}
		if err == nil && !strategies[s.Strategy] {
			t.ledger.promise(s.revision)
		}
		end.Store(int64(time.Since(t.ledger.begun) + s.Duration*2/3))
		changed <- err
	}()
	err := s.arriving(s.Rate, func() time.Duration { return time.Duration(end.Load()) })(ctx, t)
	if other := <-changed; err == nil {
		err = other
	}
	return err
}

// sweep tries one rate after another, until claims are too slow.
func (s *session) sweep(ctx context.Context) (all []Result, err error) {
	for _, rate := range s.Rates {
		r, err := s.on(ctx, s.warm(ownPool), usual, Sweep+"@"+strconv.FormatFloat(rate, 'f', -1, 64), rate, s.sustained(rate))
		if err != nil {
			return all, err
		}
		if all = append(all, r...); !s.keepsUp(r[0]) {
			break
		}
	}
	return all, nil
}

// keepsUp reports whether a rate is one that can be served.
func (s *session) keepsUp(r Result) bool {
	return r.Ready == r.Claims && r.Latency.P99 <= ms(s.Limit)
}

// scale puts the same load on pools of different sizes.
func (s *session) scale(ctx context.Context) (all []Result, err error) {
	for _, size := range s.Pools {
		r, err := s.on(ctx, size, usual, Scale+"@"+strconv.Itoa(size), s.Rate, s.sustained(s.Rate))
		if err != nil {
			return all, err
		}
		all = append(all, r...)
	}
	return all, nil
}
