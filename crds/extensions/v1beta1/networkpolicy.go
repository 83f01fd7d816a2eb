//go:build !crd

package v1beta1

import "k8s.io/apimachinery/pkg/runtime"

// A NetworkPolicySpec is the rules of a NetworkPolicy, still in
// the author's bytes; whom they bind is known.
type NetworkPolicySpec struct {
	// ingress is who may reach a sandbox: networking/v1 ingress rules.
	// +optional
	// +listType=atomic
	Ingress []runtime.RawExtension `json:"ingress,omitempty"`

	// egress is whom a sandbox may reach: networking/v1 egress rules.
	// +optional
	// +listType=atomic
	Egress []runtime.RawExtension `json:"egress,omitempty"`
}
