package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Options say what a cluster is made of. The zero value is etcd and
// kube-apiserver alone.
type Options struct {
	// CRDs installs Kiln's custom resources before anything else starts.
	CRDs bool
	// Manager runs kube-controller-manager: garbage collection, namespaces,
	// quotas and default service accounts.
	Manager bool
	// Controllers are parts of kube-controller-manager to run beside those.
	Controllers []string
	// Scheduler runs kube-scheduler.
	Scheduler bool
	// Nodes is the number of nodes that kwok simulates; 0 runs no kwok.
	Nodes int
	// Restart starts the manager and the scheduler again when they end by themselves,
	// as a kubelet does: the scheduler does so by design when it learns that a pod is
	// elsewhere than it believed.
	Restart bool
	// Address is where kube-apiserver listens and where it tells everybody to find it, as
	// host:port; empty means a free port of loopback, which no pod can reach.
	Address string
	// Admission leaves the API server all of its default admission: pods get the tokens of
	// their service accounts, and a new node is tainted until it is ready. That takes the
	// controllers of an ordinary cluster.
	Admission bool
	// APIServerFlags are added to kube-apiserver's own, without dashes.
	APIServerFlags map[string][]string
	// LogDir keeps the components' logs. It must exist and stays when the
	// cluster goes; empty means a directory that goes too.
	LogDir string
	// Progress, if not nil, is told in a line each what has started.
	Progress io.Writer
}

// A Cluster is a running control plane.
type Cluster struct {
	// Config is the administrator's, without client-side rate limits.
	Config *rest.Config
	// KubeconfigPath is the administrator's kubeconfig file.
	KubeconfigPath string
	// Dir is the directory of everything, gone after Stop.
	Dir string
	// LogDir holds one log file per component.
	LogDir string
	// Kubectl is the path of the kubectl that belongs to this server.
	Kubectl string

	options Options
	assets  map[string]string
	plane   envtest.ControlPlane
	keeper  *keeper
	broken  chan error

	mu       sync.Mutex
	programs []*Process
	crashed  map[string]bool // of the plane: ended on purpose
	revived  map[string]*Process
	stopping chan struct{}
	stop     func() error
}

// Start starts a cluster and returns when all of it is usable. When it fails,
// or ctx ends first, it takes down what it had started.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	names := []string{"etcd", "kube-apiserver", "kubectl"}
	for name, wanted := range map[string]bool{
		"kube-controller-manager": o.Manager, "kube-scheduler": o.Scheduler, "kwok": o.Nodes > 0,
	} {
		if wanted {
			names = append(names, name)
		}
	}
	assets, err := Assets(names...)
	if err != nil {
		return nil, err
	}
	c, err := prepare(o, assets)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop takes the cluster down, last started first, and removes its directory.
// It may be called more than once.
func (c *Cluster) Stop() error { return c.stop() }

// Broken receives the first component that ended before Stop was called, as an
// error that names it and quotes the end of its log.
func (c *Cluster) Broken() <-chan error { return c.broken }

// While returns a context that ends with its parent, and when a component ends before
// Stop was called. Its cause is then what Broken would have said.
func (c *Cluster) While(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case err := <-c.broken:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// start brings the components up, each as soon as what it needs is there.
func (c *Cluster) start(ctx context.Context) error {
	steps := []struct {
		wanted bool
		name   string
		do     func(context.Context) error
	}{
		{true, "etcd and kube-apiserver", c.startPlane},
		{c.options.CRDs, "custom resource definitions", c.InstallCRDs},
		{c.options.Manager, "kube-controller-manager", c.startManager},
		{c.options.Scheduler, "kube-scheduler", c.startScheduler},
		{c.options.Nodes > 0, "kwok and its nodes", c.startNodes},
	}
	for _, s := range steps {
		if !s.wanted {
			continue
		}
		begun := time.Now()
		err := s.do(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		c.say("%-28s %5.1fs", s.name, time.Since(begun).Seconds())
	}
	return nil
}

func (c *Cluster) say(format string, args ...any) {
	if c.options.Progress != nil {
		fmt.Fprintf(c.options.Progress, "  "+format+"\n", args...)
	}
}
