package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// scaleOf is an object as kubectl scale and autoscalers see it.
func scaleOf(o *object) autoscalingv1.Scale {
	number := func(path ...string) int32 {
		n, _, _ := unstructured.NestedInt64(o.Object, path...)
		return int32(n)
	}
	selector, _, _ := unstructured.NestedString(o.Object, "status", "selector")
	return autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: autoscalingv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
			ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: number("spec", "replicas")},
		Status: autoscalingv1.ScaleStatus{Replicas: number("status", "replicas"), Selector: selector},
	}
}

// scaled is an object with the size that a scale says.
func scaled(was *object, scale *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	n, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	is := was.DeepCopy()
	is.SetResourceVersion(scale.GetResourceVersion())
	return is, unstructured.SetNestedField(is.Object, n, "spec", "replicas")
}

// bind puts a pod on a node, as the scheduler asks for it.
func (s *Server) bind(q *request) ([]byte, error) {
	body, err := q.body()
	if err != nil {
		return nil, err
	}
	var binding corev1.Binding
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	_, err = s.change(q, q.key, func(was *object) (*unstructured.Unstructured, error) {
		var why error
		switch {
		case was == nil:
			return nil, q.notFound()
		case binding.UID != "" && binding.UID != was.GetUID():
			why = errors.New("it is another pod")
		case was.GetDeletionTimestamp() != nil:
			why = fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", q.key.Name)
		}
		node, _, _ := unstructured.NestedString(was.Object, "spec", "nodeName")
		if why == nil && node != "" {
			why = fmt.Errorf("pod %v is already assigned to node %q", q.key.Name, node)
		}
		if why != nil {
			return nil, apierrors.NewConflict(q.kind.groupResource(), q.key.Name, why)
		}
		is := was.DeepCopy()
		conditions, _, _ := unstructured.NestedSlice(is.Object, "status", "conditions")
		conditions = append(slices.Clone(conditions), map[string]any{
			"type": string(corev1.PodScheduled), "status": "True", "lastProbeTime": nil, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		})
		return is, errors.Join(unstructured.SetNestedField(is.Object, binding.Target.Name, "spec", "nodeName"),
			unstructured.SetNestedSlice(is.Object, conditions, "status", "conditions"))
	})
	return success(), err
}

func readAll(q *request) ([]byte, error) {
	raw, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return raw, nil
}

// unstructuredOf is an object of the field managers: they know no others here.
func unstructuredOf(o runtime.Object) *unstructured.Unstructured {
	return o.(*unstructured.Unstructured)
}
