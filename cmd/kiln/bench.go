package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/kiln-sandbox/kiln/cmd/kiln/bench"
)

const benchUsage = `kiln bench measures how the claims of a cluster are served, whatever controller serves them.

  kiln bench [flags] [scenario ...]        measure; default: floor serial sustained burst
  kiln bench compare A.json B.json         divide B by A, round by round: rounds that were run in turns

Scenarios:
  floor      the same objects made, told and deleted with the fewest writes, without a controller: what the
             cluster itself costs; every figure is also told in floors. It makes two definitions in a group
             of its own for the time of the run. With burst beside it there is a floor of that, too
  serial     one claim after another
  sustained  --rate claims a second, at random times (Poisson), whatever became of those before; each is held
             for --dwell and deleted
  rollout    the same, with a change of the template after a third of the time
  sweep      the same at each of --rates, up to the first with a p99 above --limit
  burst      --claims claims at once on a pool of as many
  scale      the same as sustained, on pools of each of the sizes --pools

A latency is from just before the call that creates a claim until the claim can be used: it is Ready and names its
sandbox, and the pod of that carries the claim's UID and no pool's label. READY is the time until it is Ready.
OVERTAKEN is the longest, in ms, that a claim waited on after a later one was served.
It works in a namespace that it makes itself and removes at the end, also on Ctrl-C. No sandbox may be held
by two claims (double_held), no claim made after a template change may get a pod of the older one (stale_served,
strategies Recreate and RollingUpdate), every claim is Ready in time (unbound), and none is Ready before its pod
is its own (unreachable_at_ready); else it exits with 1.
CPU is told where the API server is on this machine; requests where /metrics of the API server may be read.

Flags:
`

// A benchmark is what the command line of kiln bench asks for.
type benchmark struct {
	options    bench.Options
	settings   settings
	template   string
	out, html  string
	floor      string
	join, help bool
}

// numbers is a flag that is a list of numbers.
type numbers[T int | float64] struct {
	all   *[]T
	parse func(string) (T, error)
}

func (n numbers[T]) String() string {
	if n.all == nil {
		return ""
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(*n.all)), ","), "[]")
}

func (n numbers[T]) Set(text string) error {
	*n.all = nil
	for part := range strings.SplitSeq(text, ",") {
		v, err := n.parse(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is no number", part)
		}
		*n.all = append(*n.all, v)
	}
	return nil
}

func (b *benchmark) flags() *flag.FlagSet {
	f := flag.NewFlagSet("kiln bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	b.options, b.settings = bench.Defaults(), settings{qps: -1}
	o := &b.options
	f.StringVar(&b.settings.kubeconfig, "kubeconfig", "", "kubeconfig `file`, as of kiln controller")
	f.StringVar(&o.Namespace, "namespace", "", "`name` of the namespace to make; default one that nobody has")
	f.StringVar(&b.template, "template", "", "`file` with the SandboxTemplate to use; default one of about 4 KB with three containers")
	f.IntVar(&o.Claims, "claims", 0, "`number` of claims of serial and burst; default 50 and 300")
	f.IntVar(&o.Pool, "pool", -1, "`number` of warm sandboxes; default 100, and for burst as many as claims; 0 starts every claim cold")
	f.Float64Var(&o.Rate, "rate", o.Rate, "`number` of claims a second in sustained, rollout, scale and floor")
	f.DurationVar(&o.Duration, "duration", o.Duration, "`time` for which claims come, in each of those and at each rate of sweep")
	f.DurationVar(&o.Dwell, "dwell", o.Dwell, "`time` for which a claim is held")
	f.Var(numbers[float64]{&o.Rates, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }}, "rates", "`list` of the rates of sweep")
	f.DurationVar(&o.Limit, "limit", o.Limit, "`time` that the p99 of a rate of sweep may be at most")
	f.Var(numbers[int]{&o.Pools, strconv.Atoi}, "pools", "`list` of the sizes of scale")
	f.StringVar(&o.Strategy, "strategy", o.Strategy, "update `strategy` of the pool in rollout: OnReplenish, Recreate or RollingUpdate")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "`number` of times that all scenarios are run")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "`seed` of the arrivals: the same seed, the same times")
	f.IntVar(&o.Connections, "connections", o.Connections, "`number` of connections to the API server")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "`time` that a claim may wait")
	f.Func("processes", "`list` of local processes whose CPU is told, as name or name=pid; default those of a control plane, if it is local", func(text string) error {
		o.Processes = strings.Split(text, ",")
		return nil
	})
	f.StringVar(&b.out, "out", "", "`file` to write as JSON")
	f.BoolVar(&b.join, "append", false, "add the rounds to those that --out holds already")
	f.StringVar(&b.html, "html", "", "`file` to write as a page with plots")
	f.StringVar(&b.floor, "floor", "", "`file` written by --out whose floor is divided by, if the scenario is not run")
	f.BoolVar(&o.Keep, "keep", false, "leave the namespace when the run ends by itself")
	for _, said := range []string{"claims", "pool", "append", "keep"} {
		f.Lookup(said).DefValue = "" // their text says it
	}
	return f
}

// parseBench reads the command line; scenarios may stand before and after flags.
func parseBench(args []string) (*benchmark, error) {
	b := &benchmark{}
	f := b.flags()
	var scenarios []string
	for {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			b.help = true
			return b, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		if f.NArg() == 0 {
			break
		}
		scenarios, args = append(scenarios, f.Arg(0)), f.Args()[1:]
	}
	if len(scenarios) > 0 {
		b.options.Scenarios = scenarios
	}
	if err := b.options.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if b.join && b.out == "" {
		return nil, fmt.Errorf("%w: --append adds to a file; name it with --out", errUsage)
	}
	return b, nil
}

// measure carries out kiln bench.
func measure(ctx context.Context, args []string, stdout io.Writer, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "compare" {
		return compare(args[1:], stdout)
	}
	b, err := parseBench(args)
	if err != nil {
		return err
	}
	if b.help {
		fmt.Fprint(stdout, benchUsage)
		listFlags(stdout, b.flags())
		return nil
	}
	var floor *bench.Report
	if b.floor != "" {
		if floor, err = bench.ReadReport(b.floor); err != nil {
			return err
		}
	}
	if b.template != "" {
		if b.options.Template, err = os.ReadFile(b.template); err != nil {
			return err
		}
	}
	cfg, err := connect(ctx, &b.settings)
	if err != nil {
		return err
	}
	report, err := bench.Run(ctx, cfg, b.options, bench.NewProgress(stderr, isTerminal(stderr)))
	if report == nil {
		return err
	}
	report.Version = version
	report.Divide(floor)
	return errors.Join(err, b.report(report, stdout))
}

// report writes what was measured wherever it shall be, and fails if a promise was
// broken.
func (b *benchmark) report(r *bench.Report, stdout io.Writer) error {
	if err := r.Print(stdout, b.options.Limit); err != nil {
		return err
	}
	broken := r.Broken()
	if b.join {
		if err := r.Join(b.out); err != nil {
			return err
		}
	}
	if b.out != "" {
		if err := r.WriteFile(b.out); err != nil {
			return err
		}
	}
	if b.html != "" {
		if err := r.WritePage(b.html, b.options.Limit); err != nil {
			return err
		}
	}
	return broken
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// compare carries out kiln bench compare.
func compare(args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("%w: kiln bench compare takes two files that kiln bench --out wrote", errUsage)
	}
	a, err := bench.ReadReport(args[0])
	if err != nil {
		return err
	}
	b, err := bench.ReadReport(args[1])
	if err != nil {
		return err
	}
	all := bench.Compare(a, b)
	if len(all) == 0 {
		return errors.New("the two reports have no scenario in common")
	}
	return bench.PrintComparison(stdout, all)
}
