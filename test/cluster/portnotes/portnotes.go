// Package portnotes gives envtest a directory of its own for the notes it keeps of
// the ports it has tried. It would leave them in the user's cache directory, which
// it asks for when its package is initialised and at no other time.
//
// The package imports next to nothing and its path sorts before envtest's, so it
// is initialised first: the order is the language's. Nobody sees the changed
// environment, for Restore is called as soon as envtest has been initialised.
package portnotes

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

const variable = "XDG_CACHE_HOME"

var (
	dir      = filepath.Join(os.TempDir(), "kiln-ports-"+strconv.Itoa(os.Getpid()))
	was, had = os.LookupEnv(variable)
	failed   = os.Setenv(variable, dir)

	mu    sync.Mutex
	users int
)

// Restore puts the environment back, and takes away what envtest has made.
func Restore() error {
	if !had {
		return errors.Join(failed, os.Unsetenv(variable), os.RemoveAll(dir))
	}
	return errors.Join(failed, os.Setenv(variable, was), os.RemoveAll(dir))
}

// Open makes the directory for a cluster that starts.
func Open() error {
	mu.Lock()
	defer mu.Unlock()
	users++
	return os.MkdirAll(filepath.Join(dir, "kubebuilder-envtest"), 0o700)
}

// Close removes the directory when the last cluster has started, or has not.
func Close() error {
	mu.Lock()
	defer mu.Unlock()
	if users--; users > 0 {
		return nil
	}
	return os.RemoveAll(dir)
}
