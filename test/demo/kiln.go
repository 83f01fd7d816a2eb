package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
)

// startKiln runs the controller as a process of its own, with the rights that
// the chart gives it and no more. It returns where its metrics are.
func startKiln(ctx context.Context, c *cluster.Cluster, root string) (metrics string, err error) {
	binary := filepath.Join(root, "bin", "kiln")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("%w: run make build", err)
	}
	begun := time.Now()
	kiln, err := stage.Kiln{Name: "kiln", Binary: binary}.Run(ctx, c)
	if err != nil {
		return "", err
	}
	fmt.Printf("  %-28s %5.1fs  as %s/%s\n", "kiln controller", time.Since(begun).Seconds(), stage.Home, stage.Account)
	return kiln.Metrics, nil
}
