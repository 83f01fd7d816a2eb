package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A load makes claims at a steady rate, whatever becomes of those before, and deletes
// each after a while.
type load struct {
	*soak
	rnd *rand.Rand

	mu     sync.Mutex
	made   int
	ends   int // claims that were deleted
	live   map[types.UID]life
	bound  int
	lost   int
	struck map[types.UID]bool // sandboxes that a hand has deleted
	took   []time.Duration    // how long claims waited to be told
}

// A life is what is known of a claim that is there.
type life struct {
	born        time.Time
	bound, lost bool
	sandbox     types.UID // that it was told of
}

// The rate of a load, and the mean time for which a claim is kept.
const (
	pause = 500 * time.Millisecond
	dwell = 12 * time.Second
)

// patience bounds every request of ours: the server may be away.
const patience = 5 * time.Second

// run makes claims until ctx ends. Then those that live stay.
func (l *load) run(ctx context.Context) {
	var ending sync.WaitGroup
	defer ending.Wait()
	for tick := time.NewTicker(pause); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
		ns, name := l.rnd.IntN(len(namespaces)), l.name()
		pool := strategies[l.rnd.IntN(len(strategies))].pool
		invalid, stay := l.rnd.IntN(40) == 0, time.Duration(l.rnd.ExpFloat64()*float64(dwell))
		ending.Go(func() { l.one(ctx, key{namespaces[ns], name}, pool, invalid, stay) })
	}
}

// name is that of the next claim.
func (l *load) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	return fmt.Sprintf("c%d", l.made)
}

// A key names an object of ours.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

// one is the life of a claim. What the server does not answer is asked again.
func (l *load) one(ctx context.Context, k key, pool string, invalid bool, stay time.Duration) {
	c := world.Claim(k.name, pool)
	if invalid {
		world.WithLabel(apply.LabelState, "bound")(c)
	}
	persist(ctx, func(ctx context.Context) error {
		_, err := l.clients.Kiln.Claims(k.namespace).Create(ctx, c, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	select {
	case <-time.After(stay):
	case <-ctx.Done():
		return
	}
	persist(ctx, func(ctx context.Context) error {
		err := l.clients.Kiln.Claims(k.namespace).Delete(ctx, k.name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// persist tries until the server has answered, or ctx ends.
func persist(ctx context.Context, try func(context.Context) error) {
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, patience)
		err := try(one)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// see follows what becomes of the claims.
func (l *load) see(c world.Change) {
	claim, ok := c.Object.(*ext.SandboxClaim)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Deleted {
		l.ends++
		delete(l.live, claim.UID)
		return
	}
	life, known := l.live[claim.UID]
	if !known {
		life.born = c.At
	}
	if uid := claim.Status.SandboxStatus.UID; uid != "" {
		life.sandbox = uid
	}
	switch {
	case claim.Status.State == ext.StateBound && !life.bound:
		life.bound = true
		l.bound++
		l.took = append(l.took, c.At.Sub(life.born))
	case claim.Status.State == ext.StateStale && !life.lost:
		life.lost = true
		l.gone(claim, life.sandbox)
	}
	l.live[claim.UID] = life
}

// gone counts a claim that has lost its sandbox, and asks who took it.
func (l *load) gone(claim *ext.SandboxClaim, sandbox types.UID) {
	l.lost++
	ready := meta.FindStatusCondition(claim.Status.Conditions, "Ready")
	if ready == nil || ready.Reason != "SandboxLost" || !l.struck[sandbox] {
		l.witness.accuse("claim %s/%s is stale and says %+v; nobody had deleted its sandbox %s", claim.Namespace, claim.Name, ready, sandbox)
	}
}

// strike notes that a hand is about to delete a sandbox.
func (l *load) strike(sandbox types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.struck[sandbox] = true
}

// String says how the load is carried.
func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Sorted(slices.Values(l.took))
	at := func(share float64) time.Duration {
		if len(all) == 0 {
			return 0
		}
		return all[int(share*float64(len(all)-1))].Round(time.Millisecond)
	}
	waits := 0
	for _, one := range l.live {
		if !one.bound && !one.lost {
			waits++
		}
	}
	return fmt.Sprintf("%d claims, %d bound (p50 %s, p99 %s), %d lost, %d deleted, %d wait or are refused",
		l.made, l.bound, at(0.5), at(0.99), l.lost, l.ends, waits)
}
