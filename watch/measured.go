package watch

import (
	"fmt"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/measure"
	"github.com/kiln-sandbox/kiln/watch/store"
)

// measured has what stores and shelves hold told at a scrape, and launches measured.
// Only the replica that works tells; how much it remembers every one does.
func (c *Controller) measured() error {
	standing := &measure.Standing{Stores: c.stores, Shelves: c.shelves, Working: c.working.Load}
	launches := measure.NewLaunches(c.opts.Metrics, c.opts.Now)
	if c.opts.Metrics != nil {
		c.opts.Metrics.MustRegister(standing, measure.Remembered(c.Sizes))
	}
	_, err := c.stores.Sandboxes.On(func(one store.Change[*agents.Sandbox]) {
		if c.working.Load() {
			launches.SandboxChanged(one)
		}
	})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}
