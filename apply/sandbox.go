package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// The labels and annotations of a sandbox that kiln-owner writes. An apply of
// kiln-owner carries all of them that shall stay; what it leaves out is removed.
var (
	sandboxLabels = []string{
		LabelPool, LabelTemplate, LabelBlueprintHash, LabelPodTemplateHash,
		LabelRevision, LabelClaimUID, LabelLaunch, LabelCreatedBy,
	}
	sandboxAnnotations = []string{AnnotationPodName, AnnotationTemplate, AnnotationRetired}
)

// retiredFor is the value of the annotation for each reason to retire a sandbox.
var retiredFor = map[states.Reason]string{
	states.ReasonSurplus:  "surplus",
	states.ReasonOutdated: "outdated",
	states.ReasonStuck:    "stuck",
}

func ownerRef(o metav1.OwnerReference) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name).WithUID(o.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

// memberConfig is a new member of a pool.
func memberConfig(pool *ext.SandboxWarmPool, name string, b Blueprint) *agentsac.SandboxApplyConfiguration {
	return agentsac.Sandbox(name, pool.Namespace).WithResourceVersion(mustNotExist).
		WithLabels(map[string]string{
			LabelPool:            Hash(pool.Name),
			LabelTemplate:        Hash(b.Template),
			LabelBlueprintHash:   b.hash,
			LabelPodTemplateHash: b.podHash,
			LabelRevision:        b.RevisionFor(pool),
			LabelLaunch:          LaunchWarm,
			LabelCreatedBy:       "controller",
		}).
		WithAnnotations(map[string]string{AnnotationPodName: name, AnnotationTemplate: b.Template}).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(pool, gvkOf(pool)))).
		WithSpec(specConfig(b.podTemplate, b.volumes, b.service))
}

// ownConfig is the sandbox that is made for one claim, when no warm one can
// serve it. It has the claim's name.
func ownConfig(claim *ext.SandboxClaim, b Blueprint) *agentsac.SandboxApplyConfiguration {
	pod := *b.podTemplate.DeepCopy()
	pod.ObjectMeta.Labels[LabelClaimUID] = string(claim.UID)
	return agentsac.Sandbox(claim.Name, claim.Namespace).WithResourceVersion(mustNotExist).
		WithLabels(map[string]string{
			LabelTemplate: Hash(b.Template),
			LabelRevision: b.Revision,
			LabelLaunch:   LaunchCold,
			LabelClaimUID: string(claim.UID),
		}).
		WithLabels(only(claim.Labels, []string{LabelCreatedBy})).
		WithAnnotations(map[string]string{AnnotationPodName: claim.Name, AnnotationTemplate: b.Template}).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(claim, gvkOf(claim)))).
		WithSpec(specConfig(pod, b.volumes, b.service))
}

// ownedConfig is what kiln-owner holds of a sandbox, to be sent again with a change.
// The blueprint is sent unchanged, which leaves the generation alone; of a
// sandbox that a user made, only the annotations are ours.
func ownedConfig(s *agents.Sandbox) *agentsac.SandboxApplyConfiguration {
	c := agentsac.Sandbox(s.Name, s.Namespace).WithUID(s.UID).WithResourceVersion(s.ResourceVersion).
		WithAnnotations(only(s.Annotations, sandboxAnnotations))
	if !MadeByKiln(s) {
		return c
	}
	return c.WithLabels(only(s.Labels, sandboxLabels)).
		WithSpec(specConfig(s.Spec.PodTemplate, s.Spec.VolumeClaimTemplates, s.Spec.Service))
}

// MadeByKiln reports whether Kiln made a sandbox, rather than a user.
func MadeByKiln(s *agents.Sandbox) bool { return s.Labels[LabelLaunch] != "" }

func only(all map[string]string, keys []string) map[string]string {
	kept := map[string]string{}
	for _, k := range keys {
		if v, ok := all[k]; ok {
			kept[k] = v
		}
	}
	return kept
}

// adoptConfig makes a claim the owner of a pool member. This is the commit
// point: whoever's apply is first has the sandbox.
func adoptConfig(s *agents.Sandbox, claim *ext.SandboxClaim) *agentsac.SandboxApplyConfiguration {
	c := ownedConfig(s)
	for _, gone := range []string{LabelPool, LabelBlueprintHash, LabelPodTemplateHash, LabelCreatedBy} {
		delete(c.Labels, gone)
	}
	return c.WithLabels(map[string]string{LabelClaimUID: string(claim.UID)}).
		WithLabels(only(claim.Labels, []string{LabelCreatedBy})).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(claim, gvkOf(claim))))
}

// retireConfig marks a sandbox as never to be handed out, with the value that the
// annotation has for the reason. It keeps its owner.
func retireConfig(s *agents.Sandbox, value string) *agentsac.SandboxApplyConfiguration {
	c := ownedConfig(s)
	delete(c.Labels, LabelPool)
	c.WithAnnotations(map[string]string{AnnotationRetired: value})
	if o := metav1.GetControllerOf(s); o != nil {
		c.WithOwnerReferences(ownerRef(*o))
	}
	return c
}

// podNameConfig annotates a sandbox that a user made with its pod's name.
func podNameConfig(s *agents.Sandbox) *agentsac.SandboxApplyConfiguration {
	return agentsac.Sandbox(s.Name, s.Namespace).WithUID(s.UID).
		WithAnnotations(only(s.Annotations, sandboxAnnotations)).
		WithAnnotations(map[string]string{AnnotationPodName: s.Name})
}

func sandboxStatusConfig(s *agents.Sandbox, want agents.SandboxStatus) *agentsac.SandboxApplyConfiguration {
	status := agentsac.SandboxStatus().WithConditions(conditions(want.Conditions)...).WithPodIPs(want.PodIPs...)
	for to, value := range map[**string]string{
		&status.ServiceFQDN: want.ServiceFQDN, &status.Service: want.Service,
		&status.Selector: want.Selector, &status.NodeName: want.NodeName,
	} {
		if value != "" {
			*to = &value
		}
	}
	return agentsac.Sandbox(s.Name, s.Namespace).WithUID(s.UID).WithResourceVersion(s.ResourceVersion).WithStatus(status)
}

// CreateMember makes a member of a pool under the given name. ErrLost says that
// the name is taken.
func (a *Applier) CreateMember(ctx context.Context, pool *ext.SandboxWarmPool, name string, b Blueprint) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, classWarm, "create", memberConfig(pool, name, b))
}

// CreateOwn makes a claim its own sandbox: a cold start. ErrLost says that a
// sandbox of the claim's name exists.
func (a *Applier) CreateOwn(ctx context.Context, claim *ext.SandboxClaim, b Blueprint) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, classTake, "create", ownConfig(claim, b))
}

// Adopt makes a claim the owner of a pool member, as it was seen.
func (a *Applier) Adopt(ctx context.Context, s *agents.Sandbox, claim *ext.SandboxClaim) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, classTake, "adopt", adoptConfig(s, claim))
}

// Retire marks a sandbox, as it was seen, as never to be handed out.
func (a *Applier) Retire(ctx context.Context, s *agents.Sandbox, reason states.Reason) (*agents.Sandbox, error) {
	value, ok := retiredFor[reason]
	if !ok {
		return nil, fmt.Errorf("sandbox %s: retire: %q is no reason to", keyOf(s), reason)
	}
	return a.applySandbox(ctx, classTrail, "retire", retireConfig(s, value))
}

// AnnotatePodName writes on a sandbox that a user made which pod is its own.
func (a *Applier) AnnotatePodName(ctx context.Context, s *agents.Sandbox) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, classWarm, "annotate", podNameConfig(s))
}

// applySandbox is an apply of kiln-owner.
func (a *Applier) applySandbox(ctx context.Context, class class, verb string, config *agentsac.SandboxApplyConfiguration) (*agents.Sandbox, error) {
	key := types.NamespacedName{Namespace: *config.GetNamespace(), Name: *config.GetName()}
	w := write{class: class, manager: states.OwnerManager, kind: "sandbox", edge: verb, key: key}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*agents.Sandbox, error) {
		return c.Kiln.Sandboxes(key.Namespace).Apply(ctx, config, w.options())
	})
}

// DeleteSandbox deletes a sandbox, as it was seen. ErrGone says that there is none
// any more.
func (a *Applier) DeleteSandbox(ctx context.Context, s *agents.Sandbox) error {
	w := write{class: classTrail, manager: states.OwnerManager, kind: "sandbox", edge: "delete", key: keyOf(s)}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (struct{}, error) {
		return struct{}{}, c.Kiln.Sandboxes(s.Namespace).Delete(ctx, s.Name, deletion(s))
	})
	return err
}

// deletion are the options of a delete that must hit exactly the object that
// was seen.
func deletion(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

// ReportSandbox writes the whole status of a sandbox, as it was seen.
func (a *Applier) ReportSandbox(ctx context.Context, s *agents.Sandbox, want agents.SandboxStatus) (*agents.Sandbox, error) {
	w := write{class: launchClass(s), manager: states.StatusManager, kind: "sandboxstatus", edge: "report", key: keyOf(s)}
	if SameStatus(s.Status, want) {
		a.skip(w)
		return s, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*agents.Sandbox, error) {
		return c.Kiln.Sandboxes(s.Namespace).ApplyStatus(ctx, sandboxStatusConfig(s, want), w.options())
	})
}
