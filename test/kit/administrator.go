package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/scale"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// Whatever the administrator does here, the recorder has seen before it returns:
// no condition holds because it was asked too early.

// Create makes objects, in order, as the administrator.
func (w *World) Create(objects ...metav1.Object) {
	w.t.Helper()
	for _, o := range objects {
		made, err := w.create(o)
		if err != nil {
			w.t.Fatalf("create %s: %v", o.GetName(), err)
		}
		w.Await(world.Seen(made))
	}
}

// CreateAtOnce makes objects all at the same time.
func (w *World) CreateAtOnce(objects ...metav1.Object) {
	w.t.Helper()
	made, errs := make([]metav1.Object, len(objects)), make([]error, len(objects))
	var making sync.WaitGroup
	for i, o := range objects {
		making.Go(func() { made[i], errs[i] = w.create(o) })
	}
	making.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
	for _, o := range made {
		w.Await(world.Seen(o))
	}
}

func (w *World) create(o metav1.Object) (metav1.Object, error) {
	switch o := o.(type) {
	case *ext.SandboxTemplate:
		return w.Templates().Create(w.ctx, o, metav1.CreateOptions{})
	case *ext.SandboxWarmPool:
		return w.Pools().Create(w.ctx, o, metav1.CreateOptions{})
	case *ext.SandboxClaim:
		return w.Claims().Create(w.ctx, o, metav1.CreateOptions{})
	case *agents.Sandbox:
		return w.Sandboxes().Create(w.ctx, o, metav1.CreateOptions{})
	case *networkingv1.NetworkPolicy:
		return w.Policies().Create(w.ctx, o, metav1.CreateOptions{})
	}
	return nil, fmt.Errorf("kit does not make a %T", o)
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
	scaled, err := w.scales().Patch(w.ctx, ext.PoolResource, pool, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Await(world.Seen(scaled))
}

// ScaleOf is what a pool says at that door.
func (w *World) ScaleOf(pool string) *autoscalingv1.Scale {
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
	labelled, err := w.Pods().Patch(w.ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "hand"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Await(world.Seen(labelled))
}

// SetClaimStatus gives a claim a status, as another program would.
func (w *World) SetClaimStatus(claim string, status ext.SandboxClaimStatus) {
	w.t.Helper()
	c, err := w.Claims().Get(w.ctx, claim, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c.Status = status
	if c, err = w.Claims().UpdateStatus(w.ctx, c, metav1.UpdateOptions{FieldManager: "hand"}); err != nil {
		w.t.Fatal(err)
	}
	w.Await(world.Seen(c))
}

// ChangeTemplate changes what a template's pods run; it returns the revision that
// this makes.
func (w *World) ChangeTemplate(template, image string) (revision string) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/podTemplate/spec/containers/0/image","value":%q}]`, image)
	t, err := w.Templates().Patch(w.ctx, template, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Await(world.Seen(t))
	return w.revision(t)
}

// Revision is the revision of a template as it is on the server.
func (w *World) Revision(template string) string {
	w.t.Helper()
	t, err := w.Templates().Get(w.ctx, template, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.revision(t)
}

func (w *World) revision(t *ext.SandboxTemplate) string {
	w.t.Helper()
	b, err := apply.BlueprintOf(t)
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Revision
}

// patchSpec changes the spec of an object by a merge patch, and waits until the watches
// show that.
func patchSpec[T metav1.Object](w *World, of interface {
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}, name, spec string) {
	w.t.Helper()
	patched, err := of.Patch(w.ctx, name, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Await(world.Seen(patched))
}

// PatchPool changes the spec of a pool by a merge patch.
func (w *World) PatchPool(pool, spec string) {
	w.t.Helper()
	patchSpec(w, w.Pools(), pool, spec)
}

// PatchClaim changes the spec of a claim by a merge patch.
func (w *World) PatchClaim(claim, spec string) {
	w.t.Helper()
	patchSpec(w, w.Claims(), claim, spec)
}

// PatchSandbox changes the spec of a sandbox by a merge patch.
func (w *World) PatchSandbox(sandbox, spec string) {
	w.t.Helper()
	patchSpec(w, w.Sandboxes(), sandbox, spec)
}

// PatchTemplate changes the spec of a template by a merge patch.
func (w *World) PatchTemplate(template, spec string) {
	w.t.Helper()
	patchSpec(w, w.Templates(), template, spec)
}

// Pause holds a pool's rollout where it is, or lets it go on.
func (w *World) Pause(pool string, paused bool) {
	w.t.Helper()
	w.PatchPool(pool, fmt.Sprintf(`{"updateStrategy":{"rollingUpdate":{"paused":%t}}}`, paused))
}
