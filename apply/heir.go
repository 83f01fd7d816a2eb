package apply

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// An Heir writes as the Applier does, on objects that the agent-sandbox controller
// may have written before. Where a write must remove something of theirs, it takes
// the object over first, once in the object's life. It is the one place where an
// effect has two requests; between them nothing is half done.
type Heir struct {
	*Applier
	// BlueprintOf finds what the template of a pool member says, and the pool.
	BlueprintOf func(*agents.Sandbox) (b Blueprint, pool *ext.SandboxWarmPool, ok bool)
}

// Adopt takes a member over, and then makes a claim its owner.
func (h Heir) Adopt(ctx context.Context, of Claimed) (*agents.Sandbox, error) {
	var err error
	if of.Sandbox, err = h.sandbox(ctx, of.Sandbox); err != nil {
		return nil, err
	}
	return h.Applier.Adopt(ctx, of)
}

// Retire takes a sandbox over, and then marks it as never to be handed out.
func (h Heir) Retire(ctx context.Context, s *agents.Sandbox, reason states.Reason) (*agents.Sandbox, error) {
	s, err := h.sandbox(ctx, s)
	if err != nil {
		return nil, err
	}
	return h.Applier.Retire(ctx, s, reason)
}

// Recover takes an orphan over, and then gives it back to a pool.
func (h Heir) Recover(ctx context.Context, s *agents.Sandbox, pool *ext.SandboxWarmPool) (*agents.Sandbox, error) {
	s, err := h.sandbox(ctx, s)
	if err != nil {
		return nil, err
	}
	return h.Applier.Recover(ctx, s, pool)
}

// SyncClaimed takes a claim's sandbox over if a label has to go, there or in its pod
// template.
func (h Heir) SyncClaimed(ctx context.Context, of Claimed) (*agents.Sandbox, error) {
	labels, _, _ := claimedMetadata(of)
	if _, loses := of.respecified(); loses || keeps(of.Sandbox.Labels, labels, sandboxLabels) {
		var err error
		if of.Sandbox, err = h.sandbox(ctx, of.Sandbox); err != nil {
			return nil, err
		}
	}
	return h.Applier.SyncClaimed(ctx, of)
}

// RemakeOwn takes a claim's own sandbox over, and then gives it another blueprint.
func (h Heir) RemakeOwn(ctx context.Context, of Claimed, b Blueprint) (*agents.Sandbox, error) {
	var err error
	if of.Sandbox, err = h.sandbox(ctx, of.Sandbox); err != nil {
		return nil, err
	}
	return h.Applier.RemakeOwn(ctx, of, b)
}

// ReportSandbox takes a sandbox over if the status says less than it did.
func (h Heir) ReportSandbox(ctx context.Context, s *agents.Sandbox, want agents.SandboxStatus) (*agents.Sandbox, error) {
	s, err := relieve(ctx, h.Applier, s, func() bool { return drops(s.Status, want) })
	if err != nil {
		return nil, err
	}
	return h.Applier.ReportSandbox(ctx, s, want)
}

// MoveClaim takes a claim over if the status says less than it did.
func (h Heir) MoveClaim(ctx context.Context, c *ext.SandboxClaim, d states.Decision, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	c, err := relieve(ctx, h.Applier, c, func() bool { return drops(c.Status, want) })
	if err != nil {
		return nil, err
	}
	return h.Applier.MoveClaim(ctx, c, d, want)
}

// ReportClaim takes a claim over if the status says less than it did.
func (h Heir) ReportClaim(ctx context.Context, c *ext.SandboxClaim, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	c, err := relieve(ctx, h.Applier, c, func() bool { return drops(c.Status, want) })
	if err != nil {
		return nil, err
	}
	return h.Applier.ReportClaim(ctx, c, want)
}

// ReportPool takes a pool over if the status says less than it did.
func (h Heir) ReportPool(ctx context.Context, p *ext.SandboxWarmPool, want ext.SandboxWarmPoolStatus, d states.Decision) (*ext.SandboxWarmPool, error) {
	p, err := relieve(ctx, h.Applier, p, func() bool { return drops(p.Status, want) })
	if err != nil {
		return nil, err
	}
	return h.Applier.ReportPool(ctx, p, want, d)
}

// MovePod takes a pod over if the move removes a label or an annotation.
func (h Heir) MovePod(ctx context.Context, m PodMove) (*corev1.Pod, error) {
	edge, ok := states.Pod.Edge(states.Pod.Parse(m.Pod.Labels[LabelState]), m.Decision.About.Event)
	if ok && Inherited(m.Pod) && h.removes(m, edge.To) {
		var err error
		if m.Pod, err = h.pod(ctx, m); err != nil {
			return nil, err
		}
	}
	return h.Applier.MovePod(ctx, m)
}

// SyncPod takes a pod over that Kiln has never moved: what its template names no more has
// to go. On any other pod SyncPod writes over the changes of a user.
func (h Heir) SyncPod(ctx context.Context, m PodMove, is states.State) (*corev1.Pod, error) {
	if !managedBy(m.Pod, states.StateManager) {
		var err error
		if m.Pod, err = h.pod(ctx, m); err != nil {
			return nil, err
		}
	}
	return h.Applier.SyncPod(ctx, m, is)
}

// SyncService takes a Service over, and then brings it in line: a port that the pod does
// not declare any more has to go. Of the other things that the agent-sandbox controller
// makes, storage is never changed, and the rules of a NetworkPolicy are lists that an
// apply replaces whole.
func (h Heir) SyncService(ctx context.Context, s *agents.Sandbox, is *corev1.Service) (*corev1.Service, error) {
	got, err := h.TakeOver(ctx, is, false)
	if err != nil {
		return nil, err
	}
	return h.Applier.SyncService(ctx, s, got.(*corev1.Service))
}

// pod takes a pod over.
func (h Heir) pod(ctx context.Context, m PodMove) (*corev1.Pod, error) {
	_, marked := m.Sandbox.Spec.PodTemplate.ObjectMeta.Annotations[AnnotationSafeToEvict]
	got, err := h.TakeOver(ctx, m.Pod, marked)
	if err != nil {
		return nil, err
	}
	return got.(*corev1.Pod), nil
}

// removes reports whether a pod in another state has to lose what it carries.
func (h Heir) removes(m PodMove, to states.State) bool {
	config := h.stateConfig(m, to)
	for _, key := range []string{LabelPool, LabelClaimUID, LabelCreatedBy} {
		_, has := m.Pod.Labels[key]
		if _, keeps := config.Labels[key]; has && !keeps {
			return true
		}
	}
	_, has := m.Pod.Annotations[AnnotationSafeToEvict]
	return has && to != states.Warming && to != states.Ready
}

// sandbox takes a sandbox over and completes it: with the labels that the
// agent-sandbox controller did not know, with the NetworkPolicy that its pods need, and
// without what it puts into the pod template of a pool member alone.
func (h Heir) sandbox(ctx context.Context, s *agents.Sandbox) (*agents.Sandbox, error) {
	if Inherited(s) {
		got, err := h.TakeOver(ctx, s, false)
		if err != nil {
			return nil, err
		}
		s = got.(*agents.Sandbox)
	}
	if s.Labels[LabelRevision] != "" || !MadeByKiln(s) {
		return s, nil
	}
	whole := s.DeepCopy()
	metav1.SetMetaDataLabel(&whole.ObjectMeta, LabelLaunch, LaunchOf(s))
	b, pool, ok := h.BlueprintOf(s)
	if ok && b.Matches(s, pool) {
		metav1.SetMetaDataLabel(&whole.ObjectMeta, LabelRevision, b.RevisionFor(pool))
	}
	if ok && b.policy != "" && s.Annotations[AnnotationTemplate] == b.Template {
		metav1.SetMetaDataAnnotation(&whole.ObjectMeta, AnnotationPolicy, b.policy)
	}
	meta := &whole.Spec.PodTemplate.ObjectMeta
	for _, key := range []string{LabelPool, LabelBlueprintHash, LabelPodTemplateHash} {
		delete(meta.Labels, key)
	}
	if _, authors := b.podTemplate.ObjectMeta.Annotations[AnnotationSafeToEvict]; !authors {
		delete(meta.Annotations, AnnotationSafeToEvict)
	}
	return whole, nil
}

// relieve takes an object over if its status has to lose something.
func relieve[T Regarding](ctx context.Context, a *Applier, o T, drops func() bool) (T, error) {
	if !inheritedStatus(o) || !drops() {
		return o, nil
	}
	got, err := a.TakeOver(ctx, o, false)
	if err != nil {
		return o, err
	}
	return got.(T), nil
}

// drops reports whether a status says something that another one does not.
func drops[S agents.SandboxStatus | ext.SandboxClaimStatus | ext.SandboxWarmPoolStatus](was, is S) bool {
	return misses(treeOf(was), treeOf(is))
}

func treeOf(o any) any {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Errorf("a status is JSON: %w", err)) // it came from the server as such
	}
	var t any
	if err := json.Unmarshal(raw, &t); err != nil {
		panic(fmt.Errorf("a status is JSON: %w", err))
	}
	return t
}

// misses reports whether a tree has a field that another one has not. Conditions are
// compared by their type, other lists as a whole.
func misses(was, is any) bool {
	switch was := was.(type) {
	case map[string]any:
		now, _ := is.(map[string]any)
		for k, v := range was {
			if other, has := now[k]; !has || misses(v, other) {
				return true
			}
		}
	case []any:
		now := typesIn(is)
		for kind := range typesIn(was) {
			if !now[kind] {
				return true
			}
		}
	}
	return false
}

// typesIn are the types of conditions in a list.
func typesIn(list any) map[string]bool {
	types := map[string]bool{}
	items, _ := list.([]any)
	for _, one := range items {
		condition, _ := one.(map[string]any)
		if kind, ok := condition["type"].(string); ok {
			types[kind] = true
		}
	}
	return types
}
