// Command sdk runs the published Python SDK of agent-sandbox against Kiln: on a
// control plane of its own, with a router faked on loopback. What the SDK does is
// in session.py; this program sets the stage, answers as a sandbox would, and
// fails when anything the session expects is not so.
//
//	sdk [--python PATH]    the interpreter that has k8s-agent-sandbox installed
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

var (
	//go:embed session.py
	session string
	//go:embed objects.yaml
	objects []byte
)

func main() {
	python := flag.String("python", "python3", "the interpreter that has k8s-agent-sandbox installed")
	flag.Parse()
	ctx, cancel := stage.Interruptible(context.Background())
	defer cancel()
	if err := run(ctx, *python); err != nil {
		fmt.Fprintln(os.Stderr, "sdk: FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("sdk: passed")
}

// run starts everything, runs the session and takes everything down.
func run(ctx context.Context, python string) (err error) {
	logs, err := os.MkdirTemp("", "kiln-sdk-logs-")
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		CRDs: true, Manager: true, Scheduler: true, Nodes: 2, LogDir: logs, Progress: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, c.Stop()); err != nil {
			err = fmt.Errorf("%w\nthe logs are in %s", err, logs)
			return
		}
		err = os.RemoveAll(logs)
	}()
	ctx, cancel := c.While(ctx)
	defer cancel()
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	binary := filepath.Join(root, "bin", "kiln")
	if _, err := (stage.Kiln{Name: "kiln", Binary: binary}).Run(ctx, c); err != nil {
		return err
	}
	if err := c.Apply(ctx, objects); err != nil {
		return err
	}
	connection, err := client.Connect(c.Config, nil)
	if err != nil {
		return err
	}
	router := serve(connection.Core.CoreV1())
	defer router.close()
	return play(ctx, python, c, router.url)
}

// play runs the session; what it prints is shown as it comes.
func play(ctx context.Context, python string, c *cluster.Cluster, router string) error {
	command := exec.CommandContext(ctx, python, "-u", "-c", session)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+c.KubeconfigPath, "ROUTER="+router, "PYTHONDONTWRITEBYTECODE=1")
	if err := command.Run(); err != nil {
		return fmt.Errorf("session.py: %w", err)
	}
	return nil
}
