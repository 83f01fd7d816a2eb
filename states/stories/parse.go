package stories

import (
	"fmt"
	"strconv"
	"strings"
)

// A parser reads a story line by line.
type parser struct {
	story Story
	pools []string
	// moves: the dashes of this step have come.
	open, moves bool
}

// Parse reads a story.
func Parse(name, text string) (Story, error) {
	p := parser{story: Story{Name: name}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return Story{}, fmt.Errorf("%s.txt:%d: %w", name, n, err)
		}
	}
	if p.open && !p.moves {
		return Story{}, fmt.Errorf("%s.txt:%d: the last step has no ----", name, n)
	}
	return p.story, nil
}

func (p *parser) line(line string) error {
	switch {
	case strings.HasPrefix(line, "#"):
		p.story.About = strings.TrimSpace(p.story.About + " " + strings.TrimSpace(line[1:]))
		return nil
	case line == "":
		if p.open && !p.moves {
			return fmt.Errorf("a step ends without ----")
		}
		p.open, p.moves = false, false
		return nil
	case line == "----":
		if !p.open || p.moves {
			return fmt.Errorf("---- without commands before it")
		}
		p.moves = true
		return nil
	}
	if !p.open {
		p.open = true
		p.story.Steps = append(p.story.Steps, Step{})
	}
	step := &p.story.Steps[len(p.story.Steps)-1]
	if p.moves {
		t, err := p.transition(line)
		step.Moves = append(step.Moves, t)
		return err
	}
	c, err := p.command(line)
	step.Commands = append(step.Commands, c)
	return err
}

// command reads a line above the dashes.
func (p *parser) command(line string) (c Command, err error) {
	for _, verb := range []Verb{DeleteClaim, DeleteSandbox, HoldPods, ReleasePods, TemplateChange, Crash, Pool, Claim, Scale} {
		rest, ok := strings.CutPrefix(line+" ", string(verb)+" ")
		if !ok {
			continue
		}
		c.Verb = verb
		words := strings.Fields(rest)
		if takes := verb.takes(); len(words) < takes {
			return c, fmt.Errorf("%q says too little", line)
		} else if takes > 0 {
			c.Name, words = words[0], words[1:]
		}
		return c, p.arguments(&c, words)
	}
	return c, fmt.Errorf("no command begins like %q", line)
}

// takes is how many words a verb needs behind it at least.
func (v Verb) takes() int {
	switch v {
	case HoldPods, ReleasePods, TemplateChange, Crash:
		return 0
	case Pool, Scale:
		return 2
	case Claim, DeleteClaim, DeleteSandbox:
	}
	return 1
}

// arguments reads what stands behind a command's name.
func (p *parser) arguments(c *Command, words []string) (err error) {
	if c.Verb == Scale {
		words[0] = "size=" + words[0]
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "size" && (c.Verb == Pool || c.Verb == Scale):
			if c.Size, err = strconv.Atoi(value); err != nil {
				return err
			}
		case key == "strategy" && c.Verb == Pool:
			c.Strategy = value
		case key == "pool" && c.Verb == Claim:
			c.Pool = value
		default:
			return fmt.Errorf("%s does not take %q", c.Verb, word)
		}
	}
	if c.Verb == Pool {
		p.pools = append(p.pools, c.Name)
	}
	if c.Verb == Claim && c.Pool == "" {
		if len(p.pools) == 0 {
			return fmt.Errorf("there is no pool for claim %s", c.Name)
		}
		c.Pool = p.pools[0]
	}
	return nil
}

// transition reads a line below the dashes: kind/name from -> to event by manager.
func (p *parser) transition(line string) (t Transition, err error) {
	words := strings.Fields(line)
	if len(words) != 7 || words[2] != "->" || words[5] != "by" {
		return t, fmt.Errorf("%q is no transition: kind/name from -> to event by manager", line)
	}
	t.Kind, t.Name, _ = strings.Cut(words[0], "/")
	t.From, t.To, t.Event, t.By = strings.Trim(words[1], `"`), words[3], words[4], words[6]
	for _, pool := range p.pools {
		number, ok := strings.CutPrefix(t.Name, pool+"-")
		if _, err := strconv.Atoi(number); ok && err == nil && t.Kind == "pod" {
			t.Pool = pool
		}
	}
	return t, nil
}
