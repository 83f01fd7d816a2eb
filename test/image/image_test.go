package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/image"
)

func source(t *testing.T) image.Source {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	return image.Source{
		Root: root, Version: "v9", Commit: "abc", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Name: "registry.example/kiln:v9",
	}
}

// entries are the files of a tar by their names.
func entries(t *testing.T, archive []byte) (files map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	files, headers = map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name], headers[h.Name] = content, h
	}
}

type reference struct {
	Digest      string
	Size        int
	Platform    struct{ Architecture, OS string }
	Annotations map[string]string
}

// A layout reads what an archive holds, and holds every blob against its digest.
type layout struct {
	t     *testing.T
	files map[string][]byte
}

func (l layout) read(r reference, into any) []byte {
	l.t.Helper()
	content := l.files["blobs/sha256/"+strings.TrimPrefix(r.Digest, "sha256:")]
	sum := sha256.Sum256(content)
	if len(content) != r.Size || "sha256:"+hex.EncodeToString(sum[:]) != r.Digest {
		l.t.Fatalf("%s is not what it says", r.Digest)
	}
	if into != nil {
		l.json(content, into)
	}
	return content
}

func (l layout) json(content []byte, into any) {
	l.t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		l.t.Fatal(err)
	}
}

func TestTheSameSourceGivesTheSameBytes(t *testing.T) {
	first, _, err := source(t).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Elsewhere, by somebody else, without anything that was built before.
	elsewhere := source(t)
	copied := filepath.Join(t.TempDir(), "copy")
	for _, part := range []string{"apply", "cmd", "crds", "states", "watch"} {
		if err := os.CopyFS(filepath.Join(copied, part), os.DirFS(filepath.Join(elsewhere.Root, part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(elsewhere.Root, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere.Root, elsewhere.Date = copied, elsewhere.Date.UTC()
	t.Setenv("GOFLAGS", "-buildvcs=auto")
	t.Setenv("TZ", "Asia/Tokyo")
	second, _, err := elsewhere.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("two builds of the same source differ: %d and %d bytes", len(first), len(second))
	}
	if len(first) > 60e6 {
		t.Errorf("the archive has %d bytes", len(first))
	}
	other := source(t)
	other.Version = "v10"
	if third, _, err := other.Build(t.Context()); err != nil || bytes.Equal(first, third) {
		t.Errorf("another version gives the same bytes, or %v", err)
	}
}

func TestTheArchiveHoldsAnImageForEachArchitecture(t *testing.T) {
	s := source(t)
	archive, bills, err := s.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, _ := entries(t, archive)
	l := layout{t, files}
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", files["oci-layout"])
	}
	var top, all struct{ Manifests []reference }
	l.json(files["index.json"], &top)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != s.Name {
		t.Fatalf("it names %v", top.Manifests)
	}
	l.read(top.Manifests[0], &all)
	if len(all.Manifests) != len(image.Architectures) {
		t.Fatalf("it has %d images", len(all.Manifests))
	}
	for i, arch := range image.Architectures {
		t.Run(arch, func(t *testing.T) {
			one := all.Manifests[i]
			if one.Platform.Architecture != arch || one.Platform.OS != "linux" {
				t.Errorf("it is for %v", one.Platform)
			}
			l := layout{t, files}
			judgeImage(l, one, arch, bills[arch])
		})
	}
}

// judgeImage judges the image of one architecture.
func judgeImage(l layout, one reference, arch string, bill []byte) {
	t := l.t
	var m struct {
		Config reference
		Layers []reference
	}
	var c struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	l.read(one, &m)
	l.read(m.Config, &c)
	if c.Architecture != arch || c.Config.User != "65532:65532" || len(c.Config.Entrypoint) != 1 || c.Config.Entrypoint[0] != "/kiln" {
		t.Errorf("it runs %v as %s on %s", c.Config.Entrypoint, c.Config.User, c.Architecture)
	}
	if len(m.Layers) != 1 {
		t.Fatalf("it has %d layers", len(m.Layers))
	}
	z, err := gzip.NewReader(bytes.NewReader(l.read(m.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	tarred, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(tarred); "sha256:"+hex.EncodeToString(sum[:]) != c.RootFS.DiffIDs[0] {
		t.Error("the layer is not the one of the configuration")
	}
	inside, headers := entries(t, tarred)
	for name, h := range headers {
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Mode&0o022 != 0 {
			t.Errorf("%s: %+v", name, h)
		}
	}
	judgeBinary(t, inside["kiln"], arch)
	if !x509.NewCertPool().AppendCertsFromPEM(inside["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("it has no certificates")
	}
	if !bytes.Equal(inside["usr/share/sbom/kiln.spdx.json"], bill) {
		t.Error("its bill of materials is not the one beside it")
	}
	var materials struct {
		Packages []struct{ Name, VersionInfo string }
	}
	l.json(bill, &materials)
	named := map[string]string{}
	for _, p := range materials.Packages {
		named[p.Name] = p.VersionInfo
	}
	for _, name := range []string{"github.com/kiln-sandbox/kiln", "k8s.io/client-go", "github.com/looplab/fsm", "std", "golang.org/x/crypto/x509roots/fallback"} {
		if named[name] == "" {
			t.Errorf("%s is not among its materials", name)
		}
	}
}

// judgeBinary: nothing but the kernel is needed to run it.
func judgeBinary(t *testing.T, binary []byte, arch string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
		t.Errorf("it is for %s", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is not static: %s", p.Type)
		}
	}
}
