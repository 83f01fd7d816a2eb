package cluster

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed keeper.sh
var keeperScript string

// A keeper is the last resort: the process that cleans up after a program that
// could not do so itself.
type keeper struct {
	dir  string
	cmd  *exec.Cmd
	pipe io.Closer
}

func newKeeper(dir string) (*keeper, error) {
	k := &keeper{dir: dir, cmd: exec.Command("sh", "-c", keeperScript, "kiln-keeper", dir)}
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := k.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	k.pipe = pipe
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		return nil, err
	}
	if err := k.cmd.Start(); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	return k, nil
}

// close lets the keeper remove the directory, and whatever still runs.
func (k *keeper) close() error {
	k.pipe.Close()
	if err := k.cmd.Wait(); err != nil {
		return fmt.Errorf("keeper: %s is not removed: %w", k.dir, err)
	}
	return nil
}

// shim writes the script that notes its process id and its arguments under name and
// then becomes the binary at path.
func (k *keeper) shim(name, path string) (string, error) {
	shim := filepath.Join(k.dir, "run", name)
	script := fmt.Sprintf("#!/bin/sh\necho $$ >'%[1]s.pid'\nprintf '%%s\\n' \"$@\" >'%[1]s.args'\nexec '%[2]s' \"$@\"\n", shim, path)
	// A process forked while the file is open for writing would keep it open,
	// and the kernel does not run a file that someone may still write.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return shim, os.WriteFile(shim, []byte(script), 0o755)
}

// args returns the arguments noted under name.
func (k *keeper) args(name string) ([]string, error) {
	note, err := os.ReadFile(filepath.Join(k.dir, "run", name+".args"))
	if err != nil {
		return nil, fmt.Errorf("%s: it was never started: %w", name, err)
	}
	return strings.Split(strings.TrimSuffix(string(note), "\n"), "\n"), nil
}

// pid returns the process id noted under name, or 0.
func (k *keeper) pid(name string) int {
	note, err := os.ReadFile(filepath.Join(k.dir, "run", name+".pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(note)))
	if err != nil {
		return 0
	}
	return pid
}

// forget strikes out the note of a process that has ended, before its id can
// belong to another.
func (k *keeper) forget(name string) {
	_ = os.Remove(filepath.Join(k.dir, "run", name+".pid"))
}

// watch calls gone when the process noted under name is no more, unless stop is
// closed first. It serves for processes that are not ours to wait for.
func (k *keeper) watch(name string, stop <-chan struct{}, gone func()) {
	pid := k.pid(name)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if pid == 0 || syscall.Kill(pid, 0) != nil {
				gone()
				return
			}
		}
	}
}
