// Package v1beta1 holds the API kinds of the group extensions.agents.x-k8s.io:
// the template that says what a sandbox is, the pool that keeps some of them
// warm, and the claim that takes one.
//
// +groupName=extensions.agents.x-k8s.io
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
package v1beta1
