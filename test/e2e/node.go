package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/image"
)

// Addresses. The API server has the first of the Services' range, by which pods look for
// it, and the node one that a kubelet accepts, which a loopback's own is not.
const (
	apiServerIP  = "10.0.0.1"
	apiServer    = apiServerIP + ":443"
	serviceRange = "10.0.0.0/24" // envtest's
	nodeIP       = "10.99.0.1"
	podRange     = "10.88.0.0/16"
	nodeName     = "e2e"
)

// Where containerd and the kubelet listen; the ports are loopback's, and the enclosure's
// alone.
const (
	runtimeSocket = "/run/containerd/containerd.sock"
	runtimeHealth = "127.0.0.1:1338"
	kubeletPort   = "10248"
)

// A node is a kubelet and what it needs to run containers.
type node struct {
	cluster *cluster.Cluster
	dir     string
	kubelet *cluster.Process
	program cluster.Program
}

//go:embed node/containerd.toml
var containerdConfig string

//go:embed node/network.conflist
var networkConfig string

//go:embed node/kubelet.yaml
var kubeletConfig string

// settings are what the configurations of a node say.
type settings struct {
	Name, Address, Domain, Kubeconfig, Dir                string
	Plugins, Pause, Runtime, Pods, Group, KubeletPort     string
	RuntimeHealth, ProxyHealth, ProxyMetrics, NamesHealth string
}

// startNode starts a node beside a control plane, and returns when it is ready for pods and
// Services.
func startNode(ctx context.Context, c *cluster.Cluster, group string) (*node, error) {
	// Not in the directory of the control plane, which could not remove what is mounted here.
	n := &node{cluster: c, dir: filepath.Join(os.TempDir(), "node")}
	if err := n.configure(group); err != nil {
		return nil, err
	}
	if _, err := c.Run(ctx, cluster.Program{
		Name: "containerd", Path: n.path("containerd"), Args: []string{"--config=" + filepath.Join(n.dir, "containerd.toml")},
		Healthy: "http://" + runtimeHealth + "/v1/metrics",
	}); err != nil {
		return nil, err
	}
	if err := n.load(ctx); err != nil {
		return nil, err
	}
	kubelet, err := built("kubelet")
	if err != nil {
		return nil, err
	}
	n.program = cluster.Program{
		Name: "kubelet", Path: kubelet, Args: []string{
			"--config=" + filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig=" + c.KubeconfigPath, "--hostname-override=" + nodeName,
			"--node-ip=" + nodeIP, "--root-dir=" + filepath.Join(n.dir, "kubelet"), "--cert-dir=" + filepath.Join(n.dir, "kubelet-certs"), "--v=2",
		},
		Healthy: "http://127.0.0.1:" + kubeletPort + "/healthz",
	}
	if err := n.start(ctx); err != nil {
		return nil, err
	}
	return n, n.connect(ctx)
}

// path is where a program of this machine is; missing has seen that it is there.
func (n *node) path(program string) string {
	path, err := exec.LookPath(program)
	if err != nil {
		return program
	}
	return path
}

// configure writes the configurations.
func (n *node) configure(group string) error {
	dir, err := pluginDir()
	if err != nil {
		return err
	}
	s := settings{
		Name: nodeName, Address: nodeIP, Domain: domain, Kubeconfig: n.cluster.KubeconfigPath, Dir: n.dir,
		Plugins: dir, Pause: pauseImage, Runtime: runtimeSocket, Pods: podRange, Group: group, KubeletPort: kubeletPort,
		RuntimeHealth: runtimeHealth, ProxyHealth: proxyHealth, ProxyMetrics: proxyMetrics, NamesHealth: namesHealth,
	}
	var errs []error
	for _, sub := range []string{"", "networks", "volume"} {
		errs = append(errs, os.MkdirAll(filepath.Join(n.dir, sub), 0o755))
	}
	// Whoever runs in a pod may write there: nobody changes the owner of a directory of the host.
	errs = append(errs, os.Chmod(n.volume(), 0o777))
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "networks/pods.conflist": networkConfig, "kubelet.yaml": kubeletConfig,
		"proxy.yaml": proxyConfig, "Corefile": namesConfig, "resolv.conf": "# Who looks for names elsewhere finds none.\n",
	} {
		var out strings.Builder
		t, err := template.New(name).Parse(text)
		if err == nil {
			err = t.Execute(&out, s)
		}
		errs = append(errs, err, os.WriteFile(filepath.Join(n.dir, name), []byte(out.String()), 0o644))
	}
	return errors.Join(errs...)
}

// volume is a directory of the node for a PersistentVolume.
func (n *node) volume() string { return filepath.Join(n.dir, "volume") }

// start starts the kubelet, for the first time or again, and returns when the node is ready.
func (n *node) start(ctx context.Context) (err error) {
	if n.kubelet, err = n.cluster.Run(ctx, n.program); err != nil {
		return err
	}
	return n.cluster.Await(ctx, schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "", nodeName, cluster.True("Ready"))
}

// ctr asks containerd.
func (n *node) ctr(ctx context.Context, args ...string) (string, error) {
	said, err := exec.CommandContext(ctx, n.path("ctr"), append([]string{"--address=" + runtimeSocket, "--namespace=k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return string(said), nil
}

// Images. The two versions of the sandbox's differ in what its process says of itself.
const (
	pauseImage = "localhost/pause:1"
	imageOne   = "localhost/sandbox:1"
	imageTwo   = "localhost/sandbox:2"
	// what stands for the agent-sandbox controller
	imageIncumbent = "localhost/agent-sandbox-controller:1"
)

// load gives containerd every image that is needed: there is no registry.
func (n *node) load(ctx context.Context) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	kiln := filepath.Join(root, "bin", "kiln-image.tar")
	if _, err := os.Stat(kiln); err != nil {
		return fmt.Errorf("%w: run make image", err)
	}
	binary, err := os.ReadFile(filepath.Join(root, "bin", "node", "sandbox"))
	if err != nil {
		return fmt.Errorf("%w: run make e2e", err)
	}
	incumbent, err := os.ReadFile(filepath.Join(root, "bin", "node", "incumbent"))
	if err != nil {
		return fmt.Errorf("%w: run make e2e", err)
	}
	if _, err := n.ctr(ctx, "images", "import", kiln); err != nil {
		return err
	}
	for _, s := range []image.Static{
		{Name: pauseImage, Binary: binary, Entrypoint: []string{"/sandbox", "pause"}},
		{Name: imageOne, Binary: binary, Entrypoint: []string{"/sandbox"}, Env: []string{"VERSION=1"}},
		{Name: imageTwo, Binary: binary, Entrypoint: []string{"/sandbox"}, Env: []string{"VERSION=2"}},
		{Name: imageIncumbent, Binary: incumbent, Entrypoint: []string{"/agent-sandbox-controller"}},
	} {
		archive, err := s.Archive()
		if err != nil {
			return err
		}
		file := filepath.Join(n.dir, "image.tar")
		if err := os.WriteFile(file, archive, 0o644); err != nil {
			return err
		}
		if _, err := n.ctr(ctx, "images", "import", file); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the kubelet and every container: whoever in them asks the API server would keep it
// from ending.
func (n *node) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := n.kubelet.Stop()
	running, listed := n.ctr(ctx, "tasks", "list", "--quiet")
	for _, id := range lines(running) {
		_, _ = n.ctr(ctx, "tasks", "kill", "--signal=SIGKILL", id) // it may have ended by itself
	}
	return errors.Join(err, listed)
}
