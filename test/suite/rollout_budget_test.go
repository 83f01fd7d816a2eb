package suite

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A budget is how many members a pool may lack, and have too many.
type budget func(*ext.SandboxWarmPool) (unavailable, surge int)

// A bound holds a pool to a budget at every event: it adds no member when something
// is left of replicas + surge of them, and retires no free one as outdated that
// leaves fewer than replicas - unavailable. A spec counts until the pool has
// observed a later one, and the most generous of those that count is the bound.
// When its status tells as many members and free ones as there are, the controller
// has seen what came before; of what came later it may have seen nothing.
type bound struct {
	*world.Snapshot
	name            string
	specs           []*ext.SandboxWarmPool
	ours            map[types.UID]bool // the pool's sandboxes, also when only a pod is left
	free            map[string]uint64  // since which version a member is free
	seen            uint64             // the version at which the status was last true
	losses          []uint64           // the versions at which free members were lost otherwise
	retired         int                // the free ones retired as outdated when nothing else was lost
	tooMany, tooFew []string
}

func bounded(history []world.Change, pool string, of budget) *bound {
	b := &bound{Snapshot: world.After(nil), name: pool, ours: map[types.UID]bool{}, free: map[string]uint64{}}
	for _, c := range history {
		before := b.left()
		b.Take(c)
		switch o := c.Object.(type) {
		case *ext.SandboxWarmPool:
			b.observe(o, c.Version)
		case *agents.Sandbox:
			p, by := b.Pools[pool], metav1.GetControllerOf(o)
			b.ours[o.UID] = b.ours[o.UID] && p == nil || p != nil && by != nil && by.UID == p.UID
		}
		now := b.left()
		if _, most := b.limits(of); now > max(before, most) {
			b.tooMany = append(b.tooMany, fmt.Sprintf("something is left of %d members, and %d is the most\n    %s", now, most, c))
		}
		b.judge(c, of)
	}
	return b
}

// observe takes in a spec, and a status if it is true.
func (b *bound) observe(p *ext.SandboxWarmPool, version uint64) {
	if p.Name != b.name {
		return
	}
	b.specs = append(slices.DeleteFunc(b.specs, func(old *ext.SandboxWarmPool) bool {
		return old.Generation == p.Generation || old.Generation < p.Status.ObservedGeneration
	}), p)
	if int(p.Status.Replicas) == len(b.Members(b.name)) && int(p.Status.ReadyReplicas) == len(b.free) {
		b.seen = version
	}
}

// judge takes in who is free after a change.
func (b *bound) judge(c world.Change, of budget) {
	free := b.Free(b.name)
	for name, since := range b.free {
		if slices.Contains(free, name) {
			continue
		}
		delete(b.free, name)
		b.losses = slices.DeleteFunc(b.losses, func(at uint64) bool { return at < b.seen })
		if s := b.Sandboxes[name]; s == nil || s.Annotations[apply.AnnotationRetired] != outdated {
			b.losses = append(b.losses, c.Version)
			continue
		}
		if since > b.seen {
			continue // it may not have been known to be free
		}
		if len(b.losses) == 0 {
			b.retired++
		}
		if least, _ := b.limits(of); len(free)+len(b.losses) < least {
			b.tooFew = append(b.tooFew, fmt.Sprintf("%d free are left, and %d is the least; %d may have been lost unseen\n    %s", len(free), least, len(b.losses), c))
		}
	}
	for _, name := range free {
		if _, known := b.free[name]; !known {
			b.free[name] = c.Version
		}
	}
}

// limits are how few free members may be left, and how many may be there at all.
func (b *bound) limits(of budget) (least, most int) {
	for i, p := range b.specs {
		unavailable, surge := of(p)
		if few := int(*p.Spec.Replicas) - unavailable; i == 0 || few < least {
			least = few
		}
		most = max(most, int(*p.Spec.Replicas)+surge)
	}
	return least, most
}

// left counts what there is of members: a sandbox, or a pod that outlasts it.
func (b *bound) left() int {
	left := map[types.UID]bool{}
	for _, s := range b.Sandboxes {
		left[s.UID] = b.ours[s.UID]
	}
	for _, p := range b.Pods {
		if by := metav1.GetControllerOf(p); by != nil {
			left[by.UID] = b.ours[by.UID]
		}
	}
	n := 0
	for _, ours := range left {
		if ours {
			n++
		}
	}
	return n
}
