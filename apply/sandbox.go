package apply

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// The kinds of a sandbox's owners.
const (
	poolKind  = "SandboxWarmPool"
	claimKind = "SandboxClaim"
)

// The labels and annotations of a sandbox that kiln-owner writes. An apply of
// kiln-owner carries all of them that shall stay; what it leaves out is removed.
var (
	sandboxLabels = []string{
		LabelPool, LabelTemplate, LabelBlueprintHash, LabelPodTemplateHash,
		LabelRevision, LabelClaim, LabelLaunch, LabelCreatedBy,
	}
	sandboxNotes = []string{NotePod, NoteTemplate, NoteRetired}
)

func ownerRef(apiVersion, kind, name string, uid types.UID) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(apiVersion).WithKind(kind).WithName(name).WithUID(uid).
		WithController(true).WithBlockOwnerDeletion(true)
}

// memberConfig is a new member of a pool.
func memberConfig(pool *ext.SandboxWarmPool, name string, b Blueprint) *agentsac.SandboxApplyConfiguration {
	return agentsac.Sandbox(name, pool.Namespace).WithResourceVersion(unborn).
		WithLabels(map[string]string{
			LabelPool:            Hash(pool.Name),
			LabelTemplate:        Hash(b.Template),
			LabelBlueprintHash:   b.hash,
			LabelPodTemplateHash: b.podHash,
			LabelRevision:        b.For(pool),
			LabelLaunch:          Warm,
			LabelCreatedBy:       "controller",
		}).
		WithAnnotations(map[string]string{NotePod: name, NoteTemplate: b.Template}).
		WithOwnerReferences(ownerRef(ext.SchemeGroupVersion.String(), poolKind, pool.Name, pool.UID)).
		WithSpec(specConfig(b.podTemplate, b.volumes, b.service))
}

// ownConfig is the sandbox that is made for one claim, when no warm one can
// serve it. It has the claim's name.
func ownConfig(claim *ext.SandboxClaim, b Blueprint) *agentsac.SandboxApplyConfiguration {
	pod := *b.podTemplate.DeepCopy()
	pod.ObjectMeta.Labels[LabelClaim] = string(claim.UID)
	return agentsac.Sandbox(claim.Name, claim.Namespace).WithResourceVersion(unborn).
		WithLabels(map[string]string{
			LabelTemplate: Hash(b.Template),
			LabelRevision: b.Revision,
			LabelLaunch:   Cold,
			LabelClaim:    string(claim.UID),
		}).
		WithLabels(only(claim.Labels, []string{LabelCreatedBy})).
		WithAnnotations(map[string]string{NotePod: claim.Name, NoteTemplate: b.Template}).
		WithOwnerReferences(ownerRef(ext.SchemeGroupVersion.String(), claimKind, claim.Name, claim.UID)).
		WithSpec(specConfig(pod, b.volumes, b.service))
}

// held is what kiln-owner holds of a sandbox, to be sent again with a change.
// The blueprint is sent unchanged, which leaves the generation alone; of a
// sandbox that a user made, only the annotations are ours.
func held(s *agents.Sandbox) *agentsac.SandboxApplyConfiguration {
	c := agentsac.Sandbox(s.Name, s.Namespace).WithUID(s.UID).WithResourceVersion(s.ResourceVersion).
		WithAnnotations(only(s.Annotations, sandboxNotes))
	if !Born(s) {
		return c
	}
	return c.WithLabels(only(s.Labels, sandboxLabels)).
		WithSpec(specConfig(s.Spec.PodTemplate, s.Spec.VolumeClaimTemplates, s.Spec.Service))
}

// Born reports whether Kiln made a sandbox, rather than a user.
func Born(s *agents.Sandbox) bool { return s.Labels[LabelLaunch] != "" }

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
	c := held(s)
	for _, gone := range []string{LabelPool, LabelBlueprintHash, LabelPodTemplateHash, LabelCreatedBy} {
		delete(c.Labels, gone)
	}
	return c.WithLabels(map[string]string{LabelClaim: string(claim.UID)}).
		WithLabels(only(claim.Labels, []string{LabelCreatedBy})).
		WithOwnerReferences(ownerRef(ext.SchemeGroupVersion.String(), claimKind, claim.Name, claim.UID))
}

// retireConfig marks a sandbox as never to be handed out. It keeps its owner.
func retireConfig(s *agents.Sandbox, reason string) *agentsac.SandboxApplyConfiguration {
	c := held(s)
	delete(c.Labels, LabelPool)
	c.WithAnnotations(map[string]string{NoteRetired: reason})
	if o := metav1.GetControllerOf(s); o != nil {
		c.WithOwnerReferences(ownerRef(o.APIVersion, o.Kind, o.Name, o.UID))
	}
	return c
}

// notePodConfig notes the pod's name on a sandbox that a user made.
func notePodConfig(s *agents.Sandbox) *agentsac.SandboxApplyConfiguration {
	notes := only(s.Annotations, sandboxNotes)
	maps.Copy(notes, map[string]string{NotePod: s.Name})
	return agentsac.Sandbox(s.Name, s.Namespace).WithUID(s.UID).WithAnnotations(notes)
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

func conditions(all []metav1.Condition) []*metav1ac.ConditionApplyConfiguration {
	var out []*metav1ac.ConditionApplyConfiguration
	for _, c := range all {
		out = append(out, metav1ac.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
			WithMessage(c.Message).WithObservedGeneration(c.ObservedGeneration).WithLastTransitionTime(c.LastTransitionTime))
	}
	return out
}

// CreateMember makes a member of a pool under the given name. ErrLost says that
// the name is taken.
func (a *Applier) CreateMember(ctx context.Context, pool *ext.SandboxWarmPool, name string, b Blueprint) (*agents.Sandbox, error) {
	return a.own(ctx, WarmLane, "create", memberConfig(pool, name, b))
}

// CreateOwn makes a claim its own sandbox: a cold start. ErrLost says that a
// sandbox of the claim's name exists.
func (a *Applier) CreateOwn(ctx context.Context, claim *ext.SandboxClaim, b Blueprint) (*agents.Sandbox, error) {
	return a.own(ctx, ClaimLane, "create", ownConfig(claim, b))
}

// Adopt makes a claim the owner of a pool member, as it was seen.
func (a *Applier) Adopt(ctx context.Context, s *agents.Sandbox, claim *ext.SandboxClaim) (*agents.Sandbox, error) {
	return a.own(ctx, ClaimLane, "adopt", adoptConfig(s, claim))
}

// Retire marks a sandbox, as it was seen, as never to be handed out.
func (a *Applier) Retire(ctx context.Context, s *agents.Sandbox, reason string) (*agents.Sandbox, error) {
	return a.own(ctx, BackgroundLane, "retire", retireConfig(s, reason))
}

// NotePod notes on a sandbox that a user made which pod is its own.
func (a *Applier) NotePod(ctx context.Context, s *agents.Sandbox) (*agents.Sandbox, error) {
	return a.own(ctx, WarmLane, "notepod", notePodConfig(s))
}

// own is an apply of kiln-owner.
func (a *Applier) own(ctx context.Context, lane Lane, verb string, config *agentsac.SandboxApplyConfiguration) (*agents.Sandbox, error) {
	key := types.NamespacedName{Namespace: *config.GetNamespace(), Name: *config.GetName()}
	w := Write{Lane: lane, Manager: states.Owner, Kind: "sandbox", Edge: verb, Key: key}
	return send(ctx, a, w, func(ctx context.Context, c clients) (*agents.Sandbox, error) {
		return c.kiln.Sandboxes(key.Namespace).Apply(ctx, config, w.options())
	})
}

// DeleteSandbox deletes a sandbox, as it was seen. One that is gone already is
// no error.
func (a *Applier) DeleteSandbox(ctx context.Context, s *agents.Sandbox) error {
	w := Write{Lane: BackgroundLane, Manager: states.Owner, Kind: "sandbox", Edge: "delete", Key: keyOf(s)}
	_, err := send(ctx, a, w, func(ctx context.Context, c clients) (struct{}, error) {
		return struct{}{}, c.kiln.Sandboxes(s.Namespace).Delete(ctx, s.Name, deletion(s))
	})
	return err
}

// SandboxStatus writes the whole status of a sandbox, as it was seen.
func (a *Applier) SandboxStatus(ctx context.Context, s *agents.Sandbox, want agents.SandboxStatus) (*agents.Sandbox, error) {
	w := Write{Lane: WarmLane, Manager: states.Status, Kind: "sandboxstatus", Edge: "report", Key: keyOf(s)}
	if SameSandboxStatus(s.Status, want) {
		a.skip(w)
		return s, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c clients) (*agents.Sandbox, error) {
		return c.kiln.Sandboxes(s.Namespace).ApplyStatus(ctx, sandboxStatusConfig(s, want), w.options())
	})
}
