// Command soak runs Kiln for as long as it is told on a whole control plane of its
// own, under a steady load of claims, while everything that can go wrong does: its
// replicas are stopped, killed and frozen, the API server and etcd are killed and
// started again, requests and answers are lost, refused and late, nodes go away,
// templates break, and hands change what is not theirs. Then the faults stop, and
// everything has to be in order.
//
//	MINUTES=60 SEED=1 soak
//
// Without MINUTES it takes three. Every random choice comes from SEED, which is printed;
// how fast the machine is remains chance. When something is wrong the program says
// what, and where its journal is: every change that the watches have shown and
// everything that was done, in a line each.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kiln-sandbox/kiln/test/stage"
)

func main() { os.Exit(run()) }

// closing is what the program takes beside the minutes of faults: to set the stage, to
// come to rest, and to clear it.
const closing = 15 * time.Minute

func run() int {
	minutes, err := number("MINUTES", 3)
	if err != nil {
		return failed(err)
	}
	seed, err := number("SEED", rand.Uint64N(1_000_000))
	if err != nil {
		return failed(err)
	}
	length := time.Duration(minutes) * time.Minute
	ctx, done := context.WithTimeoutCause(context.Background(), length+closing, errors.New("it takes far longer than it should"))
	defer done()
	ctx, cancel := stage.Interruptible(ctx)
	defer cancel()

	dir, err := os.MkdirTemp("", "kiln-soak-")
	if err != nil {
		return failed(err)
	}
	fmt.Printf("soak: %d minutes, SEED=%d\n", minutes, seed)
	err = play(ctx, dir, seed, length)

	by, interrupted := stage.Interrupted(ctx)
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "\nsoak: ended early:", by)
		os.RemoveAll(dir)
		return by.Code()
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nsoak: FAILED: %v\nsoak: SEED=%d, the journal is %s, the logs are beside it\n", err, seed, filepath.Join(dir, journalFile))
		return 1
	}
	if err := os.RemoveAll(dir); err != nil {
		return failed(err)
	}
	fmt.Printf("soak: %d minutes, SEED=%d: everything is in order\n", minutes, seed)
	return 0
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "soak: FAILED:", err)
	return 1
}

// number is what the environment says, if it says anything.
func number(name string, otherwise uint64) (uint64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is %q; give a whole number", name, text)
	}
	return n, nil
}
