package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsMissingIsSaidWithThePackageThatHasIt(t *testing.T) {
	machine(t)
	all := strings.Join(missing(), "\n")
	for _, want := range []string{
		"there is no containerd in PATH: the Debian package containerd has it",
		"there is no runc in PATH: the Debian package runc has it",
		"there is no iptables-restore in PATH: the Debian package iptables has it",
		"the Debian package containernetworking-plugins has them",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not said; it said\n%s", want, all)
		}
	}
}

func TestAMachineThatHasAllIsNotAskedForMore(t *testing.T) {
	machine(t, "containerd", "ctr", "runc", "iptables-restore", "ip", "mount", "bridge", "host-local", "loopback")
	for _, what := range missing() {
		if !strings.Contains(what, "root") && !strings.Contains(what, "Linux") { // who runs this test may lack those
			t.Error(what)
		}
	}
}

// machine has a test see a machine that has these programs and no others.
func machine(t *testing.T, programs ...string) {
	t.Helper()
	dir, were, was := t.TempDir(), plugins, groups
	for _, p := range programs {
		if err := os.WriteFile(filepath.Join(dir, p), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	plugins = []string{dir}
	groups = tree(t, "cpu/", "memory/", "pids/")
	t.Cleanup(func() { plugins, groups = were, was })
}
