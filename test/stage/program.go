package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// An Interrupt is the signal that ended a program early.
type Interrupt struct{ syscall.Signal }

// Error is the name of the signal.
func (i Interrupt) Error() string { return i.String() }

// Code is the exit code that a shell expects of a program that the signal ended.
func (i Interrupt) Code() int { return 128 + int(i.Signal) }

// Interruptible returns a context that ends at the first signal that asks the program to
// end. Its cause is an Interrupt then.
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-signals:
			cancel(Interrupt{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// Interrupted is the signal that ended a context, if one did.
func Interrupted(ctx context.Context) (by Interrupt, ok bool) {
	ok = errors.As(context.Cause(ctx), &by)
	return by, ok
}

// TestMain ends a test binary with the code that run returns. It gives run a context that
// ends at a signal, so that what was started is taken down, and a directory that is
// removed at the end. What fails beside the tests goes to standard error.
func TestMain(name string, run func(ctx context.Context, dir string) (code int, err error)) {
	code, err := inDir(name, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func inDir(name string, run func(context.Context, string) (int, error)) (code int, err error) {
	ctx, cancel := Interruptible(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "kiln-"+name+"-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return run(ctx, dir)
}
