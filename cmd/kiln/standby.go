package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A standby is the lease as an elector has it that has not won yet: it ends the elector's
// wait when the lease is seen to be free. client-go's elector looks every so often and
// cannot be told to look now, but a new one looks at once. So the run of one that waits
// is ended, and another begins. A run is not ended while it asks or writes, and writes
// nothing once it was ended, so no run is ended that has won.
type standby struct {
	resourcelock.Interface
	unwatch context.CancelFunc

	mu sync.Mutex
	// end ends the run.
	end context.CancelFunc
	// trying: a request is under way, or one follows.
	trying bool
	// free: nobody holds the lease, and this process has not read it since that was seen.
	// So each time that it is seen is worth one try, and after that the elector has its pace.
	free bool
	// won and ended are what became of the run.
	won, ended bool
}

var errLooksAgain = errors.New("the lease is looked for anew")

// follow watches the lease until ctx ends or this process holds it. The function that it
// returns ends the watch and waits for that.
func (s *standby) follow(ctx context.Context, watch func(ctx context.Context, saw func(free bool))) (stop func()) {
	ctx, s.unwatch = context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx, s.saw) })
	return func() {
		s.unwatch()
		watching.Wait()
	}
}

// stand returns the context of a new run. Its first try is at once, and answers whatever
// was seen before.
func (s *standby) stand(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end, s.trying, s.won, s.ended = end, true, false, false
	return ctx, end
}

// saw is told whether the lease is free, whenever the watch shows it.
func (s *standby) saw(free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = free
	s.lookAgain()
}

// lookAgain ends a run that waits although the lease is free. The mutex is held.
func (s *standby) lookAgain() {
	if s.free && !s.trying && !s.won && s.end != nil {
		s.ended = true
		s.end()
	}
}

// Get reads the lease. Who finds it free writes next.
func (s *standby) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	s.mu.Lock()
	s.trying, s.free = true, false
	s.mu.Unlock()
	r, raw, err := s.Interface.Get(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = apierrors.IsNotFound(err) || err == nil && r.HolderIdentity == ""
	s.lookAgain()
	return r, raw, err
}

// Create makes the lease.
func (s *standby) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.write(ctx, r, s.Interface.Create)
}

// Update takes, renews or releases the lease.
func (s *standby) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.write(ctx, r, s.Interface.Update)
}

func (s *standby) write(ctx context.Context, r resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errLooksAgain
	}
	s.trying = true
	s.mu.Unlock()
	err := do(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = false
	if err == nil && r.HolderIdentity == s.Identity() {
		s.won = true
		s.unwatch() // there is nothing more to wait for
	}
	s.lookAgain()
	return err
}

// A leaseWatch tells whether the lease is free.
type leaseWatch struct {
	objects cache.ListerWatcher
	log     *slog.Logger
}

// newLeaseWatch watches the one lease: there is no right to more.
func newLeaseWatch(leases coordination.LeaseInterface, log *slog.Logger) leaseWatch {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, leaseName).String()
	return leaseWatch{log: log, objects: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return leases.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return leases.Watch(ctx, o)
		},
	}}
}

// run tells what it sees until ctx ends. A watch that fails or is forbidden is said
// once, and tried again ever more slowly: a standby looks for the lease all the same.
func (w leaseWatch) run(ctx context.Context, saw func(free bool)) {
	informer := cache.NewSharedIndexInformerWithOptions(w.objects, &coordinationv1.Lease{}, cache.SharedIndexInformerOptions{})
	var said sync.Once
	fails := func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // it ends, or only begins anew
		}
		said.Do(func() {
			w.log.Warn("the lease is not watched; that it is released is seen a little later", "lease", leaseName, "err", err)
		})
	}
	tell := func(o any) {
		l, ok := o.(*coordinationv1.Lease)
		saw(ok && (l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == ""))
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, o any) { tell(o) },
		// One that is deleted may have a leader still, which makes it again.
	})
	if err := errors.Join(err, informer.SetWatchErrorHandlerWithContext(fails)); err != nil {
		fails(ctx, nil, err) // only an informer that runs refuses them
		return
	}
	informer.RunWithContext(ctx)
}
