// Command e2e proves on a real node what no simulated one can: that Kiln, installed with its
// chart by helm, hands out containers that run, and never loses one. The control plane is the
// one of `make plane`; beside it run a kubelet, containerd and runc, with a bridge between the
// pods.
//
//	make e2e          every proof, in order, in a line each
//	KEEP=1 make e2e   the node alone, and a shell on it in which kubectl and helm work
//
// It needs root on Linux, and says which package or right is missing.
//
// # Design notes
//
// Nothing of it is seen from outside, and nothing is left behind. The program starts itself
// again in namespaces of its own, in which it is all there is (enclosure): the processes end,
// the bridge goes and what was mounted is unmounted when they end, however they end. What they
// write is in a tmpfs that goes with them. Only cgroups are the machine's; they are below one
// of our own, which a keeper removes that outlives everybody; and it takes back the controllers
// that were enabled for it.
//
// Services have addresses by kube-proxy and names by CoreDNS, as in every cluster. But the API
// server itself has the first address of their range and port 443, which is where every pod is
// told to look for it, because its certificate is for the address at which it listens.
//
// Cgroups may be of either version. Those of the second need controllers cpu, memory and pids,
// which cgroups of the first may hold. Nothing is asked of systemd, whoever has the machine's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// longest is how long all of it may take. It takes a third of that on two cores.
const longest = 15 * time.Minute

func main() {
	if e, ok := enclosed(); ok {
		os.Exit(e.run())
	}
	os.Exit(run())
}

// run starts the program again in an enclosure, and keeps the logs if it fails.
func run() int {
	if missing := missing(); len(missing) > 0 {
		for _, what := range missing {
			fmt.Fprintln(os.Stderr, "e2e:", what)
		}
		return failed(errors.New("this machine can not run a node as it is"))
	}
	e, err := newEnclosure()
	if err != nil {
		return failed(err)
	}
	code, err := e.enter()
	if err != nil {
		code = failed(err)
	}
	if err := e.remove(code != 1); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "e2e: FAILED:", err)
	return 1
}

// play is what happens in the enclosure.
func play(logs, group string) int {
	ctx, cancel := stage.Interruptible(context.Background())
	if keep() { // Ctrl-C is the shell's
		cancel()
		ctx, cancel = signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
	defer cancel()
	begun := time.Now()
	err := prove(ctx, logs, group)
	by, interrupted := stage.Interrupted(ctx)
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "\ne2e: ended early:", by)
		return by.Code()
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ne2e: FAILED: %v\ne2e: the logs are in %s\n", err, logs)
		return 1
	case keep():
		return 0
	}
	fmt.Printf("\ne2e: all is proved, in %s\n", time.Since(begun).Round(time.Second))
	return 0
}

func keep() bool { k := os.Getenv("KEEP"); return k != "" && k != "0" }

// prove brings up control plane and node, and proves one thing after the other.
func prove(ctx context.Context, logs, group string) (err error) {
	fmt.Println("\n== A control plane and a node")
	c, err := cluster.Start(ctx, cluster.Options{
		Manager: true, Controllers: []string{"*"}, Scheduler: true,
		Address: apiServer, Admission: true, LogDir: logs, Progress: os.Stdout,
		// The name of a node is known to nobody.
		APIServerFlags: map[string][]string{"kubelet-preferred-address-types": {"InternalIP"}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	ctx, cancel := c.While(ctx)
	defer cancel()
	s, err := newStand(ctx, c, group)
	if err != nil {
		return because(ctx, err)
	}
	defer func() { err = errors.Join(err, s.node.stop()) }()
	if keep() {
		return because(ctx, s.shell(ctx))
	}
	ctx, done := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it takes longer than %s", longest))
	defer done()
	if err := s.prove(ctx); err != nil {
		return errors.Join(because(ctx, err), s.look())
	}
	return nil
}

// because says also why ctx ended, if that is what made something fail.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}
