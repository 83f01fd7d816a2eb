// Package docs holds what is written for people against what is built: links lead
// somewhere, and whatever a document names is there under that name. It starts nothing.
//
// It is no part of the module test: go test keeps the result of a package until a file
// of its module changes, and the pages are none of that one's.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// A page is a document as far as it can be held against anything.
type page struct {
	path, text string
	// anchors are the names of its headings, as links have them.
	anchors map[string]bool
	links   []place
	// spans are what is set as code within sentences, blocks what stands alone.
	spans, blocks []place
}

// A place is a piece of a page and the line where it begins. Blocks have a language.
type place struct {
	text, language string
	line           int
}

// root is the repository.
const root = ".."

// at is a path of the repository.
func at(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }

func content(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(at(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are all documents, by their paths from the root.
func pages(t *testing.T) (all []*page) {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md", "helm/kiln/README.md", "states/states.md"}
	more, err := filepath.Glob(at("docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range more {
		paths = append(paths, "docs/"+filepath.Base(path))
	}
	for _, path := range paths {
		all = append(all, read(path, content(t, path)))
	}
	return all
}

// each runs a test on every page.
func each(t *testing.T, hold func(t *testing.T, p *page)) {
	t.Helper()
	for _, p := range pages(t) {
		t.Run(p.path, func(t *testing.T) { hold(t, p) })
	}
}

// wrong reports what is wrong at a place.
func (p *page) wrong(t *testing.T, at place, format string, args ...any) {
	t.Helper()
	t.Errorf("%s:%d: %s", p.path, at.line, fmt.Sprintf(format, args...))
}

var (
	heading = regexp.MustCompile(`^#+ (.*)$`)
	span    = regexp.MustCompile("`([^`]+)`")
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
)

// read finds the pieces of a page.
func read(path, text string) *page {
	p := &page{path: path, text: text, anchors: map[string]bool{}}
	var block, paragraph *place
	fenced := false
	end := func() {
		switch {
		case block != nil:
			p.blocks = append(p.blocks, *block)
		case paragraph != nil:
			p.sentence(*paragraph)
		}
		block, paragraph, fenced = nil, nil, false
	}
	for i, line := range strings.Split(text, "\n") {
		fence, opens := strings.CutPrefix(line, "```")
		switch {
		case opens && fenced:
			end()
		case opens:
			end()
			block, fenced = &place{language: fence, line: i + 1}, true
		case fenced:
			block.text += line + "\n"
		case strings.HasPrefix(line, "    ") && paragraph == nil:
			if block == nil {
				block = &place{line: i + 1}
			}
			block.text += line[4:] + "\n"
		case strings.TrimSpace(line) == "":
			end()
		default:
			if block != nil || strings.HasPrefix(line, "|") {
				end()
			}
			if m := heading.FindStringSubmatch(line); m != nil {
				p.anchors[anchor(m[1])] = true
			}
			if paragraph == nil {
				paragraph = &place{line: i + 1}
			}
			// Cells of a table are sentences of their own.
			paragraph.text += strings.ReplaceAll(line, " | ", "\n")
			paragraph.text += " "
		}
	}
	end()
	return p
}

// sentence finds code and links in text that flows.
func (p *page) sentence(at place) {
	for _, m := range span.FindAllStringSubmatch(at.text, -1) {
		p.spans = append(p.spans, place{text: m[1], line: at.line})
	}
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(at.text, "code"), -1) {
		p.links = append(p.links, place{text: m[1], line: at.line})
	}
}

// anchor is how a link names a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// lines are the commands of a page: the lines of its blocks, and its spans.
func (p *page) lines() (all []place) {
	for _, b := range p.blocks {
		if b.language != "" && b.language != "sh" {
			continue
		}
		for i, line := range strings.Split(b.text, "\n") {
			all = append(all, place{text: line, line: b.line + i})
		}
	}
	return append(all, p.spans...)
}

// commands are the programs that a line runs, each as its words.
func (l place) commands() (all [][]string) {
	text, _, _ := strings.Cut(strings.TrimPrefix(l.text, "$ "), " #")
	for _, one := range regexp.MustCompile(`\||&&|;`).Split(text, -1) {
		words := strings.Fields(one)
		for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// into reads a YAML file of the repository.
func into(t *testing.T, to any, parts ...string) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(content(t, parts...)), to); err != nil {
		t.Fatalf("%s: %v", filepath.Join(parts...), err)
	}
}

// sources walks the files of the repository with one of some endings.
func sources(t *testing.T, endings []string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == at("bin") || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		for _, e := range endings {
			if strings.HasSuffix(path, e) {
				text, err := os.ReadFile(path)
				visit(path, string(text))
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
