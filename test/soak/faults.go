package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

// faults are what goes wrong, one after another, some of it for a while.
type faults struct {
	*soak
	rnd *rand.Rand
	// spared is when the replicas are left alive, so that their memory can be seen to
	// stay flat.
	spared time.Time
	hands  *hands
	plane  sync.Mutex // one part of the plane is away at a time
}

// A fault is one thing that may go wrong.
type fault struct {
	name   string
	weight int
	// lasts: it takes a while, and the others do not wait for it.
	lasts bool
	do    func(context.Context) error
}

// between is the mean time between two faults.
const between = 3 * time.Second

// frozen is how long a replica is frozen: longer than the lease.
const frozen = 20 * time.Second

func newFaults(s *soak, length time.Duration) *faults {
	return &faults{
		soak: s, rnd: s.random(2), spared: time.Now().Add(length * 3 / 4),
		hands: &hands{soak: s, rnd: s.random(4)},
	}
}

func (f *faults) all() []fault {
	h := f.hands
	return []fault{
		{"replica stopped", 3, false, f.sparing(func(_ context.Context, r *replica) error { return r.signal(syscall.SIGTERM) })},
		{"replica killed", 3, false, f.sparing(func(_ context.Context, r *replica) error { return r.signal(syscall.SIGKILL) })},
		{"replica frozen", 2, true, f.sparing(func(ctx context.Context, r *replica) error { return r.freeze(ctx, frozen) })},
		{"API server killed", 2, true, f.away("kube-apiserver")},
		{"etcd killed", 2, true, f.away("etcd")},
		{"connections reset", 3, false, func(context.Context) error { f.proxy.reset(); return nil }},
		{"bad weather", 4, true, f.weather},
		{"node away", 2, true, h.node},
		{"template changed", 5, false, h.retemplate},
		{"template broken", 2, true, h.breakTemplate},
		{"pool scaled", 4, false, h.scale},
		{"rollout paused", 2, true, h.pause},
		{"pod edited", 5, false, h.editPod},
		{"status edited", 4, false, h.editStatus},
		{"claim edited", 2, false, h.editClaim},
		{"bound sandbox deleted", 2, false, h.strikeSandbox},
		{"bound pod deleted", 3, false, h.strikePod},
		{"free member deleted", 2, false, h.strikeMember},
	}
}

// run does one thing after another until ctx ends, and waits for what lasts.
func (f *faults) run(ctx context.Context) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	all := f.all()
	sum := 0
	for _, one := range all {
		sum += one.weight
	}
	for {
		select {
		case <-time.After(time.Duration(f.rnd.ExpFloat64() * float64(between))):
		case <-ctx.Done():
			return
		}
		at := f.rnd.IntN(sum)
		for _, one := range all {
			if at -= one.weight; at < 0 {
				do := func() { f.try(ctx, one) }
				if one.lasts {
					lasting.Go(do)
				} else {
					do()
				}
				break
			}
		}
	}
}

func (f *faults) try(ctx context.Context, one fault) {
	f.journal.write("TRY %s", one.name)
	if !one.lasts {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	f.journal.done(one.name, "", one.do(ctx))
}

var errSpared = errors.New("the replicas are spared towards the end")

// sparing has something done to a random replica, but not towards the end.
func (f *faults) sparing(do func(context.Context, *replica) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if time.Now().After(f.spared) {
			return errSpared
		}
		return do(ctx, f.replicas[f.hands.number(len(f.replicas))])
	}
}

// away has a part of the plane killed and started again. It comes back whether ctx ends
// or not.
func (f *faults) away(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		f.plane.Lock()
		defer f.plane.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		whole := context.WithoutCancel(ctx)
		if err := f.cluster.Crash(whole, name); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return f.revive(whole, f.cluster, name)
	}
}

// tries is how often a part of the plane is started before that is given up.
const tries = 5

func (f *faults) revive(ctx context.Context, c *cluster.Cluster, name string) (err error) {
	for range tries {
		if err = c.Revive(ctx, name); err == nil {
			return nil
		}
		f.journal.write("%s does not come back: %.300s", name, err)
	}
	return err
}

// weather makes the network bad for a while.
func (f *faults) weather(ctx context.Context) error {
	f.proxy.bad.Store(true)
	defer f.proxy.bad.Store(false)
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	return nil
}
