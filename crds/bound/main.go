// Command bound narrows generated manifests to what Go can read.
//
// The schemas that controller-gen makes of other people's types let pass values on
// which a typed client's list of the whole kind stops: the quantity 1e1.5, or a port
// beyond int32. Here they get the bounds that their Go types have. With -bare, what
// is borrowed from other APIs loses its descriptions, too: their manuals have them,
// and a manifest is a third of the size.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	bare := flag.Bool("bare", false, "drop the descriptions of borrowed fields")
	flag.Parse()
	for _, path := range flag.Args() {
		if err := narrow(path, *bare); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// narrow rewrites one manifest.
func narrow(path string, bare bool) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var manifest map[string]any
	if err := yaml.Unmarshal(raw, &manifest); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	walk(manifest, "", func(at string, schema map[string]any) {
		bound(schema)
		if bare && borrowed(at) {
			delete(schema, "description")
		}
	})
	out, err := yaml.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, append([]byte("---\n"), out...), 0o644)
}

// walk visits every schema below a node. The path is made of the names of fields.
func walk(node any, at string, visit func(string, map[string]any)) {
	switch n := node.(type) {
	case []any:
		for _, below := range n {
			walk(below, at, visit)
		}
	case map[string]any:
		visit(at, n)
		for key, below := range n {
			if key != "properties" {
				walk(below, at, visit)
				continue
			}
			for name, field := range below.(map[string]any) {
				walk(field, at+"."+name, visit)
			}
		}
	}
}

// borrowed reports whether a field is of another API: it is below the spec of a pod
// or of a claim for storage.
func borrowed(at string) bool {
	return strings.HasPrefix(at, ".spec.podTemplate.spec.") || strings.HasPrefix(at, ".spec.volumeClaimTemplates.spec.")
}

// The pattern of quantities as it is generated, and as Go reads them: an exponent is
// a whole number.
const (
	generated = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
	readable  = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$`
)

// bound gives a schema the bounds of its Go type.
func bound(schema map[string]any) {
	switch {
	case schema["x-kubernetes-int-or-string"] != true:
	case schema["pattern"] == generated:
		schema["pattern"] = readable
	case schema["x-kubernetes-validations"] == nil: // one that bounds itself needs no more
		schema["minimum"], schema["maximum"] = math.MinInt32, math.MaxInt32
	}
	if schema["type"] != "integer" || schema["format"] != "int32" {
		return
	}
	for limit, of := range map[string]int{"minimum": math.MinInt32, "maximum": math.MaxInt32} {
		if schema[limit] == nil {
			schema[limit] = of
		}
	}
}
