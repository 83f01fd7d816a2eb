package watch

import "github.com/kiln-sandbox/kiln/watch/measure"

// measured has what stores and shelves hold told at a scrape. Only the replica that works
// tells; how much it remembers every one does.
func (c *Controller) measured() {
	standing := &measure.Standing{Stores: c.stores, Shelves: c.shelves, Working: c.working.Load}
	if c.opts.Metrics != nil {
		c.opts.Metrics.MustRegister(standing, measure.Remembered(c.Sizes))
	}
}
