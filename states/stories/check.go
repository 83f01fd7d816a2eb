package stories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check compares what moved, step by step, with the story: object by object, and
// the members of a pool in whatever order makes them equal. The runner sets Pool on
// members and may call them as it likes.
func (s Story) Check(moved [][]Transition) error {
	var want [][]Transition
	for _, step := range s.Steps[:min(len(moved), len(s.Steps))] {
		want = append(want, step.Moves)
	}
	expected, got := lives(want), lives(moved)
	for _, object := range slices.Sorted(maps.Keys(merged(expected, got))) {
		if !slices.Equal(expected[object], got[object]) {
			return fmt.Errorf("%s: %s moved\n%s\nand should have moved\n%s\nall that moved:\n%s", s.Name, object,
				strings.Join(got[object], "  or\n"), strings.Join(expected[object], "  or\n"), text(Canonical(moved)))
		}
	}
	return nil
}

// Canonical gives members the names of a transcript: p-1, p-2 and so on, in the
// order of their first transition.
func Canonical(moved [][]Transition) [][]Transition {
	names, last := map[string]string{}, map[string]int{}
	var all [][]Transition
	for _, step := range moved {
		step = slices.Clone(step)
		for i, t := range step {
			if t.Pool == "" {
				continue
			}
			if names[t.Name] == "" {
				last[t.Pool]++
				names[t.Name] = fmt.Sprintf("%s-%d", t.Pool, last[t.Pool])
			}
			step[i].Name = names[t.Name]
		}
		all = append(all, step)
	}
	return all
}

// lives are the moves of each object; those of a pool's members are kept together,
// in an order of their own.
func lives(steps [][]Transition) map[string][]string {
	type object struct{ kind, name, pool string }
	each := map[object]string{}
	for i, step := range steps {
		for _, t := range step {
			from := t.From
			if t.Kind == "claim" && from == "" {
				from = "binding" // it has no state yet
			}
			each[object{t.Kind, t.Name, t.Pool}] += fmt.Sprintf("  step %d: %s -> %s, %s by %s\n", i+1, from, t.To, t.Event, t.By)
		}
	}
	all := map[string][]string{}
	for o, life := range each {
		of := o.kind + "/" + o.name
		if o.pool != "" {
			of = "a member of pool " + o.pool
		}
		all[of] = append(all[of], life)
	}
	for _, lives := range all {
		slices.Sort(lives)
	}
	return all
}

func merged(a, b map[string][]string) map[string][]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func text(steps [][]Transition) string {
	var b strings.Builder
	for _, step := range steps {
		b.WriteString("----\n")
		for _, t := range step {
			fmt.Fprintln(&b, t)
		}
	}
	return b.String()
}
