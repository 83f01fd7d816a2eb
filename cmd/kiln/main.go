// Command kiln keeps sandboxes warm and hands them out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is what was built; the linker sets it.
var version = "dev"

// errUsage marks a command line that makes no sense; the process exits with 2.
var errUsage = errors.New("usage")

const usage = `kiln keeps sandboxes warm and hands them out.

Usage:
  kiln controller [flags]     run the controller (kiln controller --help lists the flags)
  kiln states [text|mermaid]  print the state machines of pods and claims
  kiln version                print the version
`

func main() {
	// The first signal asks for an orderly end; a second one ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "kiln: "+err.Error())
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kiln: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("%w: name a command", errUsage)
	}
	switch args[0] {
	case "controller":
		return controller(ctx, args[1:], stdout, stderr)
	case "states":
		return printStates(args[1:], stdout)
	case "version", "--version", "-version":
		fmt.Fprintln(stdout, "kiln "+version)
		return nil
	case "help", "--help", "-help", "-h":
		fmt.Fprint(stdout, usage)
		return nil
	}
	return fmt.Errorf("%w: there is no command %q; kiln --help lists them", errUsage, args[0])
}
