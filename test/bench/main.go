// Command bench runs kiln bench on a control plane of its own, and writes what it
// found to bin/bench.
//
//	bench [flags and scenarios of kiln bench]
//
// Without any it runs all scenarios, in a way that takes about ten minutes on two
// cores. With AGAINST in the environment, paths of other kilns with commas between them,
// it measures all of them in turns on the same control plane, ROUNDS times (three), and
// compares each with this one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, cancel := stage.Interruptible(context.Background())
	defer cancel()

	logs, err := os.MkdirTemp("", "kiln-bench-logs-")
	if err != nil {
		return failed(err, "")
	}
	err = play(ctx, logs, os.Args[1:])
	if err != nil {
		logged := "; the logs are in " + logs
		if _, ok := stage.Interrupted(ctx); ok {
			os.RemoveAll(logs)
			logged = ""
		}
		return failed(err, logged)
	}
	os.RemoveAll(logs)
	return 0
}

func failed(err error, logs string) int {
	fmt.Fprintf(os.Stderr, "bench: FAILED: %v%s\n", err, logs)
	return 1
}

// usual are all scenarios, as they fit into ten minutes on two cores.
var usual = []string{
	"floor", "serial", "sustained", "rollout", "sweep", "burst", "scale",
	"--duration=15s", "--rates=15,20,25,30,40",
}

// nodes is how many nodes are simulated.
const nodes = 20

// play sets the stage, measures and clears the stage.
func play(ctx context.Context, logs string, args []string) (err error) {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = usual
	}
	c, err := cluster.Start(ctx, cluster.Options{
		CRDs: true, Manager: true, Scheduler: true, Nodes: nodes, LogDir: logs, Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	ctx, cancel := c.While(ctx)
	defer cancel()
	s := stand{cluster: c, tool: filepath.Join(root, "bin", "kiln"), out: filepath.Join(root, "bin", "bench"), args: args}
	if others := os.Getenv("AGAINST"); others != "" {
		err = s.inTurns(ctx, strings.Split(others, ","))
	} else {
		err = s.measure(ctx, turn{name: "report", controller: s.tool})
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// rounds is how often two controllers take turns.
func rounds() (int, error) {
	text := os.Getenv("ROUNDS")
	if text == "" {
		return 3, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("ROUNDS is %q; give a whole number", text)
	}
	return n, nil
}
