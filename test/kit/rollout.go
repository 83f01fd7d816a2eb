package kit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// Recreating has a pool drop all old members at once.
func Recreating(p *ext.SandboxWarmPool) *ext.SandboxWarmPool {
	p.Spec.UpdateStrategy.Type = ext.Recreate
	return p
}

// Rolling has a pool replace old members within a budget, as changed by with.
func Rolling(p *ext.SandboxWarmPool, unavailable, surge intstr.IntOrString, with ...func(*ext.RollingUpdate)) *ext.SandboxWarmPool {
	r := &ext.RollingUpdate{MaxUnavailable: &unavailable, MaxSurge: &surge}
	for _, change := range with {
		change(r)
	}
	p.Spec.UpdateStrategy = ext.UpdateStrategy{Type: ext.Rolling, RollingUpdate: r}
	return p
}

// Retemplate changes what a template's pods run; it returns the revision that
// this makes.
func (w *World) Retemplate(template, image string) (revision string) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/podTemplate/spec/containers/0/image","value":%q}]`, image)
	t, err := w.Templates().Patch(w.ctx, template, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.revision(t)
}

// Revision is the revision of a template as it is on the server.
func (w *World) Revision(template string) string {
	w.t.Helper()
	t, err := w.Templates().Get(w.ctx, template, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.revision(t)
}

func (w *World) revision(t *ext.SandboxTemplate) string {
	w.t.Helper()
	b, err := apply.BlueprintOf(t)
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Revision
}

// Repool changes the spec of a pool by a merge patch.
func (w *World) Repool(pool, spec string) {
	w.t.Helper()
	_, err := w.Pools().Patch(w.ctx, pool, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Pause holds a pool's rollout where it is, or lets it go on.
func (w *World) Pause(pool string, paused bool) {
	w.t.Helper()
	w.Repool(pool, fmt.Sprintf(`{"updateStrategy":{"rollingUpdate":{"paused":%t}}}`, paused))
}

// Fresh wishes for every member of a pool to be of a revision, and for the pool
// to say so.
func Fresh(pool, revision string) Wish {
	return func(s *Sight) error {
		for _, name := range s.Members(pool) {
			if got := s.Sandboxes[name].Labels[apply.LabelRevision]; got != revision {
				return fmt.Errorf("member %s is of revision %s, not %s", name, got, revision)
			}
		}
		p, ok := s.Pools[pool]
		if !ok || p.Status.CurrentRevision != revision || p.Status.UpdatedReplicas != p.Status.Replicas {
			return fmt.Errorf("pool %s does not say that all its members are of revision %s", pool, revision)
		}
		return nil
	}
}

// Follows wishes for a pool to have seen a revision.
func Follows(pool, revision string) Wish {
	return func(s *Sight) error {
		if p, ok := s.Pools[pool]; !ok || p.Status.CurrentRevision != revision {
			return fmt.Errorf("pool %s does not follow revision %s", pool, revision)
		}
		return nil
	}
}

// Progress wishes for a pool's Progressing condition to be so, and to give a
// reason.
func Progress(pool string, status metav1.ConditionStatus, reason string) Wish {
	return func(s *Sight) error {
		p, ok := s.Pools[pool]
		if !ok {
			return fmt.Errorf("there is no pool %s", pool)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, "Progressing"); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("pool %s is not Progressing=%s/%s: %v", pool, status, reason, c)
		}
		return nil
	}
}
