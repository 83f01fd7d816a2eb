package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// A stand is where controllers are measured.
type stand struct {
	cluster *cluster.Cluster
	// tool is the kiln that measures, out the directory of reports.
	tool, out string
	// args are flags and scenarios.
	args []string
}

// A turn is one controller, measured once.
type turn struct {
	// name is that of the report.
	name       string
	controller string
	round      int
}

// measured are the processes whose CPU is told.
var measured = []string{"kube-apiserver", "etcd", "kiln", "kube-controller-manager", "kube-scheduler", "kwok"}

// measure runs a controller for as long as it is measured.
func (s stand) measure(ctx context.Context, t turn) (err error) {
	replica, err := stage.Kiln{Name: "kiln", Binary: t.controller}.Run(ctx, s.cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, replica.Stop()) }()
	var processes []string
	for _, name := range measured {
		processes = append(processes, name+"="+strconv.Itoa(s.cluster.PID(name)))
	}
	report := filepath.Join(s.out, t.name)
	if t.round <= 1 {
		if err := os.Remove(report + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	args := append([]string{
		"bench", "--kubeconfig=" + s.cluster.KubeconfigPath, "--processes=" + strings.Join(processes, ","),
		"--out=" + report + ".json", "--html=" + report + ".html", "--append", "--seed=" + strconv.Itoa(t.round+1),
	}, s.args...)
	if t.name == "report" {
		args = append(args, "--keep") // the whole control plane goes
	}
	if err := run(ctx, s.tool, args...); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	fmt.Fprintf(os.Stderr, "bench: %s.json and %s.html\n", report, report)
	return nil
}

// inTurns measures this controller and another in turns: what the machine does besides
// meets both. A is the other, B this one.
func (s stand) inTurns(ctx context.Context, other string) error {
	n, err := rounds()
	if err != nil {
		return err
	}
	for i := range n {
		turns := []turn{{"a", other, i + 1}, {"b", s.tool, i + 1}}
		if i%2 == 1 {
			turns[0], turns[1] = turns[1], turns[0]
		}
		for _, t := range turns {
			if err := s.measure(ctx, t); err != nil {
				return err
			}
		}
	}
	return run(ctx, s.tool, "bench", "compare", filepath.Join(s.out, "a.json"), filepath.Join(s.out, "b.json"))
}

// run runs a program to its end, or ends it: what it would clean up goes with the
// control plane.
func run(ctx context.Context, path string, args ...string) error {
	command := exec.CommandContext(ctx, path, args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program
	return command.Run()
}
