package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kiln-sandbox/kiln/states"
)

// printStates prints the charts, as a table or as pictures.
func printStates(args []string, out io.Writer) error {
	form := "text"
	if len(args) > 0 {
		form = args[0]
	}
	for _, chart := range states.Charts {
		switch form {
		case "text":
			if err := table(out, chart); err != nil {
				return err
			}
		case "mermaid":
			picture, err := chart.Mermaid()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%%%% %s\n%s\n", chart.Kind, picture)
		default:
			return fmt.Errorf("%w: states are printed as text or mermaid, not as %q", errUsage, form)
		}
	}
	return nil
}

func table(out io.Writer, chart states.Chart) error {
	fmt.Fprintf(out, "%s (starts %s)\n", chart.Kind, chart.Initial)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  FROM\tEVENT\tTO\tBY\tWHEN")
	for _, e := range chart.Edges {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", e.From, e.Event, e.To, e.By, e.When)
	}
	fmt.Fprintln(w)
	return w.Flush()
}
