package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// leaseName is the lease that the agent-sandbox controller holds, so that one
// that is still running and Kiln never work side by side.
const leaseName = "a3317529.agent-sandbox.x-k8s.io"

var errLeaseLost = errors.New("lost the lease; another replica works now")

// lead works while this process holds the lease. When ctx ends it first lets the
// work finish and then releases the lease, so that the next leader finds nothing
// half done and need not wait.
func lead(ctx context.Context, s *settings, cfg *rest.Config, log *slog.Logger, work func(context.Context) error) error {
	lock, err := lease(s, cfg)
	if err != nil {
		return err
	}
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	worked := make(chan error, 1)
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaseName, ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(started)
				log.Info("leading", "lease", leaseName, "identity", lock.Identity())
				both, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				worked <- work(both)
				release()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// A candidate that has not won yet has nothing to finish.
	defer context.AfterFunc(ctx, func() {
		select {
		case <-started:
		default:
			release()
		}
	})()
	elector.Run(holding)
	select {
	case <-started:
	default:
		return nil
	}
	err = <-worked
	if ctx.Err() == nil && err == nil {
		return errLeaseLost
	}
	return unlessDone(ctx, err)
}

func lease(s *settings, cfg *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	c, err := client.Connect(cfg, nil)
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
