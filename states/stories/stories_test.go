package stories

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryStoryIsReadAndAgreesWithItself(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	used := map[Verb]bool{}
	for _, s := range all {
		var moved [][]Transition
		for _, step := range s.Steps {
			moved = append(moved, step.Moves)
			for _, c := range step.Commands {
				used[c.Verb] = true
			}
		}
		if err := s.Check(moved); err != nil || s.About == "" {
			t.Errorf("%s: %q: %v", s.Name, s.About, err)
		}
	}
	for _, verb := range []Verb{Pool, Claim, DeleteClaim, DeleteSandbox, Scale, HoldPods, ReleasePods, Crash, TemplateChange} {
		if !used[verb] {
			t.Errorf("no story has %q", verb)
		}
	}
}

const warm = `pool p size=2
----
pod/p-1 warming -> ready warmed by kiln-state
pod/p-2 warming -> ready warmed by kiln-state

claim a
----
claim/a "" -> bound bound by kiln-claim
pod/p-1 ready -> bound handed by kiln-state
`

func TestWhatMovedIsComparedObjectByObject(t *testing.T) {
	s, err := Parse("warm", warm)
	if err != nil {
		t.Fatal(err)
	}
	first := func(name string) Transition {
		return Transition{Kind: "pod", Name: name, Pool: "p", From: "warming", To: "ready", Event: "warmed", By: "kiln-state"}
	}
	told := Transition{Kind: "claim", Name: "a", From: "binding", To: "bound", Event: "bound", By: "kiln-claim"}
	handed := Transition{Kind: "pod", Name: "y", Pool: "p", From: "ready", To: "bound", Event: "handed", By: "kiln-state"}
	by := handed
	by.By = "kiln-pod"
	for _, row := range []struct {
		name  string
		moved [][]Transition
		fine  bool
	}{
		{"whichever member the claim got", [][]Transition{{first("x"), first("y")}, {handed, told}}, true},
		{"whatever the order between objects", [][]Transition{{first("y"), first("x")}, {told, handed}}, true},
		{"so far", [][]Transition{{first("y"), first("x")}}, true},
		{"a member did not move", [][]Transition{{first("x")}, {told, handed}}, false},
		{"a move in another step", [][]Transition{{first("x"), first("y"), told}, {handed}}, false},
		{"a member nobody saw before", [][]Transition{{first("x"), first("z")}, {told, handed}}, false},
		{"another manager", [][]Transition{{first("x"), first("y")}, {told, by}}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := s.Check(row.moved); (err == nil) != row.fine {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMembersAreNamedInTheOrderOfTheirFirstMove(t *testing.T) {
	named := Canonical([][]Transition{{{Name: "x", Pool: "p"}, {Name: "a"}}, {{Name: "y", Pool: "p"}, {Name: "x", Pool: "p"}}})
	var got []string
	for _, step := range named {
		for _, t := range step {
			got = append(got, t.Name)
		}
	}
	if want := []string{"p-1", "a", "p-2", "p-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatIsNoStorySaysWhereAndWhy(t *testing.T) {
	for text, why := range map[string]string{
		"claim a\n----\n":                         "1: there is no pool for claim a",
		"pool p size=1\n":                         "no ----",
		"pool p size=1\n\n":                       "ends without ----",
		"pool p size=x\n----\n":                   "invalid syntax",
		"pool p size=1 color=red\n----\n":         `does not take "color=red"`,
		"dance\n----\n":                           "no command begins like",
		"delete claim\n----\n":                    "says too little",
		"----\n":                                  "without commands",
		"crash\n----\npod/p-1 warming -> ready\n": "3: ",
	} {
		if _, err := Parse("s", text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want %q in it", text, err, why)
		}
	}
}
