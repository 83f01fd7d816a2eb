//go:build crd

package v1beta1

import networkingv1 "k8s.io/api/networking/v1"

// A NetworkPolicySpec is the rules of a NetworkPolicy as the API server
// checks them.
type NetworkPolicySpec struct {
	// ingress is who may reach a sandbox.
	// +optional
	// +listType=atomic
	Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress,omitempty"`

	// egress is whom a sandbox may reach.
	// +optional
	// +listType=atomic
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitempty"`
}
