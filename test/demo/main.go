// Command demo shows Kiln at work on a control plane of its own: a warm pool,
// three claims and what becomes of them, a deletion, a cold start. It fails when
// anything it shows is not as promised.
//
// With STORY=rollout in the environment it shows instead how a pool follows a
// change of its template, once for each strategy, while claims arrive.
//
// With KEEP=1 in the environment it leaves the cluster up until Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

func main() { os.Exit(run()) }

// An interrupt is the signal that ended the demo early.
type interrupt struct{ syscall.Signal }

func (i interrupt) Error() string { return i.String() }

func run() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() { cancel(interrupt{(<-signals).(syscall.Signal)}) }()

	logs, err := os.MkdirTemp("", "kiln-demo-logs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		return 1
	}
	summary, err := play(ctx, logs)

	var by interrupt
	switch {
	case errors.As(context.Cause(ctx), &by) && !kept(summary):
		fmt.Fprintln(os.Stderr, "\ndemo: ended early:", err)
		os.RemoveAll(logs)
		return 128 + int(by.Signal)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ndemo: FAILED: %v\ndemo: the logs are in %s\n", err, logs)
		return 1
	}
	if err := os.RemoveAll(logs); err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		return 1
	}
	fmt.Println(summary)
	return 0
}

// kept reports whether a story that was told to its end stood open for Ctrl-C.
func kept(summary string) bool { return summary != "" && keep() }

func keep() bool { k := os.Getenv("KEEP"); return k != "" && k != "0" }

// play sets the stage, tells the story and clears the stage. It returns the
// story's last line.
func play(ctx context.Context, logs string) (summary string, err error) {
	heading("A control plane")
	c, err := cluster.Start(ctx, cluster.Options{
		CRDs: true, Manager: true, Scheduler: true, Nodes: 3,
		LogDir: logs, Progress: os.Stdout,
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()

	// A component that dies ends the story with what it had to say.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-c.Broken():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	s, err := newStory(ctx, c)
	if err != nil {
		return "", because(ctx, err)
	}
	tell, ok := map[string]func(context.Context) (string, error){"": s.tell, "rollout": s.rollOut}[os.Getenv("STORY")]
	if !ok {
		return "", fmt.Errorf("there is no story %q", os.Getenv("STORY"))
	}
	if summary, err = tell(ctx); err != nil {
		return "", because(ctx, err)
	}
	if keep() {
		fmt.Printf("\nThe cluster stays up. In another terminal:\n\n  export KUBECONFIG=%s\n  %s get sandboxclaims\n\nCtrl-C ends it.\n",
			c.KubeconfigPath, c.Kubectl)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.As(cause, new(interrupt)) {
			return "", cause
		}
		fmt.Println()
	}
	return summary, nil
}

// because prefers the reason for which ctx ended over what that made fail.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func heading(title string) { fmt.Printf("\n== %s\n", title) }
