package apply

import (
	"context"
	"fmt"
	"maps"

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
	sandboxAnnotations = []string{AnnotationPodName, AnnotationTemplate, AnnotationPolicy, AnnotationRetired, AnnotationClaimKeys, AnnotationTrace}
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
		WithAnnotations(b.promises()).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(pool, gvkOf(pool)))).
		WithSpec(specConfig(b.podTemplate, b.volumes, b.service))
}

// ownConfig is the sandbox that is made for one claim, when no warm one can
// serve it. It has the claim's name.
func ownConfig(claim *ext.SandboxClaim, b Blueprint) *agentsac.SandboxApplyConfiguration {
	pod := *b.podTemplate.DeepCopy()
	pod.ObjectMeta.Labels[LabelClaimUID] = string(claim.UID)
	maps.Copy(pod.ObjectMeta.Labels, only(claim.Labels, []string{LabelCreatedBy}))
	annotations := b.promises()
	b.claimed.keys(annotations)
	return agentsac.Sandbox(claim.Name, claim.Namespace).WithResourceVersion(mustNotExist).
		WithLabels(map[string]string{
			LabelTemplate: Hash(b.Template),
			LabelRevision: b.Revision,
			LabelLaunch:   LaunchCold,
			LabelClaimUID: string(claim.UID),
		}).
		WithLabels(only(claim.Labels, []string{LabelCreatedBy})).
		WithAnnotations(map[string]string{AnnotationPodName: claim.Name, AnnotationTemplate: b.Template}).
		WithAnnotations(annotations).
		WithAnnotations(only(claim.Annotations, []string{AnnotationTrace})).
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

// MadeByKiln reports whether Kiln, or the agent-sandbox controller before it, made a
// sandbox, rather than a user.
func MadeByKiln(s *agents.Sandbox) bool { return LaunchOf(s) != "" }

// PoolOf is the pool that a sandbox is a member of. One that is no member shares with
// those of its template: its pool is the claim's to know.
func PoolOf(s *agents.Sandbox) string {
	if owner := OwnerOf(s); owner.Kind == states.OwnerPool {
		return owner.Name
	}
	return s.Annotations[AnnotationTemplate]
}

func only(all map[string]string, keys []string) map[string]string {
	kept := map[string]string{}
	for _, k := range keys {
		if v, ok := all[k]; ok {
			kept[k] = v
		}
	}
	return kept
}

// adoptConfig makes a claim the owner of a pool member, with what the claim adds to
// its pod. This is the commit point: whoever's apply is first has the sandbox. The claim's
// UID and who made it do not go into the pod template, where the agent-sandbox controller
// has them: the generation would move, and the status would be written once more for every
// claim. The pod gets both from kiln-state.
func adoptConfig(of Claimed) *agentsac.SandboxApplyConfiguration {
	s, claim := of.Sandbox, of.Claim
	c := ownedConfig(s).WithSpec(of.spec())
	for _, gone := range []string{LabelPool, LabelBlueprintHash, LabelPodTemplateHash, LabelCreatedBy} {
		delete(c.Labels, gone)
	}
	delete(c.Annotations, AnnotationClaimKeys)
	of.Added.keys(c.Annotations)
	return c.WithLabels(map[string]string{LabelClaimUID: string(claim.UID)}).
		WithLabels(only(claim.Labels, []string{LabelCreatedBy})).
		WithAnnotations(only(claim.Annotations, []string{AnnotationTrace})).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(claim, gvkOf(claim))))
}

// recoverConfig makes a pool the owner of a member that lost its owner.
func recoverConfig(s *agents.Sandbox, pool *ext.SandboxWarmPool) *agentsac.SandboxApplyConfiguration {
	return ownedConfig(s).WithOwnerReferences(ownerRef(*metav1.NewControllerRef(pool, gvkOf(pool))))
}

// A Claimed is a sandbox and the claim that it belongs to.
type Claimed struct {
	Sandbox *agents.Sandbox
	Claim   *ext.SandboxClaim
	// Template is the name of the template that the claim's pool has now, and Now is
	// that template, if it was seen.
	Template string
	Now      *ext.SandboxTemplate
	// Says is what that template says, if it can be read.
	Says Blueprint
	// Added is what the claim adds to its pod.
	Added ClaimMetadata
	// Seize: what must not be there was left out once, and somebody else has it there.
	Seize bool
}

// spec is the blueprint part of a claim's sandbox: as it is, with what the claim adds to
// the pod's labels and annotations, and without what it does not add any more.
func (of Claimed) spec() *agentsac.SandboxSpecApplyConfiguration {
	pod := of.Sandbox.Spec.PodTemplate
	template, _ := of.divide()
	pod.ObjectMeta = of.Added.with(template)
	return specConfig(pod, of.Sandbox.Spec.VolumeClaimTemplates, of.Sandbox.Spec.Service)
}

// respecified reports whether the pod template of a claim's sandbox is to have other
// labels or annotations than it has, and whether it is to lose some.
func (of Claimed) respecified() (differs, loses bool) {
	template, _ := of.divide()
	is, want := of.Sandbox.Spec.PodTemplate.ObjectMeta, of.Added.with(template)
	loses = lacks(want.Labels, is.Labels) || lacks(want.Annotations, is.Annotations)
	return loses || lacks(is.Labels, want.Labels) || lacks(is.Annotations, want.Annotations), loses
}

// launch says whether a claim's sandbox was made for a pool or for the claim. A claim's
// own has the claim's name, and the claim's UID in its pod template from the start: a
// user may give a claim the name of a member. The agent-sandbox controller puts the UID
// into both; its word on the label counts then.
func (of Claimed) launch() string {
	s, claim := of.Sandbox, of.Claim
	theirs := s.Labels[LabelRevision] == "" && s.Labels[LabelLaunch] == LaunchWarm
	if s.Name != claim.Name || theirs || s.Spec.PodTemplate.ObjectMeta.Labels[LabelClaimUID] != string(claim.UID) {
		return LaunchWarm
	}
	return LaunchCold
}

// claimedMetadata are the labels and annotations of a claim's sandbox that follow from
// the claim. It reports whether the sandbox has others: somebody has changed them, or
// the claim.
func claimedMetadata(of Claimed) (labels, annotations map[string]string, differs bool) {
	s, claim := of.Sandbox, of.Claim
	labels = map[string]string{LabelClaimUID: string(claim.UID), LabelLaunch: of.launch()}
	if revision := of.revision(); revision != "" {
		labels[LabelRevision] = revision
	}
	maps.Copy(labels, only(claim.Labels, []string{LabelCreatedBy}))
	maps.Copy(labels, only(s.Spec.PodTemplate.ObjectMeta.Labels, []string{LabelTemplate}))
	annotations = only(s.Annotations, []string{AnnotationTemplate, AnnotationPolicy, AnnotationTrace})
	if Hash(annotations[AnnotationTemplate]) != labels[LabelTemplate] && Hash(of.Template) == labels[LabelTemplate] {
		annotations[AnnotationTemplate] = of.Template
	}
	of.promised(annotations)
	if s.Spec.OperatingMode != agents.Suspended {
		annotations[AnnotationPodName] = s.Name
	}
	of.Added.keys(annotations)
	differs = mend(labels, s.Labels, sandboxLabels, of.Seize)
	return labels, annotations, mend(annotations, s.Annotations, []string{AnnotationClaimKeys, AnnotationRetired}, of.Seize) || differs
}

// promised puts right which NetworkPolicy the pod of a claim's sandbox needs. It has the
// template's name, and what the template promises now is promised. Whether one that is
// gone did, only the annotation says.
func (of Claimed) promised(annotations map[string]string) {
	template := annotations[AnnotationTemplate]
	_, was := annotations[AnnotationPolicy]
	is := of.Says.policy != "" && of.Says.Template == template && of.Sandbox.Labels[LabelRevision] != ""
	if was || is {
		annotations[AnnotationPolicy] = PolicyName(template)
	}
}

// ClaimedDiffers reports whether a claim's sandbox has other labels or annotations
// than it should have, for itself or for its pod.
func ClaimedDiffers(of Claimed) bool {
	_, _, differs := claimedMetadata(of)
	respecified, _ := of.respecified()
	return differs || respecified
}

// claimedConfig is what kiln-owner holds of a claim's sandbox.
func claimedConfig(of Claimed) *agentsac.SandboxApplyConfiguration {
	s := of.Sandbox
	labels, annotations, _ := claimedMetadata(of)
	return agentsac.Sandbox(s.Name, s.Namespace).WithUID(s.UID).WithResourceVersion(s.ResourceVersion).
		WithLabels(labels).WithAnnotations(annotations).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(of.Claim, gvkOf(of.Claim)))).
		WithSpec(of.spec())
}

// remadeConfig gives a claim's own sandbox, as it was seen, another blueprint.
func remadeConfig(of Claimed, b Blueprint) *agentsac.SandboxApplyConfiguration {
	return ownConfig(of.Claim, b).WithUID(of.Sandbox.UID).WithResourceVersion(of.Sandbox.ResourceVersion)
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
	return a.applySandbox(ctx, write{urgency: urgency{class: classWarm}, edge: "create", pool: pool.Name}, memberConfig(pool, name, b))
}

// CreateOwn makes a claim its own sandbox: a cold start. ErrLost says that a
// sandbox of the claim's name exists.
func (a *Applier) CreateOwn(ctx context.Context, claim *ext.SandboxClaim, b Blueprint) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, write{urgency: urgency{class: classTake}, edge: "create", pool: claim.Spec.WarmPoolRef.Name}, ownConfig(claim, b))
}

// Adopt makes a claim the owner of a pool member, as it was seen.
func (a *Applier) Adopt(ctx context.Context, of Claimed) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, write{urgency: urgency{class: classTake}, edge: "adopt", pool: of.Claim.Spec.WarmPoolRef.Name}, adoptConfig(of))
}

// Recover makes a pool the owner of a member, as it was seen, that lost its owner.
func (a *Applier) Recover(ctx context.Context, s *agents.Sandbox, pool *ext.SandboxWarmPool) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, write{urgency: urgency{class: classWarm}, edge: "recover", pool: pool.Name}, recoverConfig(s, pool))
}

// SyncClaimed brings the labels and annotations of a claim's sandbox, as it was
// seen, in line with the claim.
func (a *Applier) SyncClaimed(ctx context.Context, of Claimed) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, write{urgency: urgency{class: classTrail}, edge: "sync", pool: of.Claim.Spec.WarmPoolRef.Name}, claimedConfig(of))
}

// RemakeOwn gives a claim's own sandbox, as it was seen, another blueprint. It has no
// pod, and with this blueprint it may get one.
func (a *Applier) RemakeOwn(ctx context.Context, of Claimed, b Blueprint) (*agents.Sandbox, error) {
	return a.applySandbox(ctx, write{urgency: urgency{class: classTake}, edge: "remake", pool: of.Claim.Spec.WarmPoolRef.Name}, remadeConfig(of, b))
}

// Retire marks a sandbox, as it was seen, as never to be handed out.
func (a *Applier) Retire(ctx context.Context, s *agents.Sandbox, reason states.Reason) (*agents.Sandbox, error) {
	value, ok := retiredFor[reason]
	if !ok {
		return nil, fmt.Errorf("sandbox %s: retire: %q is no reason to", keyOf(s), reason)
	}
	return a.applySandbox(ctx, write{urgency: urgency{class: classTrail}, edge: "retire", pool: PoolOf(s)}, retireConfig(s, value))
}

// applySandbox is an apply of kiln-owner; w says its class, its verb and its pool.
func (a *Applier) applySandbox(ctx context.Context, w write, config *agentsac.SandboxApplyConfiguration) (*agents.Sandbox, error) {
	key := types.NamespacedName{Namespace: *config.GetNamespace(), Name: *config.GetName()}
	w.manager, w.kind, w.key = states.OwnerManager, "sandbox", key
	if seen := *config.ResourceVersion; seen != mustNotExist {
		w.seen = seen
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*agents.Sandbox, error) {
		return c.Kiln.Sandboxes(key.Namespace).Apply(ctx, config, w.options())
	})
}

// DeleteSandbox deletes a sandbox, as it was seen. ErrGone says that there is none
// any more.
func (a *Applier) DeleteSandbox(ctx context.Context, s *agents.Sandbox) error {
	w := write{urgency: urgency{class: classTrail}, manager: states.OwnerManager, kind: "sandbox", edge: "delete", key: keyOf(s), pool: PoolOf(s), seen: s.ResourceVersion}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (struct{}, error) {
		return struct{}{}, c.Kiln.Sandboxes(s.Namespace).Delete(ctx, s.Name, deletion(s))
	})
	return err
}

// DeleteOf deletes the sandbox of a claim whose lifetime is over: the one that was
// seen, whatever became of it since.
func (a *Applier) DeleteOf(ctx context.Context, of Claimed) error {
	s := of.Sandbox
	w := write{urgency: urgency{class: classTrail}, manager: states.ClaimManager, kind: "sandbox", edge: "delete", key: keyOf(s), pool: PoolOf(s)}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (struct{}, error) {
		uid := s.UID
		return struct{}{}, c.Kiln.Sandboxes(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
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
	w := write{urgency: a.ofReport(s, want), manager: states.StatusManager, kind: "sandboxstatus", edge: "report", key: keyOf(s), pool: PoolOf(s), seen: s.ResourceVersion}
	if sameStatus(s.Status, want) {
		a.skip(w)
		return s, nil
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*agents.Sandbox, error) {
		return c.Kiln.Sandboxes(s.Namespace).ApplyStatus(ctx, sandboxStatusConfig(s, want), w.options())
	})
}
