// Package stories holds what Kiln does as text transcripts, for whoever has a
// world to play them in: the pure one of the states package, and a real API
// server. A story is a .txt file:
//
//	# A claim takes a warm sandbox, and the pool makes another.
//	pool p size=1
//	----
//	pod/p-1   warming -> ready   warmed   by kiln-state
//
//	claim a
//	----
//	claim/a   ""      -> bound   bound    by kiln-claim
//	pod/p-1   ready   -> bound   handed   by kiln-state
//	pod/p-2   warming -> ready   warmed   by kiln-state
//
// Each step is commands, four dashes, and the transitions they lead to until
// nothing moves any more. Births and ends are no transitions. The order counts for
// one object only, and the members of a pool, p-1 and p-2, stand for any: no story
// says which of them a claim gets. A claim without a state says "", which is the
// same as binding.
//
// The package imports the standard library alone, so that every module can.
package stories

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.txt
var files embed.FS

// A Story is a transcript.
type Story struct {
	Name  string
	About string
	Steps []Step
}

// A Step is what is done at once, and what comes of it.
type Step struct {
	Commands []Command
	Moves    []Transition
}

// A Verb is what a command does.
type Verb string

// The verbs, as they begin a command.
const (
	Pool           Verb = "pool"              // pool <name> size=<n> [strategy=<type>]
	Claim          Verb = "claim"             // claim <name> [pool=<name>]
	DeleteClaim    Verb = "delete claim"      // delete claim <name>
	DeleteSandbox  Verb = "delete sandbox of" // delete sandbox of <claim>
	Scale          Verb = "scale"             // scale <pool> <n>
	HoldPods       Verb = "hold pods"         // pods made from now on do not become Ready
	ReleasePods    Verb = "release pods"      // all pods become Ready
	Crash          Verb = "crash"             // the controller dies at rest, and another begins
	TemplateChange Verb = "template change"   // the template of all pools changes
)

// A Command is one line of a step.
type Command struct {
	Verb Verb
	// Name is the claim or the pool that it is about.
	Name string
	// Size is the size of a pool.
	Size int
	// Pool is the pool of a claim: the first of the story if it names none.
	Pool string
	// Strategy is a pool's update strategy; empty is the default.
	Strategy string
}

// A Transition is one move of an object's state.
type Transition struct {
	Kind, Name string
	// Pool is set on members: any of them may stand for this one.
	Pool      string
	From, To  string
	Event, By string
}

// String is the transition's line.
func (t Transition) String() string {
	from := t.From
	if from == "" {
		from = `""`
	}
	return fmt.Sprintf("%-10s %-8s -> %-8s %-10s by %s", t.Kind+"/"+t.Name, from, t.To, t.Event, t.By)
}

// All returns every story.
func All() ([]Story, error) {
	names, err := fs.Glob(files, "*.txt")
	if err != nil {
		return nil, err
	}
	var all []Story
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := Parse(strings.TrimSuffix(name, ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
