// Command build writes the controller's image as an OCI archive, and beside it the bill of
// materials of each architecture.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kiln-sandbox/kiln/test/image"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	var s image.Source
	flag.StringVar(&s.Root, "root", "..", "directory of the module")
	flag.StringVar(&s.Version, "version", "dev", "version of the binary")
	flag.StringVar(&s.Commit, "commit", "", "commit that is built")
	flag.StringVar(&s.Name, "name", "", "name of the image, with its tag")
	date := flag.String("date", "1970-01-01T00:00:00Z", "date of everything")
	out := flag.String("out", "", "the archive")
	flag.Parse()
	if s.Name == "" || *out == "" {
		return fmt.Errorf("say -name and -out")
	}
	var err error
	if s.Date, err = time.Parse(time.RFC3339, *date); err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	archive, bills, err := s.Build(context.Background())
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, archive, 0o644); err != nil {
		return err
	}
	for arch, bill := range bills {
		name := filepath.Join(filepath.Dir(*out), "kiln-"+arch+".spdx.json")
		if err := os.WriteFile(name, bill, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %s, %.1f MB\n", *out, s.Name, float64(len(archive))/1e6)
	return nil
}
