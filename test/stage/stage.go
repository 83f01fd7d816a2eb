// Package stage runs Kiln as it is deployed: a process of its own, under the
// account and the rights it will really have, beside a cluster.
package stage

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

// Where the controller lives, who it is, and the lease that its replicas share.
const (
	Home    = "agent-sandbox-system"
	Account = "kiln"
	Lease   = "a3317529.agent-sandbox.x-k8s.io"
)

// A Kiln is a controller to run.
type Kiln struct {
	// Name is the name of its process and of its log.
	Name string
	// Binary is the path of kiln.
	Binary string
	// Args are flags beside those that say where and who.
	Args []string
	// Alive makes Run return when the process is alive, not only when it is
	// ready.
	Alive bool
	// Kubeconfig is the path of one that Admit made, or of one with the same rights
	// and another way to the server; without it Run admits the controller itself.
	Kubeconfig string
	// Secure: it guards its metrics.
	Secure bool
	// Env is added to the environment.
	Env []string
	// Mortal: it may end by itself.
	Mortal bool
}

// A Replica is a running controller.
type Replica struct {
	*cluster.Process
	// Metrics and Health are the URLs it answers at, Health without a path.
	Metrics, Health string
	// Log is the file it writes to.
	Log string
}

// Run starts a controller on a cluster, and gives it its rights first.
func (k Kiln) Run(ctx context.Context, c *cluster.Cluster) (*Replica, error) {
	kubeconfig := k.Kubeconfig
	if kubeconfig == "" {
		var err error
		if _, kubeconfig, err = Admit(ctx, c); err != nil {
			return nil, err
		}
	}
	metrics, health := cluster.FreeAddress(), cluster.FreeAddress()
	r := &Replica{
		Metrics: "http://" + metrics + "/metrics", Health: "http://" + health,
		Log: filepath.Join(c.LogDir, k.Name+".log"),
	}
	args := []string{
		"controller", "--kubeconfig=" + kubeconfig, "--leader-elect=true", "--leader-election-namespace=" + Home,
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
	}
	if k.Secure {
		r.Metrics = "https://" + metrics + "/metrics"
		args = append(args, "--metrics-secure")
	}
	healthy := r.Health + "/readyz"
	if k.Alive {
		healthy = r.Health + "/healthz"
	}
	var err error
	r.Process, err = c.Run(ctx, cluster.Program{
		Name: k.Name, Path: k.Binary,
		Args: append(args, k.Args...), Env: k.Env,
		Healthy: healthy, Mortal: k.Mortal,
	})
	return r, err
}

// Admit makes the account and its rights, and returns its access and the path of a
// kubeconfig with it.
func Admit(ctx context.Context, c *cluster.Cluster) (account *rest.Config, kubeconfig string, err error) {
	if account, kubeconfig, err = c.ServiceAccountConfig(ctx, Home, Account); err != nil {
		return nil, "", err
	}
	rights, err := Rights()
	if err != nil {
		return nil, "", err
	}
	return account, kubeconfig, Give(ctx, c, account, rights)
}

// Build builds kiln into a directory and returns its path.
func Build(ctx context.Context, dir string) (binary string, err error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "kiln")
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/kiln")
	command.Dir = root
	if said, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kiln: %w\n%s", err, said)
	}
	return binary, nil
}
