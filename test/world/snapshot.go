package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Snapshot is how things stand, each kind by name; by namespace/name if all
// namespaces are watched.
type Snapshot struct {
	Pods      map[string]*corev1.Pod
	Sandboxes map[string]*agents.Sandbox
	Claims    map[string]*ext.SandboxClaim
	Pools     map[string]*ext.SandboxWarmPool
	Templates map[string]*ext.SandboxTemplate
	Policies  map[string]*networkingv1.NetworkPolicy
	// Deleted are the UIDs of what is no more.
	Deleted map[types.UID]bool
	// Transitions are the moves of pods and claims so far, those of one object in
	// their order.
	Transitions []Transition
	// Changes is how many changes it has taken in.
	Changes int

	states   map[types.UID]string
	versions map[types.UID]uint64
	// owned are sandboxes and pods by their controllers, and owners says whose each is.
	owned  map[types.UID]map[types.UID]metav1.Object
	owners map[types.UID]types.UID
	wide   bool
}

func newSnapshot() Snapshot {
	return Snapshot{
		Pods: map[string]*corev1.Pod{}, Sandboxes: map[string]*agents.Sandbox{},
		Claims: map[string]*ext.SandboxClaim{}, Pools: map[string]*ext.SandboxWarmPool{},
		Templates: map[string]*ext.SandboxTemplate{}, Policies: map[string]*networkingv1.NetworkPolicy{}, Deleted: map[types.UID]bool{},
		states: map[types.UID]string{}, versions: map[types.UID]uint64{},
		owned: map[types.UID]map[types.UID]metav1.Object{}, owners: map[types.UID]types.UID{},
	}
}

// After returns the snapshot of a history up to its end.
func After(history []Change) *Snapshot {
	s := newSnapshot()
	for _, c := range history {
		s.Take(c)
	}
	return &s
}

// Take takes in one change.
func (s *Snapshot) Take(c Change) {
	s.Changes++
	key := s.key(c.Object.GetNamespace(), c.Object.GetName())
	switch o := c.Object.(type) {
	case *corev1.Pod:
		keep(s.Pods, key, o, c.Deleted)
		s.own(c)
	case *agents.Sandbox:
		keep(s.Sandboxes, key, o, c.Deleted)
		s.own(c)
	case *ext.SandboxClaim:
		keep(s.Claims, key, o, c.Deleted)
	case *ext.SandboxWarmPool:
		keep(s.Pools, key, o, c.Deleted)
	case *ext.SandboxTemplate:
		keep(s.Templates, key, o, c.Deleted)
	case *networkingv1.NetworkPolicy:
		keep(s.Policies, key, o, c.Deleted)
	}
	s.move(c)
	s.versions[c.Object.GetUID()] = c.Version
	if c.Deleted {
		s.Deleted[c.Object.GetUID()] = true
	}
}

// own takes in whose an object is.
func (s *Snapshot) own(c Change) {
	uid := c.Object.GetUID()
	if was, ok := s.owners[uid]; ok {
		delete(s.owners, uid)
		if delete(s.owned[was], uid); len(s.owned[was]) == 0 {
			delete(s.owned, was)
		}
	}
	owner := metav1.GetControllerOfNoCopy(c.Object)
	if owner == nil || c.Deleted {
		return
	}
	if s.owned[owner.UID] == nil {
		s.owned[owner.UID] = map[types.UID]metav1.Object{}
	}
	s.owned[owner.UID][uid] = c.Object
	s.owners[uid] = owner.UID
}

// Owned are the sandboxes and pods that an object controls.
func (s *Snapshot) Owned(by types.UID) []metav1.Object {
	return slices.Collect(maps.Values(s.owned[by]))
}

// forget drops what only a history is made of.
func (s *Snapshot) forget(c Change) {
	s.Transitions = nil
	if c.Deleted {
		s.dropped(c.Object.GetUID())
	}
}

// dropped drops what is known of an object that is no more.
func (s *Snapshot) dropped(uid types.UID) {
	delete(s.Deleted, uid)
	delete(s.versions, uid)
	delete(s.states, uid)
}

func (s *Snapshot) key(namespace, name string) string {
	if s.wide && name != "" {
		return namespace + "/" + name
	}
	return name
}

func keep[T any](in map[string]T, key string, o T, deleted bool) {
	if deleted {
		delete(in, key)
		return
	}
	in[key] = o
}

// All returns the objects of a kind, as KindOf names it.
func (s *Snapshot) All(kind string) (all []metav1.Object) {
	switch kind {
	case "pod":
		return objects(s.Pods)
	case "sandbox":
		return objects(s.Sandboxes)
	case "claim":
		return objects(s.Claims)
	case "pool":
		return objects(s.Pools)
	case "policy":
		return objects(s.Policies)
	}
	return objects(s.Templates)
}

func objects[T metav1.Object](in map[string]T) (all []metav1.Object) {
	for _, o := range in {
		all = append(all, o)
	}
	return all
}

// PodState is the state on a pod, as it stands there; empty when there is no pod.
func (s *Snapshot) PodState(pod string) string {
	if p, ok := s.Pods[pod]; ok {
		return p.Labels[apply.LabelState]
	}
	return ""
}

// ClaimState is the state of a claim, as it stands there.
func (s *Snapshot) ClaimState(claim string) string {
	if c, ok := s.Claims[claim]; ok {
		return string(c.Status.State)
	}
	return ""
}

// SandboxOf is the sandbox a claim was told of.
func (s *Snapshot) SandboxOf(claim string) string {
	if c, ok := s.Claims[claim]; ok {
		return s.key(c.Namespace, c.Status.SandboxStatus.Name)
	}
	return ""
}

// Members are the names of the sandboxes a pool owns and has not retired.
func (s *Snapshot) Members(pool string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Sandboxes)) {
		if p, ok := s.Pools[pool]; ok && member(s.Sandboxes[name], p.UID) {
			names = append(names, name)
		}
	}
	return names
}

func member(s *agents.Sandbox, pool types.UID) bool {
	owner := metav1.GetControllerOf(s)
	return owner != nil && owner.UID == pool && s.Annotations[apply.AnnotationRetired] == ""
}

// Free are the members of a pool that a claim may take: ready, and saying so.
func (s *Snapshot) Free(pool string) []string {
	return slices.DeleteFunc(s.Members(pool), func(name string) bool {
		return s.PodState(name) != string(states.Ready) || !metav1.IsControlledBy(s.Pods[name], s.Sandboxes[name])
	})
}

// HeldBy are the names of the sandboxes that a claim's UID controls.
func (s *Snapshot) HeldBy(claim types.UID) []string {
	var names []string
	for _, o := range s.owned[claim] {
		if b, ok := o.(*agents.Sandbox); ok {
			names = append(names, s.key(b.Namespace, b.Name))
		}
	}
	slices.Sort(names)
	return names
}

// String lists everything, an object a line.
func (s *Snapshot) String() string {
	var b strings.Builder
	list(&b, s.Templates)
	list(&b, s.Policies)
	list(&b, s.Pools)
	list(&b, s.Claims)
	list(&b, s.Sandboxes)
	list(&b, s.Pods)
	return b.String()
}

func list[T metav1.Object](b *strings.Builder, all map[string]T) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(b, "  %s\n", Change{Object: all[name]})
	}
}
