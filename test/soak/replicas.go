package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// A replica is a process of Kiln that is started again whenever it ends, as a
// Deployment does.
type replica struct {
	kiln    stage.Kiln
	cluster *cluster.Cluster
	journal *journal

	mu  sync.Mutex
	run *stage.Replica // nil while there is none
}

// restart is how long a replica that ended stays away.
const restart = time.Second

// keep keeps a replica running until ctx ends, and then ends it.
func (r *replica) keep(ctx context.Context) {
	for ctx.Err() == nil {
		run, err := r.kiln.Run(ctx, r.cluster)
		if err == nil {
			r.set(run)
			select {
			case <-run.Done():
				r.journal.write("%s ended with %d", r.kiln.Name, run.ExitCode())
			case <-ctx.Done():
				if err := run.Stop(); err != nil {
					r.journal.write("%s", err)
				}
			}
			r.set(nil)
		} else {
			r.journal.write("%s does not start: %.200s", r.kiln.Name, err)
		}
		select {
		case <-time.After(restart):
		case <-ctx.Done():
		}
	}
}

func (r *replica) set(run *stage.Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = run
}

// now is the process that runs, or nil.
func (r *replica) now() *stage.Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

var errAway = errors.New("it does not run at the moment")

// signal sends a signal to the process.
func (r *replica) signal(s syscall.Signal) error {
	run := r.now()
	if run == nil {
		return errAway
	}
	return run.Signal(s)
}

// freeze stops the process for a while, as a machine that is far too busy does.
func (r *replica) freeze(ctx context.Context, long time.Duration) error {
	run := r.now()
	if run == nil {
		return errAway
	}
	if err := run.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
	return run.Signal(syscall.SIGCONT)
}

// through writes a kubeconfig that goes through the proxy, and returns its path.
func (p *proxy) through(kubeconfig string) (path string, err error) {
	c, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", err
	}
	for _, one := range c.Clusters {
		one.Server = p.server.URL
		one.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	}
	path = filepath.Join(filepath.Dir(kubeconfig), "kubeconfig-through-proxy")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return "", fmt.Errorf("kubeconfig of the proxy: %w", err)
	}
	return path, nil
}
