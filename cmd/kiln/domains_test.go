package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLabelDomainsComeFromAFileThatMayBeMissing(t *testing.T) {
	g := NewWithT(t)
	f := &domainsFile{path: filepath.Join(t.TempDir(), "domains"), otherwise: []string{"sandbox.users.io"}}
	g.Expect(f.read()).To(Equal([]string{"sandbox.users.io"}))
	g.Expect(os.WriteFile(f.path, []byte("a.example\nb.example, c.example\n\n"), 0o600)).To(Succeed())
	g.Expect(f.read()).To(Equal([]string{"a.example", "b.example", "c.example"}))
	g.Expect(os.WriteFile(f.path, []byte("a.example\nb_example"), 0o600)).To(Succeed())
	_, err := f.read()
	g.Expect(err).To(MatchError(And(ContainSubstring(f.path), ContainSubstring(`"b_example" is no domain`))))
}

// A mounted ConfigMap is a link to a link: the directory behind it is swapped.
func TestLabelDomainsFollowTheFile(t *testing.T) {
	g := NewWithT(t)
	dir, said := t.TempDir(), &bytes.Buffer{}
	mount := func(version, text string) {
		g.Expect(os.Mkdir(filepath.Join(dir, version), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, version, "domains"), []byte(text), 0o600)).To(Succeed())
		g.Expect(os.Symlink(version, filepath.Join(dir, "..tmp"))).To(Succeed())
		g.Expect(os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))).To(Succeed())
	}
	mount("..1", "a.example")
	g.Expect(os.Symlink(filepath.Join("..data", "domains"), filepath.Join(dir, "domains"))).To(Succeed())
	f := &domainsFile{path: filepath.Join(dir, "domains"), otherwise: []string{"sandbox.users.io"}, log: slog.New(slog.NewTextHandler(said, nil))}
	g.Expect(f.read()).To(Equal([]string{"a.example"}))
	var told [][]string
	look := func() { f.look(func(domains []string) { told = append(told, domains) }) }
	look()
	g.Expect(told).To(BeEmpty(), "nothing has changed")
	mount("..2", "a.example,b.example")
	look()
	look()
	g.Expect(told).To(Equal([][]string{{"a.example", "b.example"}}))
	mount("..3", "not a domain!")
	look()
	look()
	g.Expect(told).To(HaveLen(1), "the last good one holds")
	g.Expect(strings.Count(said.String(), "level=WARN")).To(Equal(1), said.String())
	g.Expect(said.String()).To(ContainSubstring("is no domain"))
	mount("..4", "a.example,b.example")
	look()
	g.Expect(told).To(HaveLen(1), "it is as it was")
	mount("..5", "not a domain!")
	look()
	g.Expect(strings.Count(said.String(), "level=WARN")).To(Equal(2), "it broke again")
	g.Expect(os.Remove(filepath.Join(dir, "domains"))).To(Succeed())
	look()
	g.Expect(told[1:]).To(Equal([][]string{{"sandbox.users.io"}}), "without a file it is as if there never was one")
}
