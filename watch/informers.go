package watch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// The indexes.
const (
	// byOwner finds what a controller reference makes somebody's, by the
	// owner's UID. Names are never identity.
	byOwner = "owner"
	// byPool finds claims by the namespace and name of their pool.
	byPool = "pool"
	// byTemplate finds pools by the namespace and name of their template.
	byTemplate = "template"
	// byBirth finds the pods of members by the UID of the pool they were born for.
	byBirth = "birth"
	// byUID finds pools.
	byUID = "uid"
)

// reads are the connections that informers and consistent reads share; no write
// ever waits behind them.
type reads struct {
	core kubernetes.Interface
	kiln *client.Clients
	meta metadata.Interface
}

func newReads(cfg *rest.Config) (reads, error) {
	own := apply.Connection(cfg)
	h, err := rest.HTTPClientFor(own)
	if err != nil {
		return reads{}, err
	}
	kiln, err := client.New(own, h)
	if err != nil {
		return reads{}, err
	}
	pods := rest.CopyConfig(own)
	pods.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := kubernetes.NewForConfigAndClient(pods, h)
	if err != nil {
		return reads{}, err
	}
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(own), h)
	return reads{core: core, kiln: kiln, meta: meta}, err
}

// stores are the newest that is known of every kind.
type stores struct {
	pods      *store[*corev1.Pod]
	sandboxes *store[*agents.Sandbox]
	claims    *store[*ext.SandboxClaim]
	pools     *store[*ext.SandboxWarmPool]
	templates *store[*ext.SandboxTemplate]
}

func newStores(r reads, ns string) (*stores, error) {
	pods := listWatch(r.core.CoreV1().Pods(ns), func(o *metav1.ListOptions) { o.LabelSelector = apply.LabelNameHash })
	s := &stores{
		pods:      newStore[*corev1.Pod](informer(pods, &corev1.Pod{}, cache.Indexers{byOwner: ownerIndex, byBirth: birthIndex})),
		sandboxes: newStore[*agents.Sandbox](informer(listWatch(r.kiln.Sandboxes(ns), nil), &agents.Sandbox{}, cache.Indexers{byOwner: ownerIndex})),
		claims:    newStore[*ext.SandboxClaim](informer(listWatch(r.kiln.Claims(ns), nil), &ext.SandboxClaim{}, cache.Indexers{byPool: poolIndex})),
		pools: newStore[*ext.SandboxWarmPool](informer(listWatch(r.kiln.Pools(ns), nil), &ext.SandboxWarmPool{},
			cache.Indexers{byTemplate: templateIndex, byUID: uidIndex})),
		templates: newStore[*ext.SandboxTemplate](informer(listWatch(r.kiln.Templates(ns), nil), &ext.SandboxTemplate{}, cache.Indexers{})),
	}
	for _, i := range s.informers() {
		if err := i.SetTransform(trim); err != nil {
			return nil, fmt.Errorf("set up an informer: %w", err)
		}
	}
	return s, nil
}

func (s *stores) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		s.pods.informer, s.sandboxes.informer, s.claims.informer, s.pools.informer, s.templates.informer,
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

func informer(lw cache.ListerWatcher, kind runtime.Object, indexes cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformerWithOptions(lw, kind, cache.SharedIndexInformerOptions{
		ResyncPeriod: never, Indexers: indexes,
	})
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
	if owner := metav1.GetControllerOfNoCopy(o.(metav1.Object)); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

func birthIndex(o any) ([]string, error) {
	if pool := bornFor(o.(*corev1.Pod)); pool != "" {
		return []string{pool}, nil
	}
	return nil, nil
}

func uidIndex(o any) ([]string, error) { return []string{uidOf(o.(metav1.Object))}, nil }

func poolIndex(o any) ([]string, error) {
	c := o.(*ext.SandboxClaim)
	return []string{poolOf(c).String()}, nil
}

func templateIndex(o any) ([]string, error) {
	p := o.(*ext.SandboxWarmPool)
	return []string{templateOf(p).String()}, nil
}

func poolOf(c *ext.SandboxClaim) Key {
	return Key{Namespace: c.Namespace, Name: c.Spec.WarmPoolRef.Name}
}

func templateOf(p *ext.SandboxWarmPool) Key {
	return Key{Namespace: p.Namespace, Name: p.Spec.TemplateRef.Name}
}

func uidOf(o metav1.Object) string { return string(o.GetUID()) }

// controls reports whether an object's controller reference names a UID.
func controls(uid types.UID, o metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && owner.UID == uid
}
