package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const journalFile = "journal.txt"

// A journal is the file of everything that happened, and the counts of what was done.
type journal struct {
	begun time.Time

	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	did  map[string]int
	vain map[string]int // what was tried, and the server was away
}

func newJournal(dir string) (*journal, error) {
	file, err := os.Create(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	return &journal{begun: time.Now(), file: file, out: bufio.NewWriter(file), did: map[string]int{}, vain: map[string]int{}}, nil
}

// write adds a line.
func (j *journal) write(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "%9.3f %s\n", time.Since(j.begun).Seconds(), fmt.Sprintf(format, args...))
}

// done notes and counts something that was done, or was tried in vain.
func (j *journal) done(what, to string, err error) {
	j.mu.Lock()
	if err == nil {
		j.did[what]++
	} else {
		j.vain[what]++
	}
	j.mu.Unlock()
	if err != nil {
		to += ": " + err.Error()
	}
	j.write("DID %s %s", what, to)
}

// faults is how often each thing was done, and how many things in all.
func (j *journal) faults() (n int, each string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var words []string
	for _, what := range slices.Sorted(maps.Keys(j.did)) {
		words = append(words, fmt.Sprintf("%s %d", what, j.did[what]))
		n += j.did[what]
	}
	return n, strings.Join(words, ", ")
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.out.Flush(), j.file.Close())
}
