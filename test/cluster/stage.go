package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// prepare makes the directory, and the keeper that will remove it.
func prepare(o Options, assets map[string]string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "kiln-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Dir:            dir,
		LogDir:         o.LogDir,
		KubeconfigPath: filepath.Join(dir, "kubeconfig"),
		Kubectl:        assets["kubectl"],
		options:        o,
		assets:         assets,
		broken:         make(chan error, 1),
		crashed:        map[string]bool{},
		revived:        map[string]*Process{},
		stopping:       make(chan struct{}),
	}
	c.stop = sync.OnceValue(c.teardown)
	if c.keeper, err = newKeeper(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if c.LogDir == "" {
		c.LogDir = filepath.Join(dir, "logs")
		if err := os.Mkdir(c.LogDir, 0o755); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// teardown ends the programs, last started first, then the plane, then the keeper.
func (c *Cluster) teardown() error {
	c.mu.Lock()
	close(c.stopping)
	programs := c.programs
	c.mu.Unlock()

	var errs []error
	for i := len(programs) - 1; i >= 0; i-- {
		errs = append(errs, programs[i].Stop())
	}
	errs = append(errs, c.stopPlane(), c.keeper.close())
	return errors.Join(errs...)
}
