package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A stand is a cluster with a node, and what the proofs know of it.
type stand struct {
	cluster *cluster.Cluster
	node    *node
	root    string
	helm    string
	clients world.Clients
	dynamic dynamic.Interface
	// tenants are the namespaces that are watched, by name.
	tenants map[string]*tenant
	// kept are the containers that have to outlive everything that follows.
	kept []kept
	// remark is added to the line of the proof that is shown.
	remark string
}

func newStand(ctx context.Context, c *cluster.Cluster, group string) (*stand, error) {
	s := &stand{cluster: c, tenants: map[string]*tenant{}}
	var err error
	if s.root, err = cluster.Root(); err != nil {
		return nil, err
	}
	s.helm = filepath.Join(s.root, "bin", "helm")
	h, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return nil, err
	}
	if s.clients.Kiln, err = client.New(c.Config, h); err != nil {
		return nil, err
	}
	if s.clients.Core, err = kubernetes.NewForConfigAndClient(c.Config, h); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfigAndClient(c.Config, h); err != nil {
		return nil, err
	}
	begun := time.Now()
	if s.node, err = startNode(ctx, c, group); err != nil {
		return nil, err
	}
	told("containerd, kubelet, kube-proxy and CoreDNS", begun)
	return s, nil
}

// told says in a line what came about, and how long that took.
func told(what string, begun time.Time) {
	fmt.Printf("  %-84s %5.1fs\n", what, time.Since(begun).Seconds())
}

// longestStep is how long one proof may take. Only what never comes about takes that.
const longestStep = 3 * time.Minute

// A proof is one thing that is shown. The first that fails is the last.
type proof struct {
	what string
	show func(context.Context) error
}

// run shows one thing after the other, and after each that nothing that is to be kept is lost.
func (s *stand) run(ctx context.Context, title string, proofs []proof) error {
	fmt.Printf("\n== %s\n", title)
	for _, p := range proofs {
		begun := time.Now()
		err := s.within(ctx, p.show)
		if err == nil {
			err = s.within(ctx, s.unhurt)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		told(p.what+s.remark, begun)
		s.remark = ""
	}
	return nil
}

func (s *stand) within(ctx context.Context, show func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longestStep, fmt.Errorf("after %s", longestStep))
	defer cancel()
	return show(ctx)
}

// kubectl runs kubectl as the administrator, as a reader would type it.
func (s *stand) kubectl(ctx context.Context, args ...string) (string, error) {
	return s.tool(ctx, s.cluster.Kubectl, "", args...)
}

// create has kubectl create objects of a manifest in a namespace.
func (s *stand) create(ctx context.Context, namespace, manifest string) error {
	_, err := s.tool(ctx, s.cluster.Kubectl, manifest, "-n", namespace, "create", "-f", "-")
	return err
}

func (s *stand) tool(ctx context.Context, path, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, path, args...)
	command.Dir, command.Env = s.root, s.environment()
	command.Stdin = strings.NewReader(input)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	said, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, said)
	}
	return string(said), nil
}

// environment is that of the administrator. The home directory is not the user's: kubectl and
// helm keep settings and caches there.
func (s *stand) environment() []string {
	return append(os.Environ(), "KUBECONFIG="+s.cluster.KubeconfigPath, "HOME="+filepath.Join(s.cluster.Dir, "home"),
		"PATH="+strings.Join([]string{filepath.Dir(s.cluster.Kubectl), filepath.Dir(s.helm), os.Getenv("PATH")}, ":"))
}

// shell runs the user's shell on the node, in the repository.
func (s *stand) shell(ctx context.Context) error {
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "sh"
	}
	fmt.Printf("\nA shell on the node, in which kubectl and helm work. Images are %s, %s and Kiln's; there is no registry.\n", imageOne, imageTwo)
	fmt.Printf("So this is how to run an example:\n  sed 's|python:3.13-slim|%s|; /command:/d' examples/quickstart.yaml | kubectl apply -f -\n", imageOne)
	command := exec.CommandContext(ctx, shell)
	command.Dir, command.Env = s.root, s.environment()
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := command.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil // whatever was typed last
	}
	return err
}

// looks are what is written down when something has failed, by the name of the file.
var looks = map[string][]string{
	"objects.txt":  {"get", "all,sandboxes,sandboxclaims,swp,sandboxtemplates,pvc,pv,networkpolicies,leases", "-A", "-o", "wide"},
	"pods.txt":     {"describe", "pods", "-A"},
	"claims.yaml":  {"get", "sandboxclaims,sandboxes,swp", "-A", "-o", "yaml"},
	"events.txt":   {"get", "events", "-A", "--sort-by=.lastTimestamp"},
	"kiln.log":     {"-n", home, "logs", "-l", "app=" + deployment, "--all-containers", "--prefix", "--tail=-1"},
	"previous.log": {"-n", home, "logs", "-l", "app=" + deployment, "--all-containers", "--prefix", "--tail=-1", "--previous"},
}

// look writes down how things stand, beside the logs of what runs, and returns what there is to
// read first.
func (s *stand) look() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, args := range looks {
		said, err := s.kubectl(ctx, args...)
		if err != nil {
			said += err.Error()
		}
		if err := os.WriteFile(filepath.Join(s.cluster.LogDir, name), []byte(said), 0o644); err != nil {
			return err
		}
	}
	pods, err := s.kubectl(ctx, "get", "pods", "-A", "-o", "wide")
	if err != nil {
		return err
	}
	said, err := s.kubectl(ctx, "-n", home, "logs", "-l", "app="+deployment, "--prefix", "--tail=5")
	if err != nil {
		said = err.Error()
	}
	return fmt.Errorf("the pods are\n%s\nand Kiln says at last\n%s", pods, said)
}
