package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"maps"
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

	metadataRevision string // the revision with the pod's labels and annotations in it
	hash, podHash    string
	podTemplate      agents.PodTemplate
	volumes          []agents.PersistentVolumeClaimTemplate
	service          *bool
}

// BlueprintOf makes the blueprint of a template.
func BlueprintOf(t *ext.SandboxTemplate) (Blueprint, error) {
	pod, err := tree(t.Spec.PodTemplate.Spec.Raw)
	if err != nil {
		return Blueprint{}, fmt.Errorf("template %s: spec.podTemplate.spec: %w", keyOf(t), err)
	}
	secure(pod, t)
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
		volumes: t.Spec.VolumeClaimTemplates,
		service: t.Spec.Service,
	}
	what := map[string]any{"pod": pod, "service": t.Spec.Service}
	var volumes []any
	for i, v := range t.Spec.VolumeClaimTemplates {
		spec, err := tree(v.Spec.Raw)
		if err != nil {
			return Blueprint{}, fmt.Errorf("template %s: spec.volumeClaimTemplates[%d].spec: %w", keyOf(t), i, err)
		}
		volumes = append(volumes, map[string]any{"name": v.ObjectMeta.Name, "spec": spec})
	}
	what["volumes"] = volumes
	b.Revision = revision(canonical(what))
	b.podHash = Hash(string(raw))
	what["metadata"] = t.Spec.PodTemplate.ObjectMeta
	b.metadataRevision, b.hash = revision(canonical(what)), Hash(string(canonical(what)))
	return b, nil
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

// Matches reports whether a sandbox was made from the blueprint for a pool. The
// template's name counts too: pointing a pool at another template is a change,
// also when both say the same. Of a pool that is gone, nil, nobody knows whether it
// asked for labels and annotations to count.
func (b Blueprint) Matches(s *agents.Sandbox, pool *ext.SandboxWarmPool) bool {
	is := s.Labels[LabelRevision]
	if s.Annotations[AnnotationTemplate] != b.Template || is == "" {
		return false
	}
	if pool == nil {
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

// secure gives a pod the defaults that the API promises: no service account token
// unless asked for, and no cluster DNS where the API promises its default network
// policy too. Kiln makes no NetworkPolicy yet; the DNS default is kept, so that pods
// do not change when it does.
func secure(pod map[string]any, t *ext.SandboxTemplate) {
	if pod["automountServiceAccountToken"] == nil {
		pod["automountServiceAccountToken"] = false
	}
	managed := t.Spec.NetworkPolicyManagement != ext.NetworkPolicyUnmanaged
	if managed && t.Spec.NetworkPolicy == nil && (pod["dnsPolicy"] == nil || pod["dnsPolicy"] == "") {
		pod["dnsPolicy"] = "None"
		pod["dnsConfig"] = map[string]any{"nameservers": []any{"8.8.8.8", "1.1.1.1"}}
	}
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
	w := write{class: classTrail, manager: states.TemplateManager, kind: "template", edge: "label", key: keyOf(t)}
	if t.Labels[LabelTemplate] == Hash(t.Name) {
		a.skip(w)
		return t, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*ext.SandboxTemplate, error) {
		return c.Kiln.Templates(t.Namespace).Apply(ctx, templateConfig(t), w.options())
	})
}
