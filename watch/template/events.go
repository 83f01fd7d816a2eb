package template

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// TemplateChanged wakes the template and, when more than its metadata changed, the
// pools that use it and the sandboxes that wait for its policy.
func (l *Templates) TemplateChanged(t store.Change[*ext.SandboxTemplate]) {
	key := view.KeyOf(t.Newest())
	l.Wake(key)
	if !t.HasIs || t.Replaced() {
		l.Stores.ForgetBlueprint(t.Was)
	}
	if t.HasIs && t.HadWas && t.Was.Generation == t.Is.Generation && !t.Replaced() {
		return
	}
	for _, p := range l.Stores.Pools.By(store.ByTemplate, key.String()) {
		l.PoolChanged(p)
	}
	l.wakeWaiting(key)
}

// PolicyChanged wakes the template whose policy has the name, be it ours or not, and
// the sandboxes that wait for it.
func (l *Templates) PolicyChanged(p store.Change[*networkingv1.NetworkPolicy]) {
	key, ok := TemplateOf(p.Newest())
	if p.HadWas {
		if was, had := TemplateOf(p.Was); had && was != key { // somebody has taken away what told
			l.Wake(was)
		}
	}
	if ok {
		l.Wake(key)
		l.wakeWaiting(key)
	}
}

// TemplateOf is the key of the template whose policy has the name of a NetworkPolicy.
func TemplateOf(p *networkingv1.NetworkPolicy) (view.Key, bool) {
	name, ok := apply.PolicyTemplate(p)
	return view.Key{Namespace: p.Namespace, Name: name}, ok
}

// SandboxChanged wakes the template that a sandbox outlived, at the sandbox's end.
func (l *Templates) SandboxChanged(c store.Change[*agents.Sandbox]) {
	if !c.HasIs {
		l.ended(c.Was)
	}
}

// PodChanged wakes the template that a pod outlived, at the pod's end.
func (l *Templates) PodChanged(c store.Change[*corev1.Pod]) {
	if !c.HasIs {
		l.ended(c.Was)
	}
}

// ended wakes the templates that are gone, and whose policies may not be needed any
// more.
func (l *Templates) ended(o metav1.Object) {
	hash, ok := o.GetLabels()[apply.LabelTemplate]
	if !ok {
		return
	}
	for _, p := range l.Stores.Policies.By(store.ByTemplateHash, o.GetNamespace()+"/"+hash) {
		key, ok := TemplateOf(p)
		if _, there := l.Stores.Templates.Get(key); ok && !there {
			l.Wake(key)
		}
	}
}

// wakeWaiting wakes the sandboxes of a template that have no pod.
func (l *Templates) wakeWaiting(template view.Key) {
	for _, b := range l.Stores.Sandboxes.By(store.ByTemplateHash, store.MadeFrom(template)) {
		if _, has := l.Stores.Pods.Get(view.KeyOf(b)); !has {
			l.WakeSandbox(view.KeyOf(b))
		}
	}
}
