package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

// Where the controller lives and who it is.
const (
	home    = "agent-sandbox-system"
	account = "agent-sandbox-controller"
)

// startKiln runs the controller as a process of its own, with the rights that
// the chart gives it and no more. It returns where its metrics are.
func startKiln(ctx context.Context, c *cluster.Cluster, root string) (metrics string, err error) {
	binary := filepath.Join(root, "bin", "kiln")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("%w: run make build", err)
	}
	begun := time.Now()
	_, kubeconfig, err := c.ServiceAccountConfig(ctx, home, account)
	if err != nil {
		return "", err
	}
	rights, err := os.ReadFile(filepath.Join(root, "helm", "kiln", "files", "rbac.yaml"))
	if err != nil {
		return "", err
	}
	if err := c.Apply(ctx, rights); err != nil {
		return "", err
	}
	metrics, health := cluster.FreeAddress(), cluster.FreeAddress()
	if _, err := c.Run(ctx, cluster.Program{
		Name: "kiln",
		Path: binary,
		Args: []string{
			"controller",
			"--kubeconfig=" + kubeconfig,
			"--leader-elect=true",
			"--leader-election-namespace=" + home,
			"--metrics-bind-address=" + metrics,
			"--health-probe-bind-address=" + health,
		},
		Healthy: "http://" + health + "/readyz",
	}); err != nil {
		return "", err
	}
	fmt.Printf("  %-28s %5.1fs  as %s/%s\n", "kiln controller", time.Since(begun).Seconds(), home, account)
	return "http://" + metrics + "/metrics", nil
}
