package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A floor is the kinds in which the same objects are made without a controller: copies
// of the installed definitions in a group of this run's own.
type floor struct {
	group string
	made  []string // names of definitions
}

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// copied are the definitions of which the floor has copies.
var copied = []string{"sandboxclaims.extensions.agents.x-k8s.io", "sandboxes.agents.x-k8s.io"}

// prepareFloor makes the copies and waits until the garbage collector knows them.
// Without the right to make definitions there is no floor, and a note says so.
func (s *session) prepareFloor(ctx context.Context) error {
	s.floor = &floor{group: s.Namespace + ".bench.internal"}
	for _, of := range copied {
		raw, err := s.server.get(ctx, definitions+"/"+of)
		if err != nil {
			return s.noFloor(err)
		}
		made, body, err := copyDefinition(raw, s.floor.group)
		if err != nil {
			return err
		}
		_, err = s.server.create(ctx, definitions, body)
		if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			s.floor.made = append(s.floor.made, made) // also one whose answer was lost may be there
		}
		if err != nil {
			return s.noFloor(err)
		}
	}
	s.progress.say("the floor: waiting until the garbage collector knows its kinds (half a minute)")
	for _, made := range s.floor.made {
		err := s.server.follow(ctx, source{path: definitions, field: "metadata.name=" + made}, func(_ time.Time, e event) bool {
			return !e.Object.Status.is("Established")
		})
		if err != nil {
			return err
		}
	}
	return s.provokeCollector(ctx)
}

// noFloor makes a note of it where only a right is missing.
func (s *session) noFloor(err error) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("make the floor's kinds: %w", err)
	}
	s.note("no floor: %v", err)
	return nil
}

// copyDefinition is a definition in another group, with the one version that is used.
func copyDefinition(raw []byte, group string) (made string, body []byte, err error) {
	var of struct {
		Spec struct {
			Scope string `json:"scope"`
			Names struct {
				Plural   string `json:"plural"`
				Singular string `json:"singular"`
				Kind     string `json:"kind"`
				ListKind string `json:"listKind"`
			} `json:"names"`
			Versions []map[string]any `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return "", nil, fmt.Errorf("decode a definition: %w", err)
	}
	for _, v := range of.Spec.Versions {
		if v["name"] != "v1beta1" {
			continue
		}
		v["storage"], v["served"] = true, true
		made = of.Spec.Names.Plural + "." + group
		return made, marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": made, "labels": mark},
			"spec": map[string]any{
				"group": group, "scope": of.Spec.Scope, "names": of.Spec.Names, "versions": []any{v},
			},
		}), nil
	}
	return "", nil, fmt.Errorf("%s are not served at v1beta1", of.Spec.Names.Plural)
}

// remove removes the copies, and with them whatever is left of their kinds.
func (f *floor) remove(ctx context.Context, s *server) (err error) {
	if f == nil {
		return nil
	}
	for _, made := range f.made {
		err = errors.Join(err, s.remove(ctx, definitions+"/"+made))
	}
	return err
}

func (f *floor) version() string { return f.group + "/v1beta1" }

func (f *floor) path(namespace, resource string) string {
	return "/apis/" + f.version() + "/namespaces/" + namespace + "/" + resource
}

// owned is the metadata of an object that goes with its owner.
func owned(name, version, kind string, owner object) map[string]any {
	return map[string]any{"name": name, "ownerReferences": []any{map[string]any{
		"apiVersion": version, "kind": kind, "name": owner.Metadata.Name, "uid": owner.Metadata.UID,
		"controller": true, "blockOwnerDeletion": true,
	}}}
}

func (s *session) floorClaim(ctx context.Context, id string) (object, error) {
	return s.server.create(ctx, s.floor.path(s.Namespace, "sandboxclaims"), marshal(map[string]any{
		"apiVersion": s.floor.version(), "kind": "SandboxClaim", "metadata": map[string]any{"name": id},
		"spec": map[string]any{"warmPoolRef": map[string]any{"name": bench}},
	}))
}

func (s *session) floorSandbox(ctx context.Context, id string, claim object) (object, error) {
	return s.server.create(ctx, s.floor.path(s.Namespace, "sandboxes"), s.floorSandboxOf(owned(id, s.floor.version(), "SandboxClaim", claim)))
}

// floorSandboxOf is a sandbox with some metadata.
func (s *session) floorSandboxOf(meta map[string]any) []byte {
	return marshal(map[string]any{
		"apiVersion": s.floor.version(), "kind": "Sandbox", "metadata": meta,
		"spec": map[string]any{"podTemplate": s.template.spec["podTemplate"]},
	})
}

// floorTell tells a claim of its sandbox.
func (t *trial) floorTell(ctx context.Context, claim, sandbox string) error {
	_, err := t.server.merge(ctx, t.claims+"/"+claim+"/status", marshal(map[string]any{"status": map[string]any{
		"sandbox": map[string]any{"name": sandbox, "podIPs": []any{"192.0.2.1"}},
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "DependenciesReady", "message": "Pod is Ready",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}}))
	return err
}

// provokeCollector returns when a sandbox has gone with its claim.
func (s *session) provokeCollector(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience(), fmt.Errorf("the garbage collector removed nothing of the floor's kinds for %v: leave out the scenario %s", s.patience(), Floor))
	defer cancel()
	claim, err := s.floorClaim(ctx, bench)
	if err != nil {
		return err
	}
	if _, err = s.floorSandbox(ctx, bench, claim); err != nil {
		return err
	}
	if err := s.server.remove(ctx, s.floor.path(s.Namespace, "sandboxclaims")+"/"+bench); err != nil {
		return err
	}
	there := false
	return s.server.follow(ctx, source{path: s.floor.path(s.Namespace, "sandboxes"), metadata: true}, func(_ time.Time, e event) bool {
		there = there || e.Type == added
		return e.Type != deleted && (e.Type != listed || there)
	})
}

// playFloor puts a sustained load on the cluster, with this program in the place of a
// controller, and a burst if one is asked for.
func (s *session) playFloor(ctx context.Context) ([]Result, error) {
	if s.floor == nil || len(s.floor.made) < len(copied) {
		return nil, nil
	}
	if s.size > 0 {
		if err := s.ensure(ctx, s.warm(ownPool), usual); err != nil {
			return nil, err
		}
	}
	r, err := s.measure(ctx, Floor, s.Rate, func(ctx context.Context, t *trial) error {
		t.claims, t.make = s.floor.path(s.Namespace, "sandboxclaims"), t.makeAll
		t.ledger.ignorePods()
		ctx, stop, err := s.server.attend(ctx, source{path: t.claims}, t.ledger.see)
		if err != nil {
			return err
		}
		defer stop()
		return s.sustained(s.Rate)(ctx, t)
	})
	if err != nil {
		return nil, err
	}
	if !slices.Contains(s.Scenarios, Burst) {
		return []Result{r}, nil
	}
	of, err := s.playFloorBurst(ctx)
	return append([]Result{r}, of...), err
}

// makeAll makes a claim, tells it, and makes the sandbox and the pod that a pool would
// make instead of what it was told of: four writes.
func (t *trial) makeAll(ctx context.Context, one *life) error {
	claim, err := t.floorClaim(ctx, one.name)
	if err != nil {
		return err
	}
	id := one.name + "-pod"
	if err := t.floorTell(ctx, one.name, id); err != nil {
		return err
	}
	sandbox, err := t.floorSandbox(ctx, id, claim)
	if err != nil {
		return err
	}
	labels, _ := t.template.spec["podTemplate"].(map[string]any)["metadata"].(map[string]any)
	meta := owned(id, t.floor.version(), "Sandbox", sandbox)
	meta["labels"], meta["annotations"] = labels["labels"], labels["annotations"]
	_, err = t.server.create(ctx, t.pods(), marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": t.template.pod(),
	}))
	return err
}
