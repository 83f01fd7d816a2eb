package kit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Sight is how things stand in a world, each kind by name.
type Sight struct {
	Pods      map[string]*corev1.Pod
	Sandboxes map[string]*agents.Sandbox
	Claims    map[string]*ext.SandboxClaim
	Pools     map[string]*ext.SandboxWarmPool
	Templates map[string]*ext.SandboxTemplate
	// Ended are the UIDs of what is no more.
	Ended map[types.UID]bool
}

func newSight() Sight {
	return Sight{
		Pods: map[string]*corev1.Pod{}, Sandboxes: map[string]*agents.Sandbox{},
		Claims: map[string]*ext.SandboxClaim{}, Pools: map[string]*ext.SandboxWarmPool{},
		Templates: map[string]*ext.SandboxTemplate{}, Ended: map[types.UID]bool{},
	}
}

func (s *Sight) take(c Change) {
	switch o := c.Object.(type) {
	case *corev1.Pod:
		keep(s.Pods, o.Name, o, c.Gone)
	case *agents.Sandbox:
		keep(s.Sandboxes, o.Name, o, c.Gone)
	case *ext.SandboxClaim:
		keep(s.Claims, o.Name, o, c.Gone)
	case *ext.SandboxWarmPool:
		keep(s.Pools, o.Name, o, c.Gone)
	case *ext.SandboxTemplate:
		keep(s.Templates, o.Name, o, c.Gone)
	}
	if c.Gone {
		s.Ended[c.Object.GetUID()] = true
	}
}

func keep[T any](in map[string]T, name string, o T, gone bool) {
	if gone {
		delete(in, name)
		return
	}
	in[name] = o
}

// Word is the word on a pod, as it stands there; empty when there is no pod.
func (s *Sight) Word(pod string) string {
	if p, ok := s.Pods[pod]; ok {
		return p.Labels[apply.LabelState]
	}
	return ""
}

// State is the word of a claim, as it stands there.
func (s *Sight) State(claim string) string {
	if c, ok := s.Claims[claim]; ok {
		return string(c.Status.State)
	}
	return ""
}

// SandboxOf is the sandbox a claim was told of.
func (s *Sight) SandboxOf(claim string) string {
	if c, ok := s.Claims[claim]; ok {
		return c.Status.SandboxStatus.Name
	}
	return ""
}

// Members are the names of the sandboxes a pool owns and has not retired.
func (s *Sight) Members(pool string) []string {
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
	return owner != nil && owner.UID == pool && s.Annotations[apply.NoteRetired] == ""
}

// Free are the members of a pool that a claim may take: Ready, and saying so.
func (s *Sight) Free(pool string) []string {
	return slices.DeleteFunc(s.Members(pool), func(name string) bool {
		return s.Word(name) != string(states.Ready) || !controlled(s.Pods[name], s.Sandboxes[name])
	})
}

// HeldBy are the names of the sandboxes that a claim's UID controls.
func (s *Sight) HeldBy(claim types.UID) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Sandboxes)) {
		if owner := metav1.GetControllerOf(s.Sandboxes[name]); owner != nil && owner.UID == claim {
			names = append(names, name)
		}
	}
	return names
}

func controlled(o, by metav1.Object) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == by.GetUID()
}

// String lists everything, an object a line.
func (s *Sight) String() string {
	var b strings.Builder
	list(&b, s.Templates)
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
