package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// controllers are the parts of kube-controller-manager that matter to sandboxes.
const controllers = "garbage-collector-controller,namespace-controller,resourcequota-controller,serviceaccount-controller"

func (c *Cluster) startManager(ctx context.Context) error {
	port := FreePort()
	authority := filepath.Join(c.Dir, "ca.crt")
	if err := os.WriteFile(authority, c.Config.CAData, 0o644); err != nil {
		return err
	}
	return c.keep(ctx, Program{
		Name: "kube-controller-manager",
		Path: c.assets["kube-controller-manager"],
		Args: append(c.common(port), "--root-ca-file="+authority, "--controllers="+strings.Join(append([]string{controllers}, c.options.Controllers...), ",")),
		// Its own health says nothing of the garbage collector, which takes
		// another moment to look around.
		Healthy: "https://" + net.JoinHostPort(loopback, port) + "/healthz",
		Mortal:  c.options.Restart,
	})
}

func (c *Cluster) startScheduler(ctx context.Context) error {
	port := FreePort()
	return c.keep(ctx, Program{
		Name:    "kube-scheduler",
		Path:    c.assets["kube-scheduler"],
		Args:    c.common(port),
		Healthy: "https://" + net.JoinHostPort(loopback, port) + "/readyz",
		Mortal:  c.options.Restart,
	})
}

// restarts is how often in a row a component may fail to start again, and pause how
// long it stays away each time.
const (
	restarts = 5
	pause    = time.Second
)

// keep runs a component, and if it is mortal runs it again whenever it ends.
func (c *Cluster) keep(ctx context.Context, p Program) error {
	run, err := c.Run(ctx, p)
	if err != nil || !p.Mortal {
		return err
	}
	go func() {
		for failed := 0; failed < restarts; {
			if err == nil {
				<-run.Done()
			}
			select {
			case <-c.stopping:
				return
			case <-time.After(pause):
			}
			failed++
			if run, err = c.Run(context.Background(), p); err == nil {
				failed = 0
			}
		}
		c.lost(p.Name, err)
	}()
	return nil
}

// common are the flags that controller manager and scheduler share.
func (c *Cluster) common(port string) []string {
	return []string{
		"--kubeconfig=" + c.KubeconfigPath,
		"--bind-address=" + loopback,
		"--secure-port=" + port,
		"--leader-elect=false",
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}
}

//go:embed stages.yaml
var stages []byte

// node is one simulated node. Capacities are plain integers: not every reader
// knows the suffixes.
const node = `
apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  annotations: {kwok.x-k8s.io/node: fake}
  labels:
    kubernetes.io/hostname: %[1]s
    kubernetes.io/os: linux
    kubernetes.io/arch: amd64
    type: kwok
status:
  capacity: &all {cpu: "1000", memory: "1099511627776", pods: "9999", ephemeral-storage: "1099511627776"}
  allocatable: *all
`

// startNodes runs kwok, which plays the kubelet of every node annotated as fake
// and of no other.
func (c *Cluster) startNodes(ctx context.Context) error {
	for i := range c.options.Nodes {
		if err := c.Apply(ctx, fmt.Appendf(nil, node, nodeName(i))); err != nil {
			return err
		}
	}
	config := filepath.Join(c.Dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o644); err != nil {
		return err
	}
	address := FreeAddress()
	if err := c.keep(ctx, Program{
		Name: "kwok",
		Path: c.assets["kwok"],
		Args: []string{
			"--kubeconfig=" + c.KubeconfigPath,
			"--config=" + config,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--server-address=" + address,
			"--cidr=10.128.0.1/16",
			"--node-ip=10.127.0.1",
		},
		Healthy: "http://" + address + "/healthz",
		// kwok keeps its settings under the home directory.
		Env: []string{"HOME=" + c.Dir},
		// A fault of its own ended it in the middle of a test once. It has no state: the
		// next one goes on.
		Mortal: true,
	}); err != nil {
		return err
	}
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	for i := range c.options.Nodes {
		if err := c.Await(ctx, nodes, "", nodeName(i), True("Ready")); err != nil {
			return err
		}
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }
