package view

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// PolicyKey is the key of a template's NetworkPolicy.
func PolicyKey(template Key) Key {
	return Key{Namespace: template.Namespace, Name: apply.PolicyName(template.Name)}
}

// Policy is what a NetworkPolicy is to the template whose policy has its name. Of one
// that is gone, t is nil; where nobody knows what it wants, want is.
func Policy(p *networkingv1.NetworkPolicy, template Key, t *ext.SandboxTemplate, want *apply.Policy) states.PolicyView {
	switch {
	case !apply.OwnsPolicy(template.Name, p):
		return states.PolicyForeign
	case p.DeletionTimestamp != nil:
		return states.PolicyTerminating
	case t != nil && !apply.WroteFor(t, p):
		return states.PolicyEarlier
	case want != nil && !want.Matches(p):
		return states.PolicyDrifted
	}
	return states.PolicyCurrent
}
