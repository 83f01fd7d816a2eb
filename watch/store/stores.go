package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	// ByHash finds pools by the hash of their name, and ByOrphan the sandboxes without
	// an owner by the hash of the pool that they say is theirs; both in a namespace.
	ByHash   Index = "hash"
	ByOrphan Index = "orphan"
	// ByTemplateHash finds what was made from templates, by the namespace and the hash
	// of the template's name.
	ByTemplateHash Index = "template-hash"
	// ByVolume finds sandboxes by the keys of the claims for storage that they need.
	ByVolume Index = "volume"
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
	Services  *Store[*corev1.Service]
	Volumes   *Store[*corev1.PersistentVolumeClaim]
	Policies  *Store[*networkingv1.NetworkPolicy]

	blueprints *blueprints
	specs      specs
}

// New returns the stores over a connection, of one namespace or, with none, of
// all. Informers and consistent reads share the connection; no write ever waits
// behind them.
func New(c *client.Connection, ns string) (*Stores, error) {
	named := func(o *metav1.ListOptions) { o.LabelSelector = apply.LabelNameHash }
	s := &Stores{
		blueprints: newBlueprints(), specs: newSpecs(specsKnown),
		Pods: newStore(informer(listWatch(c.Core.CoreV1().Pods(ns), named), &corev1.Pod{},
			indexes{ByOwner: ownerIndex, ByBirth: birthIndex, ByTemplateHash: madeIndex}),
			func(ctx context.Context, k view.Key) (*corev1.Pod, error) {
				return c.Core.CoreV1().Pods(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Sandboxes: newStore(informer(listWatch(c.Kiln.Sandboxes(ns), nil), &agents.Sandbox{}, indexes{
			ByOwner: ownerIndex, ByOrphan: orphanIndex, ByVolume: volumeIndex, ByTemplateHash: madeIndex,
		}),
			func(ctx context.Context, k view.Key) (*agents.Sandbox, error) {
				return c.Kiln.Sandboxes(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Claims: newStore(informer(listWatch(c.Kiln.Claims(ns), nil), &ext.SandboxClaim{}, indexes{ByPool: poolIndex}),
			func(ctx context.Context, k view.Key) (*ext.SandboxClaim, error) {
				return c.Kiln.Claims(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Pools: newStore(informer(listWatch(c.Kiln.Pools(ns), nil), &ext.SandboxWarmPool{}, indexes{ByTemplate: templateIndex, ByID: idIndex, ByHash: hashIndex}),
			func(ctx context.Context, k view.Key) (*ext.SandboxWarmPool, error) {
				return c.Kiln.Pools(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Templates: newStore(informer(listWatch(c.Kiln.Templates(ns), nil), &ext.SandboxTemplate{}, nil),
			func(ctx context.Context, k view.Key) (*ext.SandboxTemplate, error) {
				return c.Kiln.Templates(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Services: newStore(informer(listWatch(c.Core.CoreV1().Services(ns), named), &corev1.Service{}, nil),
			func(ctx context.Context, k view.Key) (*corev1.Service, error) {
				return c.Core.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Volumes: newStore(informer(listWatch(c.Core.CoreV1().PersistentVolumeClaims(ns), named), &corev1.PersistentVolumeClaim{}, nil),
			func(ctx context.Context, k view.Key) (*corev1.PersistentVolumeClaim, error) {
				return c.Core.CoreV1().PersistentVolumeClaims(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
		Policies: newStore(informer(listWatch(c.Core.NetworkingV1().NetworkPolicies(ns), nil), &networkingv1.NetworkPolicy{}, indexes{ByTemplateHash: madeIndex}),
			func(ctx context.Context, k view.Key) (*networkingv1.NetworkPolicy, error) {
				return c.Core.NetworkingV1().NetworkPolicies(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
			}),
	}
	s.Pods.watch = func(ctx context.Context, ns string, o metav1.ListOptions) (apiwatch.Interface, error) {
		return c.Core.CoreV1().Pods(ns).Watch(ctx, o)
	}
	s.Services.watch = func(ctx context.Context, ns string, o metav1.ListOptions) (apiwatch.Interface, error) {
		return c.Core.CoreV1().Services(ns).Watch(ctx, o)
	}
	s.Volumes.watch = func(ctx context.Context, ns string, o metav1.ListOptions) (apiwatch.Interface, error) {
		return c.Core.CoreV1().PersistentVolumeClaims(ns).Watch(ctx, o)
	}
	s.Pools.list = func(ctx context.Context) ([]*ext.SandboxWarmPool, string, error) {
		l, err := c.Kiln.Pools(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, "", err
		}
		return pointers(l.Items), l.ResourceVersion, nil
	}
	s.Templates.list = func(ctx context.Context) ([]*ext.SandboxTemplate, string, error) {
		l, err := c.Kiln.Templates(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, "", err
		}
		return pointers(l.Items), l.ResourceVersion, nil
	}
	for _, i := range s.Informers() {
		if err := i.SetTransform(s.keep); err != nil {
			return nil, fmt.Errorf("set up an informer: %w", err)
		}
	}
	return s, nil
}

// Ahead is of how many objects the stores know more than their informers.
func (s *Stores) Ahead() int {
	return s.Pods.Ahead() + s.Sandboxes.Ahead() + s.Claims.Ahead() + s.Pools.Ahead() + s.Templates.Ahead() +
		s.Services.Ahead() + s.Volumes.Ahead() + s.Policies.Ahead()
}

// Followed is how many single objects are watched because they are in the way.
func (s *Stores) Followed() int {
	return s.Pods.Followed() + s.Services.Followed() + s.Volumes.Followed()
}

// Informers are the informers behind the stores.
func (s *Stores) Informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		s.Pods.informer, s.Sandboxes.informer, s.Claims.informer, s.Pools.informer, s.Templates.informer,
		s.Services.informer, s.Volumes.informer, s.Policies.informer,
	}
}

// SandboxInformers are those that sandboxes alone need.
func (s *Stores) SandboxInformers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		s.Pods.informer, s.Sandboxes.informer, s.Services.informer, s.Volumes.informer, s.Policies.informer,
	}
}

// CatchUp reads all pools and templates from the API server itself. Whoever begins to
// work judges by them whether a claim may have a sandbox of an older template, and
// what its predecessor knew it must know, too.
func (s *Stores) CatchUp(ctx context.Context) error {
	var templates sync.WaitGroup
	var other error
	templates.Go(func() { other = s.Templates.CatchUp(ctx) })
	err := s.Pools.CatchUp(ctx)
	templates.Wait()
	return errors.Join(err, other)
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
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

// keep is what is kept of an object that an informer was told of.
func (s *Stores) keep(o any) (any, error) {
	if b, ok := o.(*agents.Sandbox); ok {
		s.specs.share(&b.Spec.PodTemplate)
	}
	o, err := trim(o)
	if m, ok := o.(metav1.Object); ok {
		shareTexts(m)
	}
	return o, err
}

// trim drops what nobody here reads before it is kept. The managed fields of an
// object that the agent-sandbox controller wrote are read once, when it is taken over.
func trim(o any) (any, error) {
	if p, ok := o.(*networkingv1.NetworkPolicy); ok {
		apply.TrimPolicy(p)
		return o, nil
	}
	if m, ok := o.(metav1.Object); ok && !apply.Inherited(m) {
		m.SetManagedFields(nil)
	}
	if v, ok := o.(*corev1.PersistentVolumeClaim); ok {
		v.Spec, v.Status = corev1.PersistentVolumeClaimSpec{}, corev1.PersistentVolumeClaimStatus{}
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

func volumeIndex(o any) (keys []string, err error) {
	b := o.(*agents.Sandbox)
	for _, v := range b.Spec.VolumeClaimTemplates {
		keys = append(keys, b.Namespace+"/"+apply.VolumeName(b, v))
	}
	return keys, nil
}

func birthIndex(o any) ([]string, error) {
	if id := BornFor(o.(*corev1.Pod)); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

func orphanIndex(o any) ([]string, error) {
	m := o.(metav1.Object)
	if hash := m.GetLabels()[apply.LabelPool]; hash != "" && apply.OwnerOf(m).Kind == states.OwnerNone {
		return []string{m.GetNamespace() + "/" + hash}, nil
	}
	return nil, nil
}

func hashIndex(o any) ([]string, error) {
	m := o.(metav1.Object)
	return []string{m.GetNamespace() + "/" + apply.Hash(m.GetName())}, nil
}

func madeIndex(o any) ([]string, error) {
	m := o.(metav1.Object)
	if hash, ok := m.GetLabels()[apply.LabelTemplate]; ok {
		return []string{m.GetNamespace() + "/" + hash}, nil
	}
	return nil, nil
}

// MadeFrom is what the index ByTemplateHash has of a template.
func MadeFrom(template view.Key) string { return template.Namespace + "/" + apply.Hash(template.Name) }

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
