package bench

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A Progress says how far a run has come: on a terminal in one line that changes, else
// in a line now and then.
type Progress struct {
	out  io.Writer
	live bool

	mu    sync.Mutex
	said  time.Time
	dirty bool // the terminal's line holds something
}

// NewProgress makes a progress that is told to out; live means that out is a terminal.
func NewProgress(out io.Writer, live bool) *Progress { return &Progress{out: out, live: live} }

// rewrite goes to the beginning of a terminal's line and clears it.
const rewrite = "\r\x1b[K"

// say prints a line that stays.
func (p *Progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		fmt.Fprint(p.out, rewrite)
	}
	p.dirty, p.said = false, time.Now()
	fmt.Fprintf(p.out, "bench: "+format+"\n", args...)
}

// update says where the run is, unless something was said a moment ago.
func (p *Progress) update(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every := 10 * time.Second
	if p.live {
		every = 100 * time.Millisecond
	}
	if time.Since(p.said) < every {
		return
	}
	p.said = time.Now()
	if !p.live {
		fmt.Fprintf(p.out, "bench: "+format+"\n", args...)
		return
	}
	p.dirty = true
	fmt.Fprintf(p.out, rewrite+"bench: "+format, args...)
}
