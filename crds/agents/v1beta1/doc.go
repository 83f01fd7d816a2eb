// Package v1beta1 holds the Sandbox, the API kind of the group agents.x-k8s.io,
// and the types that other groups borrow from it.
//
// The pod spec of a Sandbox travels as the bytes its author sent. The API server
// checks it down to its last field, so that nobody can store what another tenant's
// client cannot read; the types of that schema are in podtemplate_schema.go, which
// only the generator of the CRD builds. The controller decodes the bytes itself,
// strictly, and answers for one object at a time. A SandboxTemplate holds the same
// bytes under the schema of podtemplate_full.go.
//
// +groupName=agents.x-k8s.io
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
package v1beta1
