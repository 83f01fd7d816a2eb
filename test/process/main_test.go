// Package process tests the binary as it is deployed: a process of its own with
// the rights it will really have, on a whole control plane.
package process

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// world is what every test of this package stands on.
var world struct {
	ctx     context.Context
	cluster *cluster.Cluster
	core    kubernetes.Interface
	kiln    *client.Clients
	binary  string
}

func TestMain(m *testing.M) {
	stage.TestMain("process", func(ctx context.Context, dir string) (int, error) { return run(ctx, dir, m) })
}

func run(ctx context.Context, dir string, m *testing.M) (code int, err error) {
	if world.binary, err = stage.Build(ctx, dir); err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Manager: true, Scheduler: true, Nodes: 1})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	world.ctx, world.cluster = ctx, c
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return 1, err
	}
	if world.core, err = kubernetes.NewForConfigAndClient(c.Config, h); err != nil {
		return 1, err
	}
	if world.kiln, err = client.New(c.Config, h); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// start runs a controller, with flags of its own if need be, and returns when its
// process is alive.
func start(t *testing.T, name string, args ...string) *stage.Replica {
	t.Helper()
	r, err := stage.Kiln{Name: name, Binary: world.binary, Args: args, Alive: true}.Run(world.ctx, world.cluster)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}
