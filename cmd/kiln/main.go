// Command kiln keeps sandboxes warm and hands them out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// version is what was built, commit and date from what and when; the linker sets them.
var version, commit, date = "dev", "", ""

// errUsage marks a command line that makes no sense; the process exits with 2.
var errUsage = errors.New("usage")

const usage = `kiln keeps sandboxes warm and hands them out.

Usage:
  kiln controller [flags]     run the controller (kiln controller --help lists the flags)
  kiln [flags]                the same, called as the agent-sandbox controller is: without
                              --extensions it serves sandboxes alone
  kiln crds install           install the CustomResourceDefinitions, or say why they do not fit
  kiln migrate [--dry-run]    take over at once what the agent-sandbox controller left
  kiln bench [scenario ...]   measure how a cluster's claims are served (kiln bench --help)
  kiln probe URL              wait until a URL answers 200
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
	case "bench":
		return measure(ctx, args[1:], stdout, stderr)
	case "migrate":
		return migrate(ctx, args[1:], stdout)
	case "crds":
		return installCRDs(ctx, args[1:], stdout)
	case "probe":
		return probe(ctx, args[1:], stdout)
	case "states":
		return printStates(args[1:], stdout)
	case "version", "--version", "-version":
		fmt.Fprintln(stdout, "kiln "+version)
		return nil
	case "help", "--help", "-help", "-h":
		fmt.Fprint(stdout, usage)
		return nil
	}
	if strings.HasPrefix(args[0], "-") {
		return controller(ctx, asIncumbent(args), stdout, stderr)
	}
	return fmt.Errorf("%w: there is no command %q; kiln --help lists them", errUsage, args[0])
}

// asIncumbent are the arguments of the agent-sandbox controller as ours: there it
// takes a flag to serve more than sandboxes.
func asIncumbent(args []string) []string { return append([]string{"--extensions=false"}, args...) }
