package watch

import (
	"context"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

// A claim on a strict pool must not get a sandbox of an older template than there
// was when the claim was made, however far the watches are behind. Where both
// stores have passed the claim's resource version, that is so. Otherwise the
// server is asked beside the adoption which generation the pool and the template
// have. A pool is strict from the moment on that the controller has observed it to
// be, as its status says.
//
// The two are read by name, from the quorum. A list would prove every pool at
// once, but the server answers consistent lists from its watch cache, and lets them
// wait until that has caught up: some fifty milliseconds, as long as three claims
// take.

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

// view says how new what the stores show is for a claim. A proof is of one pool
// and one template: should the claim come to need others, they are not proven.
func (l claims) view(sight claimSight, known *inquiry) states.View {
	switch {
	case known.view != states.Unproven && known.proof == proofOf(sight):
		return known.view
	case l.opts.Credulous, l.stores.pools.reached(known.version) && l.stores.templates.reached(known.version):
		return states.Proven
	}
	return states.Unproven
}

// prove asks the server whether the stores show a claim's pool and template as
// they were when the claim was made, or later. That there is none is a view too.
func (l claims) prove(ctx context.Context, sight claimSight, known *inquiry) error {
	of := proofOf(sight)
	known.proof, known.view = of, states.Unproven
	if sight.pool == nil { // no event of the template would wake the claim: it is read itself
		if _, err := ask(ctx, l.stores.templates, l.reads.kiln.Templates(of.template.Namespace), of.template); err != nil {
			return err
		}
		known.view = states.Proven
		return nil
	}
	r, err := l.proofs.from(ctx, known.version, of)
	if err != nil {
		return err
	}
	known.view = states.Proven
	if behind(l.stores.pools, of.pool, r.pool, known.version) || behind(l.stores.templates, of.template, r.template, known.version) {
		known.view = states.Behind
	}
	return nil
}

// A subject is what a proof is about.
type subject struct{ pool, template Key }

// proofOf is the pool of a claim and the template that its sandbox is, or will be,
// made from. Should the pool be gone, the sandbox still says which.
func proofOf(sight claimSight) subject {
	of := subject{pool: poolOf(sight.claim)}
	switch {
	case sight.pool != nil:
		of.template = templateOf(sight.pool)
	case sight.sandbox != nil:
		of.template = Key{Namespace: sight.claim.Namespace, Name: sight.sandbox.Annotations[apply.NoteTemplate]}
	}
	return of
}

// A shower shows objects of a kind, as far as it has come.
type shower[T object] interface {
	get(Key) (T, bool)
	reached(version string) bool
}

// behind reports whether a store shows an earlier state of an object than the
// server did, and that matters to a claim of a version: what was written after the
// claim is new enough, whatever came after it.
func behind[T object](s shower[T], key Key, is *metav1.PartialObjectMetadata, version string) bool {
	had, shown := s.get(key)
	switch {
	case shown && atLeast(had.GetResourceVersion(), version):
		return false
	case is == nil:
		return shown
	case !shown:
		return !s.reached(is.ResourceVersion)
	case is.UID == had.GetUID():
		return is.Generation > had.GetGeneration()
	}
	return !atLeast(had.GetResourceVersion(), is.ResourceVersion)
}

// A reading is what the server said of a subject; nil stands for what is not there.
type reading struct {
	pool, template *metav1.PartialObjectMetadata
	// seen is how far the watch of claims had come when the server was asked: the
	// reading is at least as new as every claim up to there.
	seen string
}

// proofs share their reads: one of a subject is under way at a time. Whoever comes
// meanwhile waits for it, and asks again only if it was begun too early.
type proofs struct {
	read func(context.Context, subject) (reading, error)
	seen func() string

	mu   sync.Mutex
	last map[subject]reading
	// flights are the reads under way.
	flights map[subject]*flight
}

type flight struct {
	done chan struct{}
	got  reading
	err  error
}

// from returns a reading that is at least as new as a claim of a version.
func (p *proofs) from(ctx context.Context, version string, of subject) (reading, error) {
	for begunBefore := true; ; begunBefore = false {
		p.mu.Lock()
		if last, ok := p.last[of]; ok && atLeast(last.seen, version) {
			defer p.mu.Unlock()
			return last, nil
		}
		f := p.flights[of]
		if f == nil {
			f, begunBefore = &flight{done: make(chan struct{})}, false
			p.flights[of] = f
			go p.fly(context.WithoutCancel(ctx), f, of)
		}
		p.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return reading{}, context.Cause(ctx)
		}
		if f.err != nil || !begunBefore {
			return f.got, f.err
		}
	}
}

// proofPatience is the longest one read may take.
const proofPatience = 10 * time.Second

func (p *proofs) fly(ctx context.Context, f *flight, of subject) {
	ctx, cancel := context.WithTimeout(ctx, proofPatience)
	defer cancel()
	seen := p.seen()
	f.got, f.err = p.read(ctx, of)
	f.got.seen = seen
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.err == nil {
		p.last[of] = f.got
	}
	delete(p.flights, of)
	close(f.done)
}

// forget drops what was read of a pool that is gone, or has changed.
func (p *proofs) forget(pool Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.last, func(of subject, _ reading) bool { return of.pool == pool })
}

// newProofs reads the metadata of pools and templates, both at once.
func newProofs(m metadata.Interface, claims *store[*ext.SandboxClaim]) *proofs {
	read := func(ctx context.Context, of schema.GroupVersionResource, key Key, into **metav1.PartialObjectMetadata) error {
		got, err := m.Resource(of).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		*into = got
		return err
	}
	return &proofs{
		last: map[subject]reading{}, flights: map[subject]*flight{},
		seen: claims.informer.GetIndexer().LastStoreSyncResourceVersion,
		read: func(ctx context.Context, of subject) (r reading, err error) {
			err = each([]func() error{
				func() error { return read(ctx, ext.PoolResource, of.pool, &r.pool) },
				func() error { return read(ctx, ext.TemplateResource, of.template, &r.template) },
			}, func(read func() error) error { return read() })
			return r, err
		},
	}
}

// currentIn reports whether a sandbox was made from a pool's template as it is.
func (w *world) currentIn(s *agents.Sandbox, pool *ext.SandboxWarmPool) bool {
	return w.madeFrom(templateOf(pool), s, pool)
}

// madeFrom reports whether a sandbox was made for a pool from a template as the
// store shows it.
func (w *world) madeFrom(template Key, s *agents.Sandbox, pool *ext.SandboxWarmPool) bool {
	t, ok := w.stores.templates.get(template)
	if !ok {
		return false
	}
	b, err := w.blueprints.of(t)
	return err == nil && b.Made(s, pool)
}
