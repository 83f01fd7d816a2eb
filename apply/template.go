package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A Blueprint is what a template makes sandboxes from, ready to be sent. It is
// shared; nothing changes it.
type Blueprint struct {
	// Template is the name of the template.
	Template string
	// Revision identifies what a running sandbox can not change any more: the
	// pod's spec, the storage and the service. It is a SHA-256, in base 32
	// because sixty-four hex digits do not fit a label.
	Revision string

	// policy is the NetworkPolicy without which no pod of such a sandbox starts; empty
	// if there is none.
	policy           string
	metadataRevision string // the revision with the pod's labels and annotations in it
	hash, podHash    string
	podTemplate      agents.PodTemplate
	volumes          []agents.PersistentVolumeClaimTemplate
	service          *bool
	// envPolicy and volumesPolicy are how far a claim may go beyond all that.
	envPolicy     ext.EnvVarsInjectionPolicy
	volumesPolicy ext.VolumeClaimTemplatesPolicy
	// claimed is what a claim adds to the pod's metadata, which podTemplate has already.
	claimed ClaimMetadata
	// compared is what was found out about sandboxes without a revision.
	compared *comparisons
}

// BlueprintOf makes the blueprint of a template.
func BlueprintOf(t *ext.SandboxTemplate) (Blueprint, error) {
	pod, err := tree(t.Spec.PodTemplate.Spec.Raw)
	if err != nil {
		return Blueprint{}, fmt.Errorf("template %s: spec.podTemplate.spec: %w", keyOf(t), err)
	}
	withoutToken(pod)
	said := maps.Clone(pod)
	withPublicDNS(pod, t)
	labels := maps.Clone(t.Spec.PodTemplate.ObjectMeta.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelTemplate] = Hash(t.Name)
	raw := canonical(pod)
	b := Blueprint{
		Template: t.Name,
		podTemplate: agents.PodTemplate{
			ObjectMeta: agents.PodMetadata{Labels: labels, Annotations: t.Spec.PodTemplate.ObjectMeta.Annotations},
			Spec:       runtime.RawExtension{Raw: raw},
		},
		volumes:       t.Spec.VolumeClaimTemplates,
		service:       t.Spec.Service,
		envPolicy:     t.Spec.EnvVarsInjectionPolicy,
		volumesPolicy: t.Spec.VolumeClaimTemplatesPolicy,
		compared:      &comparisons{made: map[comparison]bool{}},
	}
	if ManagesPolicy(t) {
		b.policy = PolicyName(t.Name)
	}
	what, err := b.identity(said)
	if err != nil {
		return Blueprint{}, fmt.Errorf("template %s: %w", keyOf(t), err)
	}
	b.Revision = revision(canonical(what))
	b.podHash = Hash(string(raw))
	what["metadata"] = t.Spec.PodTemplate.ObjectMeta
	b.metadataRevision, b.hash = revision(canonical(what)), Hash(string(canonical(what)))
	return b, nil
}

// identity is what a revision is made of, with a pod for its spec.
func (b Blueprint) identity(pod map[string]any) (map[string]any, error) {
	var volumes []any
	for i, v := range b.volumes {
		spec, err := tree(v.Spec.Raw)
		if err != nil {
			return nil, fmt.Errorf("spec.volumeClaimTemplates[%d].spec: %w", i, err)
		}
		volumes = append(volumes, map[string]any{"name": v.ObjectMeta.Name, "spec": spec})
	}
	return map[string]any{"pod": pod, "service": b.service, "volumes": volumes}, nil
}

// RevisionFor is the revision that the members of a pool carry. Labels and
// annotations of the pod count only where the pool asks for it: they can be changed
// on a pod that runs.
func (b Blueprint) RevisionFor(pool *ext.SandboxWarmPool) string {
	if pool.Annotations[AnnotationRollOnMetadata] == "true" {
		return b.metadataRevision
	}
	return b.Revision
}

// revision is what the label of a claim's sandbox should say of what it was made from.
// Most sandboxes say what their template says now. The others tell it themselves: what
// they run cannot change. What is not known any more is whether the template asked for
// public DNS, or for labels and annotations to count: then what fits is right. Those of
// the agent-sandbox controller need none, as long as Kiln has applied nothing of them.
func (of Claimed) revision() string {
	is := of.Sandbox.Labels[LabelRevision]
	theirs := Inherited(of.Sandbox) && !managedBy(of.Sandbox, states.OwnerManager)
	if theirs || is != "" && (is == of.Says.Revision || is == of.Says.metadataRevision) {
		return is
	}
	all := of.revisions()
	if len(all) == 0 || slices.Contains(all, is) {
		return is
	}
	return all[0]
}

// revisions are those that a sandbox may have been made with, likeliest first.
func (of Claimed) revisions() (all []string) {
	s := of.Sandbox
	pod, err := tree(s.Spec.PodTemplate.Spec.Raw)
	if err != nil {
		return nil
	}
	meta, _ := of.divide()
	meta.Labels = maps.Clone(meta.Labels)
	delete(meta.Labels, LabelTemplate)
	said := []map[string]any{pod}
	if private := maps.Clone(pod); givesPublicDNS(private) {
		delete(private, "dnsPolicy")
		delete(private, "dnsConfig")
		said = []map[string]any{private, pod}
	}
	b := Blueprint{volumes: s.Spec.VolumeClaimTemplates, service: s.Spec.Service}
	for _, pod := range said {
		what, err := b.identity(pod)
		if err != nil {
			return nil
		}
		all = append(all, revision(canonical(what)))
	}
	for _, pod := range said {
		what, _ := b.identity(pod) // it was read above
		what["metadata"] = meta
		all = append(all, revision(canonical(what)))
	}
	return all
}

// Matches reports whether a sandbox was made from the blueprint for a pool. The
// template's name counts too: pointing a pool at another template is a change,
// also when both say the same. Of a pool that is gone, nil, nobody knows whether it
// asked for labels and annotations to count. A sandbox that the agent-sandbox
// controller made has no revision: what it says is compared.
func (b Blueprint) Matches(s *agents.Sandbox, pool *ext.SandboxWarmPool) bool {
	is := s.Labels[LabelRevision]
	switch {
	case b.compared == nil, s.Annotations[AnnotationTemplate] != b.Template: // or it is of no template
		return false
	case is == "":
		return b.likeness(s, pool != nil && b.RevisionFor(pool) == b.metadataRevision)
	case pool == nil:
		return is == b.Revision || is == b.metadataRevision
	}
	return is == b.RevisionFor(pool)
}

// tree reads JSON as a tree. Numbers stay as they were written: a float would
// blur large ones.
func tree(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var t map[string]any
	if err := d.Decode(&t); err != nil {
		return nil, err
	}
	return t, nil
}

// canonical is the one way to write a tree: keys sorted at every level, so that
// it depends neither on the order of fields in a Go type nor on the server's.
func canonical(tree map[string]any) []byte {
	raw, err := json.Marshal(tree)
	if err != nil {
		panic(err) // what came from JSON goes back to it
	}
	return raw
}

func revision(raw []byte) string {
	sum := sha256.Sum256(raw)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// promises are the annotations of a sandbox that outlast its template: the policy that
// its pods were to have.
func (b Blueprint) promises() map[string]string {
	if b.policy == "" {
		return nil
	}
	return map[string]string{AnnotationPolicy: b.policy}
}

// withoutToken keeps the service account's token from a pod that does not ask for it.
func withoutToken(pod map[string]any) {
	if pod["automountServiceAccountToken"] == nil {
		pod["automountServiceAccountToken"] = false
	}
}

// withPublicDNS gives a pod name servers that the default policy lets it reach; the
// cluster's it does not. The revision does not know of this: who changes only the
// policy of a template replaces no sandbox, as the users of the API know it.
func withPublicDNS(pod map[string]any, t *ext.SandboxTemplate) {
	if ManagesPolicy(t) && t.Spec.NetworkPolicy == nil && (pod["dnsPolicy"] == nil || pod["dnsPolicy"] == "") {
		pod["dnsPolicy"] = "None"
		pod["dnsConfig"] = publicDNS
	}
}

var publicDNS = map[string]any{"nameservers": []any{"8.8.8.8", "1.1.1.1"}}

// givesPublicDNS reports whether a pod looks as if it was given that.
func givesPublicDNS(pod map[string]any) bool {
	return pod["dnsPolicy"] == "None" && reflect.DeepEqual(pod["dnsConfig"], publicDNS)
}

// specConfig is the blueprint part of a sandbox's spec.
func specConfig(pod agents.PodTemplate, volumes []agents.PersistentVolumeClaimTemplate, service *bool) *agentsac.SandboxSpecApplyConfiguration {
	meta := agentsac.PodMetadata().WithLabels(pod.ObjectMeta.Labels).WithAnnotations(pod.ObjectMeta.Annotations)
	spec := agentsac.SandboxSpec().WithPodTemplate(agentsac.PodTemplate().WithObjectMeta(meta).WithSpec(pod.Spec))
	spec.Service = service
	for _, v := range volumes {
		spec.WithVolumeClaimTemplates(agentsac.PersistentVolumeClaimTemplate().WithSpec(v.Spec).WithObjectMeta(
			agentsac.VolumeMetadata().WithName(v.ObjectMeta.Name).WithLabels(v.ObjectMeta.Labels).WithAnnotations(v.ObjectMeta.Annotations)))
	}
	return spec
}

func templateConfig(t *ext.SandboxTemplate) *extac.SandboxTemplateApplyConfiguration {
	return extac.SandboxTemplate(t.Name, t.Namespace).WithUID(t.UID).
		WithLabels(map[string]string{LabelTemplate: Hash(t.Name)})
}

// LabelTemplate puts the hash of its name on a template, if it is not there.
func (a *Applier) LabelTemplate(ctx context.Context, t *ext.SandboxTemplate) (*ext.SandboxTemplate, error) {
	w := write{urgency: urgency{class: classTrail}, manager: states.TemplateManager, kind: "template", edge: "label", key: keyOf(t)}
	if t.Labels[LabelTemplate] == Hash(t.Name) {
		a.skip(w)
		return t, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxTemplate, error) {
		return c.Kiln.Templates(t.Namespace).Apply(ctx, templateConfig(t), w.options())
	})
}
