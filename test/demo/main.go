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
	"strings"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, cancel := stage.Interruptible(context.Background())
	defer cancel()

	logs, err := os.MkdirTemp("", "kiln-demo-logs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		return 1
	}
	summary, err := play(ctx, logs)

	by, interrupted := stage.Interrupted(ctx)
	switch {
	case interrupted && !kept(summary):
		fmt.Fprintln(os.Stderr, "\ndemo: ended early:", err)
		os.RemoveAll(logs)
		return by.Code()
	case err != nil && summary != "": // the story was told, and ended as promised
		fmt.Fprintln(os.Stderr, overdue(err))
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

// overdue says in one line that the control plane did not stop by itself.
func overdue(err error) string {
	return "demo: the control plane did not stop in time: " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// kept reports whether a story that was told to its end stood open for Ctrl-C.
func kept(summary string) bool { return summary != "" && keep() }

func keep() bool { k := os.Getenv("KEEP"); return k != "" && k != "0" }

// play sets the stage, tells the story and clears the stage. It returns the
// story's last line, also when only the stage could not be cleared.
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
	ctx, cancel := c.While(ctx)
	defer cancel()
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
		if _, ok := stage.Interrupted(ctx); !ok {
			return "", context.Cause(ctx)
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
