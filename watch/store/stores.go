package store

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// An Index finds objects by something else than their name.
type Index string

// The indexes.
const (
	// ByOwner finds what a controller reference makes somebody's, by ID. Names are
	// never identity.
	ByOwner Index = "owner"
	// ByPool finds claims by the key of their pool.
	ByPool Index = "pool"
	// ByTemplate finds pools by the key of their template.
	ByTemplate Index = "template"
	// ByBirth finds the pods of members by the ID of the pool they were made for.
	ByBirth Index = "birth"
	// ByID finds pools.
	ByID Index = "id"
)

// ID is an object's identity as indexes have it: its namespace and its UID.
func ID(o metav1.Object) string { return o.GetNamespace() + "/" + string(o.GetUID()) }

// Stores are the newest that is known of every kind.
type Stores struct {
	Pods      *Store[*corev1.Pod]
	Sandboxes *Store[*agents.Sandbox]
	Claims    *Store[*ext.SandboxClaim]
	Pools     *Store[*ext.SandboxWarmPool]
	Templates *Store[*ext.SandboxTemplate]

	blueprints *blueprints
}

// New returns the stores over a connection, of one namespace or, with none, of
// all. Informers and consistent reads share the connection; no write ever waits
// behind them.
func New(c *client.Connection, ns string) (*Stores, error) {
	named := func(o *metav1.ListOptions) { o.LabelSelector = apply.LabelNameHash }
	s := &Stores{
		blueprints: newBlueprints(),
		Pods: newStore(informer(listWatch(c.Core.CoreV1().Pods(ns), named), &corev1.Pod{}, indexes{ByOwner: ownerIndex, ByBirth: birthIndex}),
			func(ctx context.Context, k view.Key) (*corev1.Pod, error) {
				return c.Core.CoreV1().Pods(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Sandboxes: newStore(informer(listWatch(c.Kiln.Sandboxes(ns), nil), &agents.Sandbox{}, indexes{ByOwner: ownerIndex}),
			func(ctx context.Context, k view.Key) (*agents.Sandbox, error) {
				return c.Kiln.Sandboxes(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Claims: newStore(informer(listWatch(c.Kiln.Claims(ns), nil), &ext.SandboxClaim{}, indexes{ByPool: poolIndex}),
			func(ctx context.Context, k view.Key) (*ext.SandboxClaim, error) {
				return c.Kiln.Claims(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Pools: newStore(informer(listWatch(c.Kiln.Pools(ns), nil), &ext.SandboxWarmPool{}, indexes{ByTemplate: templateIndex, ByID: idIndex}),
			func(ctx context.Context, k view.Key) (*ext.SandboxWarmPool, error) {
				return c.Kiln.Pools(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Templates: newStore(informer(listWatch(c.Kiln.Templates(ns), nil), &ext.SandboxTemplate{}, nil),
			func(ctx context.Context, k view.Key) (*ext.SandboxTemplate, error) {
				return c.Kiln.Templates(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
	}
	for _, i := range s.Informers() {
		if err := i.SetTransform(trim); err != nil {
			return nil, fmt.Errorf("set up an informer: %w", err)
		}
	}
	return s, nil
}

// Informers are the informers behind the stores.
func (s *Stores) Informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		s.Pods.informer, s.Sandboxes.informer, s.Claims.informer, s.Pools.informer, s.Templates.informer,
	}
}

// lists is the part of a typed client that an informer needs.
type lists[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

func listWatch[L runtime.Object](c lists[L], narrow func(*metav1.ListOptions)) *cache.ListWatch {
	if narrow == nil {
		narrow = func(*metav1.ListOptions) {}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			return c.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			narrow(&o)
			return c.Watch(ctx, o)
		},
	}
}

// never disables the periodic resync: an event that is needed is caused by
// something, not by the clock.
const never = time.Duration(0)

type indexes map[Index]cache.IndexFunc

func informer(lw cache.ListerWatcher, kind runtime.Object, by indexes) cache.SharedIndexInformer {
	all := cache.Indexers{}
	for name, index := range by {
		all[string(name)] = index
	}
	return cache.NewSharedIndexInformerWithOptions(lw, kind, cache.SharedIndexInformerOptions{ResyncPeriod: never, Indexers: all})
}

// trim drops what nobody here reads before it is kept.
func trim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	if p, ok := o.(*corev1.Pod); ok {
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
		p.Status = corev1.PodStatus{
			Phase: p.Status.Phase, Conditions: p.Status.Conditions,
			PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs,
		}
	}
	return o, nil
}

func ownerIndex(o any) ([]string, error) {
	m := o.(metav1.Object)
	if owner := apply.OwnerOf(m); owner.Kind != states.OwnerNone {
		return []string{m.GetNamespace() + "/" + owner.UID}, nil
	}
	return nil, nil
}

func birthIndex(o any) ([]string, error) {
	if id := BornFor(o.(*corev1.Pod)); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

func idIndex(o any) ([]string, error) { return []string{ID(o.(metav1.Object))}, nil }

func poolIndex(o any) ([]string, error) {
	return []string{view.PoolOf(o.(*ext.SandboxClaim)).String()}, nil
}

func templateIndex(o any) ([]string, error) {
	return []string{view.TemplateOf(o.(*ext.SandboxWarmPool)).String()}, nil
}

// BornFor is the ID of the pool whose member a pod was to the end, or nothing.
// What a claim has had is no pool's, though it was made for one.
func BornFor(pod *corev1.Pod) string {
	uid := pod.Annotations[apply.AnnotationPoolUID]
	if uid == "" || pod.Labels[apply.LabelClaimUID] != "" {
		return ""
	}
	switch view.StateOf(pod) {
	case states.Warming, states.Ready, states.Stale:
		return pod.Namespace + "/" + uid
	case states.Binding, states.Bound: // a claim's
	}
	return ""
}
