package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"iter"
	"maps"
	"os/exec"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Where things are in the image.
const (
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	materials    = "/usr/share/sbom/kiln.spdx.json"
)

// layer is the file system of the image, as a tar.
func (s Source) layer(binary, bill []byte) ([]byte, error) {
	var out bytes.Buffer
	t := newTar(&out, s.Date)
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		t.dir(dir)
	}
	t.file(certificates[1:], 0o644, authorities())
	t.file("etc/group", 0o644, fmt.Appendf(nil, "nonroot:x:%d:\n", user))
	t.file("etc/passwd", 0o644, fmt.Appendf(nil, "nonroot:x:%d:%d:nonroot:/:/kiln\n", user, user))
	t.file("kiln", 0o755, binary)
	for _, dir := range []string{"usr/", "usr/share/", "usr/share/sbom/"} {
		t.dir(dir)
	}
	t.file(materials[1:], 0o644, bill)
	err := t.close()
	return out.Bytes(), err
}

// authorities are the certificates of public authorities, as the Go team keeps them from
// Mozilla's list. Those whose trust is limited by more than their own text are left out.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// rootsModule is the module that the certificates are of. The go command says which, of the
// directory that this runs in: a test's own build information names no modules.
func rootsModule(ctx context.Context) (*debug.Module, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-json", "golang.org/x/crypto/x509roots/fallback").Output()
	if err != nil {
		return nil, fmt.Errorf("look up the module of the certificates: %w", err)
	}
	var m debug.Module
	if err := json.Unmarshal(out, &m); err != nil {
		return nil, fmt.Errorf("read the module of the certificates: %w", err)
	}
	return &m, nil
}

// A tarWriter writes entries that differ in name, mode and content alone. The first error
// stays.
type tarWriter struct {
	to   *tar.Writer
	date time.Time
	err  error
}

func newTar(to io.Writer, date time.Time) *tarWriter {
	return &tarWriter{to: tar.NewWriter(to), date: date}
}

func (t *tarWriter) dir(name string) {
	t.write(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, nil)
}

func (t *tarWriter) file(name string, mode int64, content []byte) {
	t.write(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

func (t *tarWriter) write(h *tar.Header, content []byte) {
	if t.err != nil {
		return
	}
	h.ModTime, h.Format = t.date, tar.FormatUSTAR
	if t.err = t.to.WriteHeader(h); t.err == nil {
		_, t.err = t.to.Write(content)
	}
}

func (t *tarWriter) close() error {
	if t.err != nil {
		return t.err
	}
	return t.to.Close()
}

// compress has neither a name nor a time in its header.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	err := z.Close() // which writes the end of it
	return out.Bytes(), err
}

// sorted are the entries of a map in the order of their keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
