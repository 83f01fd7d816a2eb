package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A tenure is the lease as this process holds it: it knows until when nobody else can
// have it. The elector learns by its own clock that it lost the lease, and that is
// too late for a process that was stopped for a while: it would go on where it stood.
// Whoever writes asks the tenure.
type tenure struct {
	resourcelock.Interface
	lasts time.Duration
	now   func() time.Time

	mu sync.Mutex
	// until is when the lease ends unless it is renewed; zero before it was ours.
	until time.Time
	// ending: the lease may be released.
	ending bool
	// taken is called when another holds what was ours.
	taken func()
}

func newTenure(lock resourcelock.Interface, lasts time.Duration) *tenure {
	return &tenure{Interface: lock, lasts: lasts, now: time.Now}
}

var (
	errNoLease = errors.New("this replica does not hold the lease")
	errGoesOn  = errors.New("the lease is not released while this replica works")
)

// onTaken has a function called when another holds what was ours.
func (t *tenure) onTaken(taken func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = taken
}

// end lets the lease be released.
func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
}

// Holds returns an error unless this process holds the lease now.
func (t *tenure) Holds() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().Before(t.until) {
		return nil
	}
	return errNoLease
}

// leads reports whether this process has held the lease and nobody else has since, as
// far as it knows.
func (t *tenure) leads() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.until.IsZero()
}

// Get reads the lease. When it is another's, this process writes nothing any more.
func (t *tenure) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := t.Interface.Get(ctx)
	if err == nil && r.HolderIdentity != "" && r.HolderIdentity != t.Identity() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.until.IsZero() && t.taken != nil {
			t.taken()
		}
		t.until = time.Time{}
	}
	return r, raw, err
}

// Create makes the lease.
func (t *tenure) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.write(ctx, r, t.Interface.Create)
}

// Update takes, renews or releases the lease.
func (t *tenure) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.write(ctx, r, t.Interface.Update)
}

// write counts the lease from before the request, for others count it from after.
// What is released is given up before the request. client-go releases what it could
// not renew, and would release what another holds by now: only who has ended may.
func (t *tenure) write(ctx context.Context, r resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	t.mu.Lock()
	begun, mine := t.now(), r.HolderIdentity == t.Identity()
	held, ending := !t.until.IsZero(), t.ending
	if !mine && ending {
		t.until = time.Time{}
	}
	t.mu.Unlock()
	if !mine && (!ending || !held) {
		return errGoesOn
	}
	err := do(ctx, r)
	if err == nil && mine {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.until = begun.Add(t.lasts)
	}
	return err
}
