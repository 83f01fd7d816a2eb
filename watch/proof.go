package watch

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A claim on a strict pool must not get a sandbox of an older template than
// there was when the claim was made, however far the watches are behind. Where
// both stores have passed the claim's resource version, that is so. Otherwise one
// read tells, before the claim takes anything: the server lists which generation
// every pool and template has, and the answer proves or disproves every claim that
// is not newer than the list.

// strict reports whether a pool's claims must not get old sandboxes.
func strict(p *ext.SandboxWarmPool) bool {
	switch p.Spec.UpdateStrategy.Type {
	case ext.Recreate:
		return true
	case ext.Rolling:
		r := p.Spec.UpdateStrategy.RollingUpdate
		return r == nil || r.ClaimPolicy != ext.ClaimAny
	case ext.OnReplenish:
	}
	return false
}

// view says how new what the stores show is for a claim.
func (l claims) view(known *inquiry) states.View {
	passed := l.stores.pools.reached(known.version) && l.stores.templates.reached(known.version)
	if known.view == states.Unproven && (passed || l.opts.Credulous) {
		return states.Proven
	}
	return known.view
}

// prove asks the server whether the stores show a claim's pool and template as
// they were when the claim was made, or later.
func (l claims) prove(ctx context.Context, c *ext.SandboxClaim, version string) (states.View, error) {
	list, err := l.proofs.from(ctx, version)
	if err != nil {
		return states.Unproven, err
	}
	pool, ok := l.stores.pools.get(poolOf(c))
	if !ok || !list.shows(poolKindOf, pool) {
		return states.Behind, nil
	}
	template, ok := l.stores.templates.get(templateOf(pool))
	if ok && !list.shows(templateKindOf, template) || !ok && list.has(templateKindOf, templateOf(pool)) {
		return states.Behind, nil
	}
	return states.Proven, nil // that there is no template is a view too
}

// The kinds a proof is about.
const (
	poolKindOf     = "pool"
	templateKindOf = "template"
)

// identity is what tells one state of a spec from another.
type identity struct {
	uid        types.UID
	generation int64
}

// A listing is what a consistent read showed.
type listing struct {
	version string // of the older of its two lists
	seen    map[string]map[Key]identity
}

// shows reports whether an object is as the listing has it, or newer.
func (l *listing) shows(kind string, o metav1.Object) bool {
	is, ok := l.seen[kind][keyOf(o)]
	return ok && is.uid == o.GetUID() && is.generation <= o.GetGeneration()
}

// has reports whether the listing has an object of a name.
func (l *listing) has(kind string, key Key) bool {
	_, ok := l.seen[kind][key]
	return ok
}

// proofs share their reads: whoever comes while one is under way waits for it,
// and asks again only if it turns out too old.
type proofs struct {
	read func(context.Context) (*listing, error)

	mu     sync.Mutex
	last   *listing
	flight *flight
}

type flight struct {
	done chan struct{}
	err  error
}

// from returns a listing that is at least as new as a version.
func (p *proofs) from(ctx context.Context, version string) (*listing, error) {
	for {
		p.mu.Lock()
		if p.last != nil && atLeast(p.last.version, version) {
			defer p.mu.Unlock()
			return p.last, nil
		}
		if p.flight == nil {
			p.flight = &flight{done: make(chan struct{})}
			go p.fly(context.WithoutCancel(ctx), p.flight)
		}
		f := p.flight
		p.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f.err != nil {
			return nil, f.err
		}
	}
}

// proofPatience is the longest one read may take.
const proofPatience = 10 * time.Second

func (p *proofs) fly(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, proofPatience)
	defer cancel()
	list, err := p.read(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.last = list
	}
	f.err, p.flight = err, nil
	close(f.done)
}

// readProof lists the metadata of pools and templates, both consistently.
func readProof(m metadata.Interface, ns string) func(context.Context) (*listing, error) {
	return func(ctx context.Context) (*listing, error) {
		l := &listing{seen: map[string]map[Key]identity{}}
		for kind, resource := range map[string]schema.GroupVersionResource{
			poolKindOf: ext.PoolResource, templateKindOf: ext.TemplateResource,
		} {
			list, err := m.Resource(resource).Namespace(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			l.seen[kind] = map[Key]identity{}
			for i := range list.Items {
				o := &list.Items[i]
				l.seen[kind][keyOf(o)] = identity{o.UID, o.Generation}
			}
			if l.version == "" || !atLeast(list.ResourceVersion, l.version) {
				l.version = list.ResourceVersion
			}
		}
		return l, nil
	}
}

// currentIn reports whether a sandbox was made from a pool's template as it is.
func (w *world) currentIn(s *agents.Sandbox, pool *ext.SandboxWarmPool) bool {
	template, ok := w.stores.templates.get(templateOf(pool))
	if !ok {
		return false
	}
	b, err := w.blueprints.of(template)
	return err == nil && madeFrom(s, pool, b)
}
