package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/world"
)

// hands are people, and other programs, who change things: some of it theirs to change,
// and some not.
type hands struct {
	*soak
	mu    sync.Mutex
	rnd   *rand.Rand
	image int
}

// by is who writes.
var by = metav1.PatchOptions{FieldManager: "hand"}

var errNone = errors.New("there is none at the moment")

func (h *hands) number(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rnd.IntN(n)
}

// pool is a random pool.
func (h *hands) pool() key {
	return key{namespaces[h.number(len(namespaces))], strategies[h.number(len(strategies))].pool}
}

// one is a random object of a kind that is meant, or nil.
func (h *hands) one(kind string, meant func(*world.Snapshot, metav1.Object) bool) (one metav1.Object) {
	var all []metav1.Object
	h.Look(func(s *world.Snapshot) {
		all = slices.DeleteFunc(s.All(kind), func(o metav1.Object) bool {
			return !slices.Contains(namespaces, o.GetNamespace()) || o.GetDeletionTimestamp() != nil || meant != nil && !meant(s, o)
		})
	})
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b metav1.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all[h.number(len(all))]
}

// template gives a template another pod.
func (h *hands) template(ctx context.Context, k key, pod string) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/podTemplate","value":%s}]`, pod)
	_, err := h.clients.Kiln.Templates(k.namespace).Patch(ctx, k.name, types.JSONPatchType, []byte(patch), by)
	return err
}

// good is a pod that runs, after up to a second.
func (h *hands) good() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.image++
	return fmt.Sprintf(`{"metadata":{"annotations":{"kwok.x-k8s.io/ready-after":"%dms"}},"spec":{"containers":[{"name":"main","image":"image:%d"}]}}`,
		h.rnd.IntN(1000), h.image)
}

// brokenLabel marks what is made from a template that does not work.
const brokenLabel = "soak.example.com/broken"

// broken is a pod that never runs: it never becomes Ready, no node will have it, or the
// API server does not accept it.
func (h *hands) broken() string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"},`, brokenLabel) + []string{
		`"annotations":{"kwok.x-k8s.io/ready-after":"10h"}},"spec":{"containers":[{"name":"main","image":"broken"}]}}`,
		`"annotations":{}},"spec":{"nodeSelector":{"no":"such"},"containers":[{"name":"main","image":"broken"}]}}`,
		`"annotations":{}},"spec":{"containers":[{"name":"Not A Name","image":"broken"}]}}`,
	}[h.number(3)]
}

func (h *hands) retemplate(ctx context.Context) error { return h.template(ctx, h.pool(), h.good()) }

// breakTemplate breaks a template for a while.
func (h *hands) breakTemplate(ctx context.Context) error {
	k := h.pool()
	if err := h.template(ctx, k, h.broken()); err != nil {
		return err
	}
	select {
	case <-time.After(15 * time.Second):
	case <-ctx.Done():
		return nil // the calm mends it
	}
	persist(ctx, func(ctx context.Context) error { return h.template(ctx, k, h.good()) })
	return nil
}

// spec changes the spec of a pool.
func (h *hands) spec(ctx context.Context, k key, spec string) error {
	_, err := h.clients.Kiln.Pools(k.namespace).Patch(ctx, k.name, types.MergePatchType, []byte(`{"spec":`+spec+`}`), by)
	return err
}

func (h *hands) scale(ctx context.Context) error {
	return h.spec(ctx, h.pool(), fmt.Sprintf(`{"replicas":%d}`, h.number(2*replicas)))
}

// pause holds a rollout for a while.
func (h *hands) pause(ctx context.Context) error {
	k := key{namespaces[h.number(len(namespaces))], "rolling"}
	if err := h.spec(ctx, k, `{"updateStrategy":{"rollingUpdate":{"paused":true}}}`); err != nil {
		return err
	}
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return nil // the calm lets it go on
	}
	persist(ctx, func(ctx context.Context) error {
		return h.spec(ctx, k, `{"updateStrategy":{"rollingUpdate":{"paused":false}}}`)
	})
	return nil
}

// editPod takes a label of ours from a pod, or gives it another value.
func (h *hands) editPod(ctx context.Context) error {
	pod := h.one("pod", nil)
	if pod == nil {
		return errNone
	}
	patch := []string{
		fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, apply.LabelState),
		fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, apply.LabelClaimUID),
		fmt.Sprintf(`{"metadata":{"labels":{%q:"another"}}}`, apply.LabelPool),
	}[h.number(3)]
	h.journal.write("HAND pod %s/%s %s", pod.GetNamespace(), pod.GetName(), patch)
	_, err := h.clients.Core.CoreV1().Pods(pod.GetNamespace()).Patch(ctx, pod.GetName(), types.MergePatchType, []byte(patch), by)
	return unlessGone(err)
}

// editStatus writes nonsense into a status.
func (h *hands) editStatus(ctx context.Context) error {
	kind := []string{"sandbox", "pool", "claim"}[h.number(3)]
	o := h.one(kind, told)
	if o == nil {
		return errNone
	}
	h.journal.write("HAND status of %s %s/%s", kind, o.GetNamespace(), o.GetName())
	var err error
	switch kind {
	case "sandbox":
		_, err = h.clients.Kiln.Sandboxes(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"status":{"podIPs":["192.0.2.1"],"nodeName":"no-such"}}`), by, "status")
	case "pool":
		_, err = h.clients.Kiln.Pools(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"status":{"replicas":99,"readyReplicas":77}}`), by, "status")
	case "claim":
		_, err = h.clients.Kiln.Claims(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"status":{"sandbox":{"podIPs":["192.0.2.1"]}}}`), by, "status")
	}
	return unlessGone(err)
}

// editClaim takes all annotations from a claim.
func (h *hands) editClaim(ctx context.Context) error {
	c := h.one("claim", told)
	if c == nil {
		return errNone
	}
	h.journal.write("HAND annotations of claim %s/%s", c.GetNamespace(), c.GetName())
	_, err := h.clients.Kiln.Claims(c.GetNamespace()).Patch(ctx, c.GetName(), types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`), by)
	return unlessGone(err)
}

// told means what is no claim, or one that is bound.
func told(_ *world.Snapshot, o metav1.Object) bool {
	c, ok := o.(*ext.SandboxClaim)
	return !ok || c.Status.State == ext.StateBound
}

func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// strikeSandbox deletes a sandbox that a claim has.
func (h *hands) strikeSandbox(ctx context.Context) error {
	b := h.one("sandbox", func(_ *world.Snapshot, o metav1.Object) bool { return ownedBy(o, "SandboxClaim") })
	if b == nil {
		return errNone
	}
	h.load.strike(b.GetUID())
	h.journal.write("HAND deletes sandbox %s/%s", b.GetNamespace(), b.GetName())
	return unlessGone(h.clients.Kiln.Sandboxes(b.GetNamespace()).Delete(ctx, b.GetName(), only(b)))
}

// strikeMember deletes a sandbox that a pool has, as far as we know.
func (h *hands) strikeMember(ctx context.Context) error {
	b := h.one("sandbox", func(_ *world.Snapshot, o metav1.Object) bool { return ownedBy(o, "SandboxWarmPool") })
	if b == nil {
		return errNone
	}
	h.load.strike(b.GetUID())
	h.journal.write("HAND deletes sandbox %s/%s", b.GetNamespace(), b.GetName())
	return unlessGone(h.clients.Kiln.Sandboxes(b.GetNamespace()).Delete(ctx, b.GetName(), only(b)))
}

// strikePod deletes a pod that is bound.
func (h *hands) strikePod(ctx context.Context) error {
	p := h.one("pod", func(_ *world.Snapshot, o metav1.Object) bool {
		return o.GetLabels()[apply.LabelState] == string(states.Bound)
	})
	if p == nil {
		return errNone
	}
	h.journal.write("HAND deletes pod %s/%s", p.GetNamespace(), p.GetName())
	return unlessGone(h.clients.Core.CoreV1().Pods(p.GetNamespace()).Delete(ctx, p.GetName(), only(p)))
}

func only(o metav1.Object) metav1.DeleteOptions {
	uid := o.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

func ownedBy(o metav1.Object, kind string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == kind
}

// node has a node go away for a while: it takes no pods, and its pods are not Ready.
func (h *hands) node(ctx context.Context) error {
	node := fmt.Sprintf("node-%d", h.number(nodes))
	if err := h.cordon(ctx, node, true); err != nil {
		return err
	}
	h.flip(ctx, node, corev1.ConditionFalse)
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return nil // the calm brings it back
	}
	persist(ctx, func(ctx context.Context) error { return h.cordon(ctx, node, false) })
	h.flip(ctx, node, corev1.ConditionTrue)
	return nil
}

func (h *hands) cordon(ctx context.Context, node string, away bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, away)
	_, err := h.clients.Core.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, by)
	return err
}

// flip makes the pods of a node, or of all, Ready or not.
func (h *hands) flip(ctx context.Context, node string, to corev1.ConditionStatus) {
	var pods []*corev1.Pod
	h.Look(func(s *world.Snapshot) {
		for _, p := range s.Pods {
			if p.Status.Phase == corev1.PodRunning && (node == "" || p.Spec.NodeName == node) && world.IsReady(p) == (to == corev1.ConditionFalse) {
				pods = append(pods, p)
			}
		}
	})
	now, _ := metav1.Now().MarshalJSON()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%s}]}}`, to, now)
	for _, p := range pods {
		persist(ctx, func(ctx context.Context) error {
			_, err := h.clients.Core.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, by, "status")
			return unlessGone(err)
		})
	}
}
