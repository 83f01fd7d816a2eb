package world

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// A step is one write of another program: a create, or a merge patch.
type step struct {
	// By is the field manager.
	By     string         `json:"by"`
	Create map[string]any `json:"create"`
	Patch  struct {
		Kind        string `json:"kind"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"patch"`
	Merge map[string]any `json:"merge"`
}

// resources are the resources by their kinds.
var resources = map[string]schema.GroupVersionResource{
	"Pod":             {Version: "v1", Resource: "pods"},
	"Service":         {Version: "v1", Resource: "services"},
	"NetworkPolicy":   {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"Sandbox":         {Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"},
	"SandboxClaim":    {Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxclaims"},
	"SandboxTemplate": {Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxtemplates"},
	"SandboxWarmPool": {Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxwarmpools"},
}

// Replay writes what another program wrote into a namespace, step by step, as a text has
// it, and shows each object as the server returned it.
func Replay(ctx context.Context, c dynamic.Interface, namespace string, text []byte, show func(*unstructured.Unstructured) error) error {
	var steps []step
	if err := yaml.UnmarshalStrict(text, &steps); err != nil {
		return err
	}
	uids := map[string]string{}
	for i, s := range steps {
		o, err := s.do(ctx, c, namespace, uids)
		if err == nil {
			uids[o.GetKind()+"/"+o.GetName()] = string(o.GetUID())
			err = show(o)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (s step) do(ctx context.Context, c dynamic.Interface, namespace string, uids map[string]string) (*unstructured.Unstructured, error) {
	if s.Create != nil {
		o := &unstructured.Unstructured{Object: resolve(s.Create, uids).(map[string]any)}
		return c.Resource(resources[o.GetKind()]).Namespace(namespace).
			Create(ctx, o, metav1.CreateOptions{FieldManager: s.By})
	}
	body, err := json.Marshal(resolve(s.Merge, uids))
	if err != nil {
		return nil, err
	}
	var path []string
	if s.Patch.Subresource != "" {
		path = []string{s.Patch.Subresource}
	}
	o, err := c.Resource(resources[s.Patch.Kind]).Namespace(namespace).
		Patch(ctx, s.Patch.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: s.By}, path...)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Patch.Kind, s.Patch.Name, err)
	}
	return o, nil
}

// resolve puts UIDs in the place of what stands for them.
func resolve(tree any, uids map[string]string) any {
	switch t := tree.(type) {
	case map[string]any:
		for k, v := range t {
			t[k] = resolve(v, uids)
		}
	case []any:
		for i, v := range t {
			t[i] = resolve(v, uids)
		}
	case string:
		if kind, _, ok := strings.Cut(t, "/"); ok && resources[kind].Resource != "" {
			return uids[t]
		}
	}
	return tree
}
