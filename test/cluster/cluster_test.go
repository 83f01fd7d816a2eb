package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

func TestStartAndStop(t *testing.T) {
	temp := ownTemp(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	nothingLeft(t, temp)
}

// ownTemp lets everything this test starts make its directories below one that
// only this test looks at. A component carries that path in its arguments.
func ownTemp(t *testing.T) string {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	return temp
}

func nothingLeft(t *testing.T, temp string) {
	t.Helper()
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("left behind: directory %s", entry.Name())
	}
	for _, command := range processes(t, temp) {
		t.Errorf("left behind: process %s", command)
	}
}

// processes returns the command lines that name a path.
func processes(t *testing.T, path string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, line := range lines {
		command, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(command), path) {
			named = append(named, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return named
}
