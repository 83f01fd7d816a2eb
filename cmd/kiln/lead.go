package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// leaseName is the lease that the agent-sandbox controller holds, so that one
// that is still running and Kiln never work side by side (sharedLease).
const leaseName = "a3317529.agent-sandbox.x-k8s.io"

var errLeaseLost = errors.New("lost the lease; another replica works now")

// An election is what this process knows of the lease.
type election struct {
	settings *settings
	tenure   *tenure
	// watch tells until ctx ends whether the lease is free.
	watch func(ctx context.Context, saw func(free bool))
	log   *slog.Logger
}

// lead works from when this process first holds the lease until ctx ends or another
// replica holds it. A lease that could not be renewed in time is tried for again:
// nothing is written meanwhile, and an API server that was away for a while costs no
// restart. When ctx ends the steps under way end first and the lease is released then,
// so that the next leader finds nothing half done and need not wait.
func (e election) lead(ctx context.Context, work func(context.Context) error) error {
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	working, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	e.tenure.onTaken(func() { lost(errLeaseLost) })
	var begun atomic.Bool
	worked := make(chan error, 1)
	started := make(chan struct{})
	lead := func() {
		if !begun.CompareAndSwap(false, true) {
			return // the lease was got back
		}
		close(started)
		worked <- work(working)
		e.tenure.end()
		release()
	}
	// A candidate that has not won yet has nothing to finish.
	defer context.AfterFunc(ctx, func() {
		select {
		case <-started:
		default:
			e.tenure.end()
			release()
		}
	})()
	s := &standby{Interface: e.tenure}
	defer s.follow(holding, e.watch)()
	for holding.Err() == nil {
		if err := e.hold(holding, s, lead); err != nil {
			return err
		}
	}
	select {
	case <-started:
	default:
		return nil
	}
	err := <-worked
	if errors.Is(context.Cause(working), errLeaseLost) {
		return errLeaseLost
	}
	return unlessDone(ctx, err)
}

// hold waits for the lease and renews it until ctx ends or that does not succeed, or until
// it waits for a lease that is free: the next one tries for it at once.
func (e election) hold(ctx context.Context, s *standby, leads func()) error {
	ctx, end := s.stand(ctx)
	defer end()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: s, Name: leaseName, ReleaseOnCancel: true,
		LeaseDuration: e.settings.leaseDuration, RenewDeadline: e.settings.renewDeadline, RetryPeriod: e.settings.retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				e.log.Info("leading", "lease", leaseName, "identity", e.tenure.Identity())
				leads()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	elector.Run(ctx)
	return nil
}

// newElection connects to the lease. Nothing is asked yet.
func newElection(s *settings, cfg *rest.Config, others *rivals, log *slog.Logger) (election, error) {
	lock, err := lease(s, cfg)
	if err != nil {
		return election{}, err
	}
	// A connection of its own has no limit of time, which would end a watch.
	c, err := client.Connect(cfg, nil)
	if err != nil {
		return election{}, fmt.Errorf("leader election: %w", err)
	}
	watch := newLeaseWatch(c.Core.CoordinationV1().Leases(leaseNamespace(s)), log)
	return election{settings: s, tenure: newTenure(&sharedLease{Interface: lock, rivals: others}, s.leaseDuration), watch: watch.run, log: log}, nil
}

func lease(s *settings, cfg *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	own := rest.CopyConfig(cfg)
	own.Timeout = s.renewDeadline / 2 // so that one request that hangs does not cost the lease
	c, err := client.Connect(own, nil)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: leaseName, Namespace: leaseNamespace(s)},
		Client:     c.Core.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

func leaseNamespace(s *settings) string {
	if s.leaseNamespace != "" {
		return s.leaseNamespace
	}
	own, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err == nil && len(own) > 0 {
		return strings.TrimSpace(string(own))
	}
	return "agent-sandbox-system"
}
