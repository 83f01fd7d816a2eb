package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// inTurns measures this controller and others in turns: what the machine does besides
// meets all of them. Each of the others is compared with this one.
func (s stand) inTurns(ctx context.Context, others []string) error {
	n, err := rounds()
	if err != nil {
		return err
	}
	all, err := contestants(s.tool, others)
	if err != nil {
		return err
	}
	for round := range n {
		for i := range all {
			t := all[(i+round)%len(all)]
			t.round = round + 1
			err := s.measure(ctx, t)
			if broken := (*exec.ExitError)(nil); t.name != all[0].name && ctx.Err() == nil && errors.As(err, &broken) && broken.ExitCode() == 1 {
				fmt.Fprintf(os.Stderr, "bench: %s broke promises; it is compared all the same\n", t.controller)
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	for _, other := range all[1:] {
		fmt.Printf("\n%s, divided by %s:\n", s.tool, other.controller)
		if err := run(ctx, s.tool, "bench", "compare", filepath.Join(s.out, other.name+".json"), filepath.Join(s.out, all[0].name+".json")); err != nil {
			return err
		}
	}
	return nil
}

// contestants are this controller and others, to be measured in turns. The report of each
// other one is named after its binary.
func contestants(this string, others []string) ([]turn, error) {
	all := []turn{{name: "this", controller: this}}
	for _, path := range others {
		t := turn{name: filepath.Base(path), controller: path}
		if slices.ContainsFunc(all, func(o turn) bool { return o.name == t.name }) {
			return nil, fmt.Errorf("AGAINST has two reports named %s; name the binary %s differently", t.name, path)
		}
		all = append(all, t)
	}
	return all, nil
}

// run runs a program to its end, or ends it: what it would clean up goes with the
// control plane.
func run(ctx context.Context, path string, args ...string) error {
	command := exec.CommandContext(ctx, path, args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program
	return command.Run()
}
