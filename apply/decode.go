package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	kjson "sigs.k8s.io/json"
)

// decode reads a user's bytes into what they should be, strictly. An error names the
// field: path is where the bytes stand in their object, and what is wrong below it
// is looked for.
func decode(path string, raw []byte, into func() any) error {
	strict, err := kjson.UnmarshalStrict(raw, into())
	if err == nil {
		if err = errors.Join(strict...); err != nil { // these name their field
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	var tree any
	if broken := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); broken != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s := search{into: into}
	at := s.culprit(tree, func(part any) any { return part })
	return fmt.Errorf("%s%s: %w", path, at, err)
}

// A search finds the field at which a value cannot be decoded.
type search struct{ into func() any }

// culprit is the path to the first field, deepest, that alone keeps a tree from being
// decoded. Within puts a part of the tree where it was, with nothing beside it.
func (s search) culprit(tree any, within func(any) any) string {
	switch at := tree.(type) {
	case map[string]any:
		if s.fails(within(map[string]any{})) {
			return "" // there should be no map at all
		}
		for _, key := range slices.Sorted(maps.Keys(at)) {
			alone := func(part any) any { return within(map[string]any{key: part}) }
			if s.fails(alone(at[key])) {
				return "." + key + s.culprit(at[key], alone)
			}
		}
	case []any:
		if s.fails(within([]any{})) {
			return ""
		}
		for i, part := range at {
			alone := func(part any) any { return within([]any{part}) }
			if s.fails(alone(part)) {
				return fmt.Sprintf("[%d]", i) + s.culprit(part, alone)
			}
		}
	}
	return ""
}

func (s search) fails(tree any) bool {
	raw, err := json.Marshal(tree)
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(raw, s.into()) != nil
}
