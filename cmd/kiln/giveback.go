package main

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// giveBack makes what Kiln leaves what the agent-sandbox controller needs. That looks after
// a NetworkPolicy only if the template is its controller, and it does not know the mark of a
// pool member that Kiln was about to delete.
func (m *migration) giveBack(ctx context.Context) error {
	ns := m.namespace
	policies := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.LabelSelector = apply.LabelTemplate
		return m.conn.Core.NetworkingV1().NetworkPolicies(ns).List(ctx, o)
	}
	for _, list := range []func(context.Context, metav1.ListOptions) (runtime.Object, error){
		lister(m.conn.Kiln.Templates(ns).List), policies, lister(m.conn.Kiln.Pools(ns).List), lister(m.conn.Kiln.Sandboxes(ns).List),
	} {
		if err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error { return m.giveBackOne(ctx, o) }); err != nil {
			return fmt.Errorf("list: %w", err)
		}
	}
	verb := "given back"
	if m.dryRun {
		verb = "to be given back"
	}
	return m.summary([]string{"policy", "sandbox"}, verb)
}

// giveBackOne gives an object back, or says that it would.
func (m *migration) giveBackOne(ctx context.Context, o runtime.Object) error {
	switch o := o.(type) {
	case *ext.SandboxTemplate:
		m.remember(o)
	case *networkingv1.NetworkPolicy:
		name, ok := apply.PolicyTemplate(o)
		if !ok || !apply.OwnsPolicy(name, o) {
			return nil
		}
		m.seen["policy"]++
		t, key := m.templates[o.Namespace+"/"+name], o.Namespace+"/"+o.Name
		if t == nil {
			fmt.Fprintf(m.out, "policy %s: its template is gone, so nobody deletes it: do that when nothing that was made from %s is left\n", key, name)
			return nil
		}
		if metav1.IsControlledBy(o, t) {
			return nil
		}
		return m.did(ctx, "policy", key, "its controller is SandboxTemplate "+name, func() error {
			_, err := m.applier.ReturnPolicy(ctx, t, o)
			return err
		})
	case *ext.SandboxWarmPool:
		if o.Spec.UpdateStrategy.Type == ext.Rolling {
			fmt.Fprintf(m.out, "pool %s/%s: RollingUpdate is Kiln's own: set updateStrategy.type to Recreate or OnReplenish\n", o.Namespace, o.Name)
		}
	case *agents.Sandbox:
		m.seen["sandbox"]++
		if o.Annotations[apply.AnnotationRetired] == "" || apply.OwnerOf(o).Kind != states.OwnerPool || o.DeletionTimestamp != nil {
			return nil
		}
		return m.did(ctx, "sandbox", o.Namespace+"/"+o.Name, "it was retired, and is deleted", func() error { return m.applier.DeleteSandbox(ctx, o) })
	}
	return nil
}

// did carries out what is done about an object, unless this is a dry run, and says it.
func (m *migration) did(ctx context.Context, kind, key, what string, do func() error) error {
	var err error
	if !m.dryRun {
		err = do()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, apply.ErrGone):
		return nil
	case err != nil:
		m.fails(kind, key, err)
		return nil
	}
	m.taken[kind]++
	fmt.Fprintf(m.out, "%s %s: %s\n", kind, key, what)
	return nil
}

// fails counts and names an object that failed.
func (m *migration) fails(kind, key string, err error) {
	m.failed[kind]++
	fmt.Fprintf(m.out, "%s %s: %v\n", kind, key, err)
}
