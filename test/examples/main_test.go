// Package examples types what the headers of the files in examples/ tell their
// reader to type, on a whole control plane, and expects what they say.
package examples

import (
	"context"
	"errors"
	"testing"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// world is what every example runs on.
var world struct {
	ctx     context.Context
	cluster *cluster.Cluster
}

func TestMain(m *testing.M) {
	stage.TestMain("examples", func(ctx context.Context, dir string) (int, error) { return run(ctx, dir, m) })
}

func run(ctx context.Context, dir string, m *testing.M) (code int, err error) {
	binary, err := stage.Build(ctx, dir)
	if err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{CRDs: true, Manager: true, Scheduler: true, Nodes: 2})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if _, err := (stage.Kiln{Name: "kiln", Binary: binary}).Run(ctx, c); err != nil {
		return 1, err
	}
	connection, err := client.Connect(c.Config, nil)
	if err != nil {
		return 1, err
	}
	providing, end := context.WithCancel(ctx)
	defer end() // before the cluster stops: an open watch holds the API server up
	if err := provision(providing, connection.Core.CoreV1()); err != nil {
		return 1, err
	}
	world.ctx, world.cluster = ctx, c
	return m.Run(), nil
}
