package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := map[string]*page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	each(t, func(t *testing.T, p *page) {
		for _, l := range p.links {
			if strings.Contains(l.text, "://") {
				continue
			}
			path, to, named := strings.Cut(l.text, "#")
			target := p.path
			if path != "" {
				target = filepath.Join(filepath.Dir(p.path), path)
			}
			if _, err := os.Stat(at(target)); err != nil {
				p.wrong(t, l, "there is no %s", target)
				continue
			}
			if !named {
				continue
			}
			switch other := all[target]; {
			case other == nil:
				p.wrong(t, l, "%s is no page with headings", target)
			case !other.anchors[to]:
				p.wrong(t, l, "%s has no heading #%s", target, to)
			}
		}
	})
}

// Whoever comes to the README finds every page from there.
func TestTheReadmeLeadsToEveryPage(t *testing.T) {
	p := read("README.md", content(t, "README.md"))
	led := map[string]bool{"README.md": true}
	for _, l := range p.links {
		path, _, _ := strings.Cut(l.text, "#")
		led[path] = true
	}
	for _, one := range pages(t) {
		if !led[one.path] {
			t.Errorf("README.md does not lead to %s", one.path)
		}
	}
}

// The first thing that a newcomer types is in the first section.
func TestTheReadmeBeginsWithTheTwoCommands(t *testing.T) {
	p := read("README.md", content(t, "README.md"))
	var first []string
	for _, b := range p.blocks {
		if strings.HasPrefix(b.text, "make ") {
			first = append(first, strings.TrimSpace(strings.SplitN(b.text, "\n", 2)[0]))
		}
	}
	if len(first) < 2 || first[0] != "make demo" || first[1] != "make test" {
		t.Errorf("it begins with %q", first)
	}
}

func TestTheReaderFindsWhatAPageHas(t *testing.T) {
	p := read("x.md", "# A `word`, and more\n\nSee [it](a.md#b) and `two\nwords`.\n\n    make x\n\n```sh\nls\n```\n| `a` | [b](c) |\n")
	if !p.anchors["a-word-and-more"] || len(p.links) != 2 || p.links[0].text != "a.md#b" || p.links[0].line != 3 {
		t.Errorf("anchors %v, links %v", p.anchors, p.links)
	}
	if len(p.spans) != 3 || p.spans[1].text != "two words" || p.spans[2].text != "a" {
		t.Errorf("spans %v", p.spans)
	}
	if len(p.blocks) != 2 || p.blocks[0].text != "make x\n" || p.blocks[1].language != "sh" || p.blocks[1].text != "ls\n" {
		t.Errorf("blocks %v", p.blocks)
	}
}
