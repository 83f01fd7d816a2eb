// Package process tests the binary as it is deployed: a process of its own with
// the rights it will really have, on a whole control plane.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
)

// Where the controller lives and who it is.
const (
	home    = "agent-sandbox-system"
	account = "agent-sandbox-controller"
)

// stage is what every test of this package stands on.
var stage struct {
	ctx        context.Context
	cluster    *cluster.Cluster
	core       kubernetes.Interface
	kiln       *client.Clients
	binary     string
	kubeconfig string
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	dir, err := os.MkdirTemp("", "kiln-process-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := build(ctx, filepath.Join(dir, "kiln")); err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Manager: true, Scheduler: true, Nodes: 1})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopped := c.Stop(); err == nil {
			err = stopped
		}
	}()
	stage.ctx, stage.cluster = ctx, c
	if err := connect(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func build(ctx context.Context, binary string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	stage.binary = binary
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/kiln")
	command.Dir, command.Stdout, command.Stderr = root, os.Stderr, os.Stderr
	return command.Run()
}

func connect() (err error) {
	c := stage.cluster
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	if stage.core, err = kubernetes.NewForConfigAndClient(c.Config, h); err != nil {
		return err
	}
	if stage.kiln, err = client.New(c.Config, h); err != nil {
		return err
	}
	if _, stage.kubeconfig, err = c.ServiceAccountConfig(stage.ctx, home, account); err != nil {
		return err
	}
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	rights, err := os.ReadFile(filepath.Join(root, "helm", "kiln", "files", "rbac.yaml"))
	if err != nil {
		return err
	}
	return c.Apply(stage.ctx, rights)
}

// A replica is a running controller.
type replica struct {
	*cluster.Process
	health string
	log    string
}

// start runs a controller and returns when its process is alive.
func start(t *testing.T, name string) *replica {
	t.Helper()
	health := cluster.FreeAddress()
	p, err := stage.cluster.Run(stage.ctx, cluster.Program{
		Name: name, Path: stage.binary,
		Args: []string{
			"controller", "--kubeconfig=" + stage.kubeconfig, "--leader-election-namespace=" + home,
			"--metrics-bind-address=0", "--health-probe-bind-address=" + health,
		},
		Healthy: "http://" + health + "/healthz",
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &replica{Process: p, health: health, log: filepath.Join(stage.cluster.LogDir, name+".log")}
}
