package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// A Condition is what Await waits for. It sees nil when the object does not exist.
type Condition struct {
	// What completes the sentence "pod default/x is not ...".
	What string
	Met  func(*unstructured.Unstructured) bool
}

// True is met when a status condition is True.
func True(name string) Condition {
	return Condition{What: name, Met: func(o *unstructured.Unstructured) bool { return o != nil && isTrue(o, name) }}
}

// Gone is met when an object is no more.
var Gone = Condition{What: "gone", Met: func(o *unstructured.Unstructured) bool { return o == nil }}

// Await watches one object until it meets a condition or ctx ends.
func (c *Cluster) Await(ctx context.Context, kind schema.GroupVersionResource, namespace, name string, condition Condition) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	one := fields.OneTermEqualSelector("metadata.name", name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = one
			return client.Resource(kind).Namespace(namespace).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = one
			return client.Resource(kind).Namespace(namespace).Watch(ctx, o)
		},
	}
	absent := func(s cache.Store) (bool, error) { return len(s.List()) == 0 && condition.Met(nil), nil }
	_, err = watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, absent,
		func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				return condition.Met(nil), nil
			}
			o, ok := e.Object.(*unstructured.Unstructured)
			return ok && condition.Met(o), nil
		})
	if err != nil {
		return fmt.Errorf("%s %s/%s is not %s: %w", kind.Resource, namespace, name, condition.What, err)
	}
	return nil
}

func isTrue(o *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return c["status"] == "True"
		}
	}
	return false
}
