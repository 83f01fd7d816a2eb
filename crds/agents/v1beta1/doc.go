// Package v1beta1 holds the Sandbox, the API kind of the group agents.x-k8s.io,
// and the types that other groups borrow from it.
//
// The pod spec of a Sandbox travels as the bytes its author sent. A Sandbox is
// written by machines, several times in a launch, and the API server pays for
// the size of a schema at every write; so its schema names the few things a
// server must check, and the controller decodes the rest strictly. The types
// of that slim schema are in podtemplate_schema.go, which only the generator of
// the CRD builds. A SandboxTemplate holds the same bytes under the full schema of
// podtemplate_full.go.
//
// +groupName=agents.x-k8s.io
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
package v1beta1
