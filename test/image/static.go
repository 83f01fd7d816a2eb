package image

import (
	"bytes"
	"runtime"
	"time"
)

// A Static is an image of one static binary and nothing else, for this machine: what a
// test runs in containers.
type Static struct {
	// Name is the name of the image, with its tag.
	Name string
	// Binary is the program. It is where the first word of Entrypoint says.
	Binary     []byte
	Entrypoint []string
	// Env is its environment.
	Env []string
}

// Archive returns the image as an OCI archive.
func (s Static) Archive() ([]byte, error) {
	var out bytes.Buffer
	date := time.Unix(0, 0).UTC()
	t := newTar(&out, date)
	t.file(s.Entrypoint[0][1:], 0o755, s.Binary)
	if err := t.close(); err != nil {
		return nil, err
	}
	c := newConfig(runtime.GOARCH, date, "test")
	c.Config.Entrypoint = s.Entrypoint
	c.Config.Env = s.Env
	l := layout{}
	one, err := l.image(c, out.Bytes())
	if err != nil {
		return nil, err
	}
	return l.archive(one.named(s.Name), date)
}
