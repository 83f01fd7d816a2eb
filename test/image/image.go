// Package image makes the controller's image from nothing: no registry, no daemon and no
// base image are asked. The same source gives the same bytes, on any machine.
//
//	make image
//
// An archive holds an OCI layout with one image for each architecture, under the name that
// the chart has for it, so that `ctr images import` and `docker load` take it as it is. An
// image is one layer: the binary, the certificates of public authorities (for telemetry that
// leaves the cluster), the user it runs as, and a bill of these materials.
package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A Source is what an image is made of.
type Source struct {
	// Root is the directory of the module.
	Root string
	// Version, Commit and Date are what the binary says of itself. Date is also the time
	// of every file in the image.
	Version, Commit string
	Date            time.Time
	// Name is the name of the image, with its tag.
	Name string
}

// Architectures are those that an archive has an image for.
var Architectures = []string{"amd64", "arm64"}

// user is who the image runs as, and nobody else.
const user = 65532

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type config struct {
	Created string `json:"created"`
	platform
	Config struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		Env        []string          `json:"Env"`
		WorkingDir string            `json:"WorkingDir"`
		Labels     map[string]string `json:"Labels,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []history `json:"history"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// Build returns the archive, and the bill of materials of each architecture.
func (s Source) Build(ctx context.Context) (archive []byte, bills map[string][]byte, err error) {
	s.Date = s.Date.UTC().Truncate(time.Second)
	l := layout{}
	all := index{SchemaVersion: 2, MediaType: typeIndex}
	bills = map[string][]byte{}
	roots, err := rootsModule(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, arch := range Architectures {
		binary, err := s.compile(ctx, arch)
		if err != nil {
			return nil, nil, err
		}
		if bills[arch], err = s.bill(binary, arch, roots); err != nil {
			return nil, nil, err
		}
		one, err := s.image(l, arch, binary, bills[arch])
		if err != nil {
			return nil, nil, err
		}
		all.Manifests = append(all.Manifests, one)
	}
	named, err := l.add(typeIndex, all)
	if err != nil {
		return nil, nil, err
	}
	archive, err = l.archive(named.named(s.Name), s.Date)
	return archive, bills, err
}

// compile builds the static binary for an architecture.
func (s Source) compile(ctx context.Context, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "kiln-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "kiln")
	ldflags := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", s.Version, s.Commit, s.Date.Format(time.RFC3339))
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", out, "./cmd/kiln")
	command.Dir = s.Root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if said, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kiln for %s: %w\n%s", arch, err, said)
	}
	return os.ReadFile(out)
}

// image adds the image of an architecture to a layout.
func (s Source) image(l layout, arch string, binary, bill []byte) (descriptor, error) {
	tarred, err := s.layer(binary, bill)
	if err != nil {
		return descriptor{}, err
	}
	labels := map[string]string{
		"org.opencontainers.image.title": "kiln", "org.opencontainers.image.version": s.Version,
		"org.opencontainers.image.revision": s.Commit, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source": "https://github.com/kiln-sandbox/kiln",
	}
	c := newConfig(arch, s.Date, "make image")
	c.Config.Entrypoint = []string{"/kiln"}
	c.Config.Env = []string{"PATH=/", "SSL_CERT_FILE=" + certificates}
	c.Config.Labels = labels
	return l.image(c, tarred)
}

// newConfig is the configuration of an image of one layer that nobody runs as root.
func newConfig(arch string, date time.Time, by string) config {
	created := date.Format(time.RFC3339)
	c := config{Created: created, platform: platform{Architecture: arch, OS: "linux"}}
	c.Config.User = fmt.Sprintf("%d:%d", user, user)
	c.Config.WorkingDir = "/"
	c.History = []history{{Created: created, CreatedBy: by}}
	return c
}

// A layout is the blobs of an OCI layout, by their digests.
type layout map[string][]byte

func (l layout) blob(kind string, content []byte) descriptor {
	d := descriptor{MediaType: kind, Digest: digest(content), Size: len(content)}
	l[d.Digest] = content
	return d
}

func (l layout) add(kind string, content any) (descriptor, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(kind, text), nil
}

// image adds an image of one layer, which is a tar.
func (l layout) image(c config, tarred []byte) (descriptor, error) {
	zipped, err := compress(tarred)
	if err != nil {
		return descriptor{}, err
	}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest(tarred)}
	described, err := l.add(typeConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	one, err := l.add(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: described,
		Layers: []descriptor{l.blob(typeLayer, zipped)}, Annotations: c.Config.Labels,
	})
	one.Platform = &c.platform
	return one, err
}

// named has tools of the specification, and containerd, know an image by a name.
func (d descriptor) named(name string) descriptor {
	d.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	return d
}

// archive is the layout as a tar, whose entry is one named descriptor.
func (l layout) archive(entry descriptor, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	t := newTar(&out, date)
	t.dir("blobs/")
	t.dir("blobs/sha256/")
	for name, content := range sorted(l) {
		t.file("blobs/sha256/"+name[len("sha256:"):], 0o644, content)
	}
	entries, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{entry}})
	if err != nil {
		return nil, err
	}
	t.file("index.json", 0o644, entries)
	t.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	err = t.close()
	return out.Bytes(), err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
