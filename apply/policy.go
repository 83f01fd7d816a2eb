package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

const policySuffix = "-network-policy"

// longestName is how long the name of an object may be.
const longestName = 253

// PolicyName is the name of a template's NetworkPolicy. Where that would be too long
// the name is cut, and a hash of all of it tells it from others.
func PolicyName(template string) string {
	if most := longestName - len(policySuffix); len(template) > most {
		hash := "-" + Hash(template)
		template = template[:most-len(hash)] + hash
	}
	return template + policySuffix
}

// PolicyTemplate is the template whose NetworkPolicy has the name of this one. A name
// that was cut does not tell, but an annotation of ours does.
func PolicyTemplate(p *networkingv1.NetworkPolicy) (template string, ok bool) {
	if template = p.Annotations[AnnotationTemplate]; template != "" && PolicyName(template) == p.Name {
		return template, true
	}
	template, ok = strings.CutSuffix(p.Name, policySuffix)
	return template, ok && template != ""
}

// ManagesPolicy reports whether a template shall have a NetworkPolicy.
func ManagesPolicy(t *ext.SandboxTemplate) bool {
	return t.Spec.NetworkPolicyManagement != ext.NetworkPolicyUnmanaged
}

// A Policy is the NetworkPolicy that a template wants. It is shared; nothing changes it.
type Policy struct {
	template  string
	uid       types.UID
	namespace string
	spec      networkingv1.NetworkPolicySpec
}

// PolicyOf works out the NetworkPolicy of a template: its own rules as they are
// written, or the default ones. An empty list of rules lets nothing pass.
func PolicyOf(t *ext.SandboxTemplate) (Policy, error) {
	p := Policy{template: t.Name, uid: t.UID, namespace: t.Namespace, spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{LabelTemplate: Hash(t.Name)}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{fromTheRouter()},
		Egress:      []networkingv1.NetworkPolicyEgressRule{toTheInternet()},
	}}
	own := t.Spec.NetworkPolicy
	if own == nil {
		return p, nil
	}
	var err error
	if p.spec.Ingress, err = rules[networkingv1.NetworkPolicyIngressRule]("spec.networkPolicy.ingress", own.Ingress); err != nil {
		return Policy{}, err
	}
	p.spec.Egress, err = rules[networkingv1.NetworkPolicyEgressRule]("spec.networkPolicy.egress", own.Egress)
	return p, err
}

// rules reads a list of rules. It is never nil: an empty one is sent as such.
func rules[R any](path string, raw []runtime.RawExtension) ([]R, error) {
	all := make([]R, 0, len(raw))
	for i, one := range raw {
		var rule *R
		err := decode(fmt.Sprintf("%s[%d]", path, i), one.Raw, func() any { rule = new(R); return rule })
		if err != nil {
			return nil, err
		}
		all = append(all, *rule)
	}
	return all, nil
}

// fromTheRouter lets in the router alone.
func fromTheRouter() networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "agent-sandbox-system"}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "sandbox-router"}},
	}}}
}

// toTheInternet lets out to public addresses alone: neither to the cluster, its DNS
// included, nor to a node's metadata service.
func toTheInternet() networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{
			CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"},
		}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fc00::/7", "fe80::/10"}}},
	}}
}

// OwnsPolicy reports whether a template's NetworkPolicy is ours: we have written it, it
// says so, or the controller before us made the template its owner. The template may be
// another one of the name by now, or none.
func OwnsPolicy(template string, p *networkingv1.NetworkPolicy) bool {
	says := p.Labels[LabelTemplate] == Hash(template) && p.Annotations[AnnotationTemplate] == template
	return says || wrotePolicy(p) || slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool {
		return isTemplate(o) && o.Name == template && o.Controller != nil && *o.Controller
	})
}

// wrotePolicy reports whether kiln-template holds fields of a NetworkPolicy.
func wrotePolicy(p *networkingv1.NetworkPolicy) bool {
	return slices.ContainsFunc(p.ManagedFields, wroteAsTemplate)
}

func wroteAsTemplate(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == string(states.TemplateManager) && e.Operation == metav1.ManagedFieldsOperationApply
}

// TrimPolicy drops of a NetworkPolicy what nobody here reads: who else wrote it, and of
// one that has not the name of a template's all of its rules.
func TrimPolicy(p *networkingv1.NetworkPolicy) {
	wrote := wrotePolicy(p)
	p.ManagedFields = nil
	if wrote {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: string(states.TemplateManager), Operation: metav1.ManagedFieldsOperationApply}}
	}
	if template, ok := PolicyTemplate(p); !ok || !OwnsPolicy(template, p) {
		p.Spec = networkingv1.NetworkPolicySpec{}
	}
}

func isTemplate(o metav1.OwnerReference) bool {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind() == ext.SchemeGroupVersion.WithKind(ext.KindTemplate).GroupKind()
}

// WroteFor reports whether a NetworkPolicy was last written for this template, not for
// an earlier one of its name. Whoever saw that one gone may be deleting the policy, and
// fails if it was written since.
func WroteFor(t *ext.SandboxTemplate, p *networkingv1.NetworkPolicy) bool {
	return p.Annotations[AnnotationTemplateUID] == string(t.UID)
}

// Matches reports whether a NetworkPolicy is as its template wants it. No template owns
// it: the garbage collector would take it with the template, from under the sandboxes
// that still run.
func (p Policy) Matches(is *networkingv1.NetworkPolicy) bool {
	return is.Labels[LabelTemplate] == Hash(p.template) && is.Annotations[AnnotationTemplate] == p.template &&
		is.Annotations[AnnotationTemplateUID] == string(p.uid) &&
		!slices.ContainsFunc(is.OwnerReferences, isTemplate) && equality.Semantic.DeepEqual(defaulted(p.spec), defaulted(is.Spec))
}

// defaulted is a spec with what the API server fills in.
func defaulted(s networkingv1.NetworkPolicySpec) networkingv1.NetworkPolicySpec {
	s = *s.DeepCopy()
	tcp := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			if ports[i].Protocol == nil {
				protocol := corev1.ProtocolTCP
				ports[i].Protocol = &protocol
			}
		}
	}
	for _, rule := range s.Ingress {
		tcp(rule.Ports)
	}
	for _, rule := range s.Egress {
		tcp(rule.Ports)
	}
	return s
}

// A policyConfig is a NetworkPolicy to be applied. The generated configurations leave
// out an empty list; what another manager has written there would stay.
type policyConfig struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        *metav1ac.ObjectMetaApplyConfiguration `json:"metadata"`
	Spec            policySpec                             `json:"spec"`
}

type policySpec struct {
	PodSelector metav1.LabelSelector                    `json:"podSelector"`
	PolicyTypes []networkingv1.PolicyType               `json:"policyTypes"`
	Ingress     []networkingv1.NetworkPolicyIngressRule `json:"ingress"`
	Egress      []networkingv1.NetworkPolicyEgressRule  `json:"egress"`
}

// config is a policy with what names it. Our label and annotation say whose it is.
func (p Policy) config(meta *metav1ac.ObjectMetaApplyConfiguration) policyConfig {
	return policyConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		Metadata: meta.WithName(PolicyName(p.template)).WithNamespace(p.namespace).
			WithLabels(map[string]string{LabelTemplate: Hash(p.template)}).
			WithAnnotations(map[string]string{AnnotationTemplate: p.template, AnnotationTemplateUID: string(p.uid)}),
		Spec: policySpec{p.spec.PodSelector, p.spec.PolicyTypes, p.spec.Ingress, p.spec.Egress},
	}
}

func (p Policy) createConfig() policyConfig {
	return p.config(metav1ac.ObjectMeta().WithResourceVersion(mustNotExist))
}

// syncConfig is a policy that exists. An owner reference to a template, as the
// controller before us wrote it, takes two writes to go: sent with another value it
// becomes ours, and left out then it is removed.
func (p Policy) syncConfig(is *networkingv1.NetworkPolicy) policyConfig {
	meta := metav1ac.ObjectMeta().WithUID(is.UID)
	for _, o := range is.OwnerReferences {
		if isTemplate(o) && (o.BlockOwnerDeletion == nil || *o.BlockOwnerDeletion) {
			meta.WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(o.APIVersion).WithKind(o.Kind).
				WithName(o.Name).WithUID(o.UID).WithController(true).WithBlockOwnerDeletion(false))
		}
	}
	return p.config(meta)
}

// CreatePolicy makes the NetworkPolicy of a template. ErrLost says that the name is
// taken.
func (a *Applier) CreatePolicy(ctx context.Context, p Policy) (*networkingv1.NetworkPolicy, error) {
	return a.applyPolicy(ctx, "create", p.createConfig())
}

// SyncPolicy brings the NetworkPolicy of a template in line, as it was seen.
func (a *Applier) SyncPolicy(ctx context.Context, p Policy, is *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	return a.applyPolicy(ctx, "sync", p.syncConfig(is))
}

// ReturnPolicy makes a template the controller of its NetworkPolicy, as it was seen. The
// agent-sandbox controller touches no other, and the garbage collector takes it with the
// template.
func (a *Applier) ReturnPolicy(ctx context.Context, t *ext.SandboxTemplate, is *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	p := Policy{template: t.Name, uid: types.UID(is.Annotations[AnnotationTemplateUID]), namespace: is.Namespace, spec: is.Spec}
	// An empty list is sent as such, as in rules.
	p.spec.Ingress, p.spec.Egress = append([]networkingv1.NetworkPolicyIngressRule{}, is.Spec.Ingress...), append([]networkingv1.NetworkPolicyEgressRule{}, is.Spec.Egress...)
	meta := metav1ac.ObjectMeta().WithUID(is.UID).WithResourceVersion(is.ResourceVersion).WithOwnerReferences(ownerRef(*metav1.NewControllerRef(t, gvkOf(t))))
	return a.applyPolicy(ctx, "return", p.config(meta))
}

// applyPolicy is an apply of kiln-template. Pods wait for it, so it goes with what
// refills the pools.
func (a *Applier) applyPolicy(ctx context.Context, verb string, config policyConfig) (*networkingv1.NetworkPolicy, error) {
	key := types.NamespacedName{Namespace: *config.Metadata.Namespace, Name: *config.Metadata.Name}
	w := write{urgency: urgency{class: classWarm}, manager: states.TemplateManager, kind: "policy", edge: verb, key: key}
	body, err := json.Marshal(config)
	if err != nil {
		return nil, w.wrap(err)
	}
	options := w.options().ToPatchOptions()
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*networkingv1.NetworkPolicy, error) {
		all := c.Core.NetworkingV1().NetworkPolicies(key.Namespace)
		return all.Patch(ctx, key.Name, types.ApplyPatchType, body, options) //nolint:forbidigo // an apply: the typed one cannot send an empty list
	})
}

// DeletePolicy deletes the NetworkPolicy of a template, as it was seen.
func (a *Applier) DeletePolicy(ctx context.Context, is *networkingv1.NetworkPolicy) error {
	w := write{urgency: urgency{class: classTrail}, manager: states.TemplateManager, kind: "policy", edge: "delete", key: keyOf(is)}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (struct{}, error) {
		return struct{}{}, c.Core.NetworkingV1().NetworkPolicies(is.Namespace).Delete(ctx, is.Name, deletion(is))
	})
	return err
}
