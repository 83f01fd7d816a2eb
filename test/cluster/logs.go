package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// tailBytes is how much of a log an error quotes.
const tailBytes = 2000

// logFile opens a component's log; a second run adds to it.
func (c *Cluster) logFile(name string) (*os.File, error) {
	path := filepath.Join(c.LogDir, name+".log")
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// tail quotes the last lines of a log for an error's text.
func tail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil || len(log) == 0 {
		return fmt.Sprintf("\n  (nothing in %s)", path)
	}
	if len(log) > tailBytes {
		log = log[len(log)-tailBytes:]
		log = log[bytes.IndexByte(log, '\n')+1:]
	}
	lines := bytes.ReplaceAll(bytes.TrimSpace(log), []byte("\n"), []byte("\n  | "))
	return fmt.Sprintf("\n  the end of %s:\n  | %s", path, lines)
}
