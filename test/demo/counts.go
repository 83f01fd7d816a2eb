package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/kiln-sandbox/kiln/test/world"
)

// counted are the requests that Kiln has counted so far.
func (s *story) counted(ctx context.Context) (world.Counts, error) {
	all, err := world.CountsAt(ctx, s.metrics)
	return all.Of(world.Sent), err
}

func everything(world.Counter) bool { return true }

// table prints requests by manager and edge, and what that makes per claim.
func table(c world.Counts, claims int) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "  MANAGER\tKIND\tEDGE\tRESULT\tWRITES\tPER CLAIM")
	for _, k := range c.Keys() {
		fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%d\t%.1f\n", k.Manager, k.Kind, k.Edge, k.Result, c[k], float64(c[k])/float64(claims))
	}
	all := c.Sum(everything)
	fmt.Fprintf(out, "  all\t\t\t\t%d\t%.1f\n", all, float64(all)/float64(claims))
	out.Flush()
}
