package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

//go:embed node/proxy.yaml
var proxyConfig string

//go:embed node/Corefile
var namesConfig string

// Where kube-proxy and CoreDNS say how they are.
const (
	proxyHealth  = "127.0.0.1:10256"
	proxyMetrics = "127.0.0.1:10249"
	namesHealth  = "127.0.0.1:8181"
)

// domain is what the names of Services end with.
const domain = "cluster.local"

// connect starts what gives Services their addresses and their names.
func (n *node) connect(ctx context.Context) error {
	if err := n.leaveAlone(ctx, metav1.NamespaceDefault, "kubernetes"); err != nil {
		return err
	}
	for _, p := range []cluster.Program{
		{
			Name: "kube-proxy", Args: []string{"--config=" + filepath.Join(n.dir, "proxy.yaml")},
			Healthy: "http://" + proxyHealth + "/healthz",
		},
		{
			Name: "coredns", Args: []string{"-conf=" + filepath.Join(n.dir, "Corefile")},
			Healthy: "http://" + namesHealth + "/ready",
		},
	} {
		var err error
		if p.Path, err = built(p.Name); err != nil {
			return err
		}
		if _, err := n.cluster.Run(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// leaveAlone has kube-proxy translate nothing for a Service. The API server itself has the
// address of Service kubernetes, and who is connected to it already would lose the connection.
func (n *node) leaveAlone(ctx context.Context, namespace, service string) error {
	c, err := kubernetes.NewForConfig(n.cluster.Config)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Services(namespace).Patch(ctx, service, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"nobody"}}}`), metav1.PatchOptions{})
	return err
}

// built is a program that make node builds.
func built(program string) (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "node", program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run make node", err)
	}
	return path, nil
}
