package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/scale"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// Create makes objects, in order, as the administrator.
func (w *World) Create(objects ...metav1.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.create(o); err != nil {
			w.t.Fatalf("create %s: %v", o.GetName(), err)
		}
	}
}

// CreateAtOnce makes objects all at the same time.
func (w *World) CreateAtOnce(objects ...metav1.Object) {
	w.t.Helper()
	errs := make([]error, len(objects))
	var making sync.WaitGroup
	for i, o := range objects {
		making.Go(func() { errs[i] = w.create(o) })
	}
	making.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *World) create(o metav1.Object) (err error) {
	switch o := o.(type) {
	case *ext.SandboxTemplate:
		_, err = w.Templates().Create(w.ctx, o, metav1.CreateOptions{})
	case *ext.SandboxWarmPool:
		_, err = w.Pools().Create(w.ctx, o, metav1.CreateOptions{})
	case *ext.SandboxClaim:
		_, err = w.Claims().Create(w.ctx, o, metav1.CreateOptions{})
	case *agents.Sandbox:
		_, err = w.Sandboxes().Create(w.ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("kit does not make a %T", o)
	}
	return err
}

// deleter is the part of a client that deletes.
type deleter interface {
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// Delete deletes an object by name through one of the world's clients.
func (w *World) Delete(c deleter, names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := c.Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatalf("delete %s: %v", name, err)
		}
	}
}

// Scale gives a pool another size, by the same door as kubectl and autoscalers.
func (w *World) Scale(pool string, replicas int32) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := w.scales().Patch(w.ctx, ext.PoolResource, pool, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// Scaled is what a pool says at that door.
func (w *World) Scaled(pool string) *autoscalingv1.Scale {
	w.t.Helper()
	s, err := w.scales().Get(w.ctx, ext.PoolResource.GroupResource(), pool, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *World) scales() scale.ScaleInterface { return server.scales.Scales(w.Namespace) }

// LabelPod puts a label on a pod, or takes it away with an empty value, as a
// hand would.
func (w *World) LabelPod(pod, key, value string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if value == "" {
		patch = fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key)
	}
	_, err := w.Pods().Patch(w.ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "hand"})
	if err != nil {
		w.t.Fatal(err)
	}
}

// SetClaimStatus gives a claim a status, as another program would.
func (w *World) SetClaimStatus(claim string, status ext.SandboxClaimStatus) {
	w.t.Helper()
	c, err := w.Claims().Get(w.ctx, claim, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c.Status = status
	if _, err := w.Claims().UpdateStatus(w.ctx, c, metav1.UpdateOptions{FieldManager: "hand"}); err != nil {
		w.t.Fatal(err)
	}
}
