package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// An enclosure is the namespaces in which the node runs, seen from outside and, by the
// processes in it, from inside.
type enclosure struct {
	work   string    // an empty directory; inside it is where everything is written
	logs   string    // a directory that stays when something fails
	groups grouping  // how its cgroup is made
	keeper *exec.Cmd // removes what is left outside, also when this process can not
	alive  io.Closer // whose end the keeper waits for
}

// The roles of the processes that this program starts. Inside, the first starts the second, and
// then only takes in orphans, as the first process of a machine does.
const (
	roleVariable   = "KILN_E2E_ROLE"
	workVariable   = "KILN_E2E_WORK"
	logsVariable   = "KILN_E2E_LOGS"
	handedVariable = "KILN_E2E_HANDED" // the controllers that the keeper leaves enabled
	roleKeeper     = "keeper"
	roleInit       = "init"
	roleProgram    = "program"
)

func newEnclosure() (*enclosure, error) {
	g, err := findGroups(groups)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "kiln-e2e-")
	if err != nil {
		return nil, err
	}
	e := &enclosure{work: work, groups: g}
	if e.logs, err = os.MkdirTemp("", "kiln-e2e-logs-"); err != nil {
		return nil, err
	}
	e.keeper = e.command(roleKeeper)
	e.keeper.Env = append(e.keeper.Env, handedVariable+"="+strings.Join(g.handed, " "))
	e.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if e.alive, err = e.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	return e, e.keeper.Start()
}

// enclosed returns the enclosure that this process is in, if it is in one.
func enclosed() (*enclosure, bool) {
	_, ok := os.LookupEnv(roleVariable)
	return &enclosure{work: os.Getenv(workVariable), logs: os.Getenv(logsVariable)}, ok
}

// group is the name of the cgroup of all containers.
func (e *enclosure) group() string { return filepath.Base(e.work) }

// command is this program in a role.
func (e *enclosure) command(role string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }),
		"TMPDIR="+e.work, roleVariable+"="+role, workVariable+"="+e.work, logsVariable+"="+e.logs)
	return c
}

// enter runs the program in new namespaces and returns its exit code. When this process
// dies, so does everything in them.
func (e *enclosure) enter() (code int, err error) {
	if err := e.groups.make(e.group()); err != nil {
		return 1, err
	}
	// The signal of a parent's death is bound to the thread.
	runtime.LockOSThread()
	c := e.command(roleInit)
	c.Stdin = os.Stdin // for a shell
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
		// Ctrl-C reaches us alone, and is passed on once; but a shell has to have the terminal.
		Setpgid: !keep(),
	}
	if err := c.Start(); err != nil {
		return 1, fmt.Errorf("new namespaces: %w: that takes the capability CAP_SYS_ADMIN", err)
	}
	defer pass(c.Process)()
	err = c.Wait()
	if code = c.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 1, err
}

// pass passes signals that ask to end on to a process.
func pass(to *os.Process) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGINT || !keep() { // the shell's own, then
					_ = to.Signal(s)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// remove has the keeper remove what the enclosure leaves outside; its logs go as well, if they
// tell nothing.
func (e *enclosure) remove(logs bool) error {
	e.alive.Close()
	err := e.keeper.Wait()
	if logs {
		err = errors.Join(err, os.RemoveAll(e.logs))
	}
	return err
}

// ending is how long processes that were killed may take to be gone.
const ending = 20 * time.Second

// guard waits until who started it all has ended, and removes what that leaves.
func (e *enclosure) guard() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	var left error
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, ending, true, func(context.Context) (bool, error) {
		left = e.ungroup()
		return left == nil, nil
	})
	if err != nil {
		err = left
	}
	return errors.Join(err, takeBack(groups, strings.Fields(os.Getenv(handedVariable))), os.Remove(e.work))
}

// ungroup removes the cgroups that containers were in, under each hierarchy there is. Their
// processes have ended.
func (e *enclosure) ungroup() error {
	var ours []string
	err := filepath.WalkDir(groups, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // others come and go
		case err != nil:
			return err
		case d.IsDir() && strings.Contains(path+"/", "/"+e.group()+"/"):
			ours = append(ours, path)
		}
		return nil
	})
	slices.Reverse(ours) // the innermost first
	for _, path := range ours {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// run is what this process does in its role.
func (e *enclosure) run() int {
	switch os.Getenv(roleVariable) {
	case roleProgram:
		return play(e.logs, "/"+e.group())
	case roleKeeper:
		if err := e.guard(); err != nil {
			return failed(err)
		}
		return 0
	}
	if err := e.furnish(); err != nil {
		return failed(err)
	}
	code, err := e.adopt()
	if err != nil {
		return failed(err)
	}
	return code
}

// adopt starts the program and takes in whoever has lost its parent until that ends.
func (e *enclosure) adopt() (code int, err error) {
	c := e.command(roleProgram)
	c.Stdin = os.Stdin
	if err := c.Start(); err != nil {
		return 1, err
	}
	defer pass(c.Process)()
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait: %w", err)
		case pid != c.Process.Pid:
		case status.Signaled():
			return 1, fmt.Errorf("it was ended by signal %d, %s", status.Signal(), status.Signal())
		default:
			return status.ExitStatus(), nil
		}
	}
}

// furnish makes the inside one's own: what is mounted and written here is not seen outside.
func (e *enclosure) furnish() error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"mounts of its own", func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") }},
		{"/proc", func() error { return syscall.Mount("proc", "/proc", "proc", 0, "") }},
		{"/run", func() error { return syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755") }},
		{e.work, func() error { return syscall.Mount("tmpfs", e.work, "tmpfs", 0, "mode=755") }},
		{"/var/lib", func() error { return e.overlay("/var/lib") }},
		{"/var/log", func() error { return e.overlay("/var/log") }},
		{"loopback", func() error { return ip("link", "set", "lo", "up") }},
		{"the address of the API server", func() error { return ip("address", "add", apiServerIP+"/32", "dev", "lo") }},
		// Or kube-proxy would never see what is for a Service that has no pods, and refuse it.
		{"a way to Services", func() error { return ip("route", "add", serviceRange, "dev", "lo") }},
		// Or only so many connections of a pod to such a Service are refused in a second, and the rest get no answer.
		{"no limit of refusals", func() error { return os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644) }},
		{"the address of the node", func() error { return ip("address", "add", nodeIP+"/32", "dev", "lo") }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// overlay shows a directory as it is, and keeps for itself what is written there.
func (e *enclosure) overlay(dir string) error {
	at := filepath.Join(e.work, "overlay", strings.ReplaceAll(dir[1:], "/", "-"))
	upper, work := filepath.Join(at, "upper"), filepath.Join(at, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	return syscall.Mount("overlay", dir, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work))
}

// ip runs the program that configures networks.
func ip(args ...string) error {
	if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return nil
}
