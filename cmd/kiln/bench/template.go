package bench

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"sigs.k8s.io/yaml"
)

//go:embed template.yaml
var realistic []byte

// marker is the environment variable of the first container that says which revision of
// the template a pod is of.
const marker = "KILN_BENCH_REVISION"

// A blueprint is the spec of a SandboxTemplate, to be changed and used again.
type blueprint struct{ spec map[string]any }

// parseTemplate reads a manifest.
func parseTemplate(manifest []byte) (blueprint, error) {
	if manifest == nil {
		manifest = realistic
	}
	var o struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(manifest, &o); err != nil {
		return blueprint{}, fmt.Errorf("--template: %w", err)
	}
	if o.Kind != "SandboxTemplate" {
		return blueprint{}, fmt.Errorf("--template: its kind is %q; give the manifest of one SandboxTemplate", o.Kind)
	}
	t := blueprint{spec: o.Spec}
	if _, err := t.first(); err != nil {
		return blueprint{}, fmt.Errorf("--template: %w", err)
	}
	return t, nil
}

// pod is the spec of the pods.
func (t blueprint) pod() map[string]any {
	outer, _ := t.spec["podTemplate"].(map[string]any)
	spec, _ := outer["spec"].(map[string]any)
	return spec
}

// first is the first container, which is changed to change the template.
func (t blueprint) first() (map[string]any, error) {
	containers, _ := t.pod()["containers"].([]any)
	if len(containers) == 0 {
		return nil, errors.New("spec.podTemplate.spec.containers is empty; name a container")
	}
	c, ok := containers[0].(map[string]any)
	if !ok {
		return nil, errors.New("spec.podTemplate.spec.containers[0] is no container")
	}
	return c, nil
}

// revised is the template as it is in a revision.
func (t blueprint) revised(revision int) (blueprint, error) {
	text, err := json.Marshal(t.spec)
	if err != nil {
		return blueprint{}, err
	}
	var own blueprint
	if err := json.Unmarshal(text, &own.spec); err != nil {
		return blueprint{}, err
	}
	c, err := own.first()
	if err != nil {
		return blueprint{}, err
	}
	env, _ := c["env"].([]any)
	c["env"] = append(env, map[string]any{"name": marker, "value": strconv.Itoa(revision)})
	return own, nil
}

// bytes is how large the spec of a pod is.
func (t blueprint) bytes() int {
	text, err := json.Marshal(t.pod())
	if err != nil {
		return 0
	}
	return len(text)
}

// revisionOf reads from a pod, as JSON, which revision of the template it is of.
func revisionOf(pod []byte) (int, error) {
	var o struct {
		Spec struct {
			Containers []struct {
				Env []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"env"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(pod, &o); err != nil {
		return 0, fmt.Errorf("decode the pod: %w", err)
	}
	for _, c := range o.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == marker {
				return strconv.Atoi(e.Value)
			}
		}
	}
	return 0, errors.New("the pod does not say of which revision it is")
}
