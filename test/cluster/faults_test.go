package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

func TestTwoAtOnceDoNotMeet(t *testing.T) {
	temp := ownTemp(t)
	started := make(chan *cluster.Cluster, 2)
	for range 2 {
		go func() {
			c, err := cluster.Start(t.Context(), cluster.Options{Scheduler: true})
			if err != nil {
				t.Error(err)
			}
			started <- c
		}()
	}
	a, b := <-started, <-started
	if a == nil || b == nil {
		t.FailNow()
	}
	if a.Dir == b.Dir || a.Config.Host == b.Config.Host {
		t.Errorf("both are in %s at %s", a.Dir, a.Config.Host)
	}
	for _, c := range []*cluster.Cluster{a, b} {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	nothingLeft(t, temp)
}

func TestABadBinaryIsNamed(t *testing.T) {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
		t.Run(name, func(t *testing.T) {
			assets := t.TempDir()
			script := "#!/bin/sh\n[ \"$*\" = --help ] || { echo no such luck; exit 3; }\n"
			if err := os.WriteFile(filepath.Join(assets, name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBEBUILDER_ASSETS", assets)
			temp := ownTemp(t)
			_, err := cluster.Start(t.Context(), cluster.Options{Scheduler: true})
			if err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), "no such luck") {
				t.Errorf("got %v", err)
			}
			nothingLeft(t, temp)
		})
	}
}

func TestMissingBinariesAreNamed(t *testing.T) {
	t.Chdir("/")
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	_, err := cluster.Start(t.Context(), cluster.Options{})
	if err == nil || !strings.Contains(err.Error(), "no etcd, kube-apiserver, kubectl in ") ||
		!strings.HasSuffix(err.Error(), "run make plane") {
		t.Errorf("got %v", err)
	}
}

func TestADeathIsReported(t *testing.T) {
	temp := ownTemp(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Scheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(filepath.Join(c.Dir, "run", "kube-apiserver.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(note)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.Broken():
		if !strings.HasPrefix(err.Error(), "kube-apiserver: ") {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing reported")
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, temp)
}

// A scheduler that finds its own view wrong ends itself, and is started again where that is
// asked for. The simulated kubelet always is.
func TestAComponentThatEndsIsStartedAgain(t *testing.T) {
	for name, options := range map[string]cluster.Options{
		"kube-scheduler": {Scheduler: true, Restart: true},
		"kwok":           {Nodes: 1},
	} {
		t.Run(name, func(t *testing.T) { startsAgain(t, name, options) })
	}
}

func startsAgain(t *testing.T, name string, options cluster.Options) {
	t.Helper()
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	before := c.PID(name)
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func() int { return c.PID(name) }, "1m").ShouldNot(Or(BeZero(), Equal(before)))
	select {
	case err := <-c.Broken():
		t.Error(err)
	default:
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// An interrupt comes when it likes: these moments fall into etcd's start, the
// API server's, and that of the rest.
func TestInterruptedStartLeavesNothing(t *testing.T) {
	for _, after := range []time.Duration{0, 150 * time.Millisecond, time.Second, 3200 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			temp := ownTemp(t)
			interrupt := errors.New("interrupt")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(after, func() { cancel(interrupt) })
			c, err := cluster.Start(ctx, cluster.Options{CRDs: true, Manager: true, Scheduler: true, Nodes: 1})
			if err == nil {
				t.Log("was up before the interrupt")
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, interrupt) && ctx.Err() == nil {
				t.Errorf("got %v", err)
			}
			nothingLeft(t, temp)
		})
	}
}

// asParent makes a second run of this test binary start a cluster and wait for
// the end of it, which comes from outside.
const asParent = "CLUSTER_TEST_AS_PARENT"

func TestAKilledProgramLeavesNothing(t *testing.T) {
	if os.Getenv(asParent) != "" {
		if _, err := cluster.Start(t.Context(), cluster.Options{Scheduler: true}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("up")
		select {}
	}
	temp := ownTemp(t)
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), asParent+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "up\n" {
		t.Fatalf("said %q: %v", said, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for range 100 { // the keeper is nobody's child now: there is nothing to wait for
		if left, _ := os.ReadDir(temp); len(left) == 0 && len(processes(t, temp)) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	nothingLeft(t, temp)
}
