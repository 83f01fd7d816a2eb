package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// startTimeout bounds how long a program may take to become healthy; grace how long
// it may take to end.
const (
	startTimeout = 60 * time.Second
	grace        = 15 * time.Second
)

// A Program is something to run beside the control plane.
type Program struct {
	// Name is its name in errors and of its log; one run at a time.
	Name string
	Path string
	Args []string
	// Env is added to the environment.
	Env []string
	// Healthy is the URL that answers 200 once it is up; empty means at once.
	Healthy string
	// Mortal: it may end by itself. Whoever runs it looks at Done; the cluster is not
	// broken by that.
	Mortal bool
}

// A Process is a running Program.
type Process struct {
	name    string
	log     string
	cmd     *exec.Cmd
	asked   chan struct{}
	done    chan struct{}
	mortal  bool
	cluster *Cluster
}

// Run starts a program and returns when it is healthy. Its output goes to its
// log file, and it is stopped with the cluster if not before.
func (c *Cluster) Run(ctx context.Context, p Program) (*Process, error) {
	run, err := c.launch(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if err := run.healthy(ctx, p.Healthy); err != nil {
		err = fmt.Errorf("%s: %w%s", p.Name, err, tail(run.log))
		run.Stop()
		return nil, err
	}
	return run, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is what the process ended with; -1 while it runs, or when a signal
// ended it.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Stop asks the process to end, and insists after a while.
func (p *Process) Stop() error {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		p.Kill()
		return fmt.Errorf("%s: did not end within %s, killed", p.name, grace)
	}
}

// Kill ends the process the hard way, as a crash does.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Pause stops the process where it is, as a machine does that has no time for it.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.expectEnd() // it may find that it is not needed any more
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

func (c *Cluster) launch(p Program) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.stopping:
		return nil, fmt.Errorf("the cluster is stopping")
	default:
	}
	shim, err := c.keeper.shim(p.Name, p.Path)
	if err != nil {
		return nil, err
	}
	log, err := c.logFile(p.Name)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	run := &Process{
		name: p.Name, log: log.Name(), cluster: c, mortal: p.Mortal,
		cmd:   exec.Command(shim, p.Args...),
		asked: make(chan struct{}, 1), done: make(chan struct{}),
	}
	run.cmd.Stdout, run.cmd.Stderr = log, log
	run.cmd.Env = append(os.Environ(), p.Env...)
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := run.cmd.Start(); err != nil {
		return nil, err
	}
	c.programs = append(c.programs, run)
	go run.wait()
	return run, nil
}

func (p *Process) wait() {
	err := p.cmd.Wait()
	p.cluster.keeper.forget(p.name)
	close(p.done)
	select {
	case <-p.asked:
	default:
		if !p.mortal {
			p.cluster.lost(p.name, err)
		}
	}
}

// Signal sends a signal that does not end the process, such as SIGSTOP.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

func (p *Process) signal(s syscall.Signal) {
	p.expectEnd()
	_ = p.cmd.Process.Signal(s)
}

// expectEnd has the cluster not take the end of the process for a breakdown.
func (p *Process) expectEnd() {
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

// lost reports a component that nobody asked to end.
func (c *Cluster) lost(name string, err error) {
	if err == nil {
		err = errors.New("exit status 0")
	}
	select {
	case <-c.stopping:
	default:
		select {
		case c.broken <- fmt.Errorf("%s: ended by itself: %w%s", name, err, tail(filepath.Join(c.LogDir, name+".log"))):
		default: // the first one counts
		}
	}
}

// PID is the process id of a component that runs, by its name; 0 if none does.
func (c *Cluster) PID(name string) int { return c.keeper.pid(name) }
