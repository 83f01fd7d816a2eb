package claim

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/kiln-sandbox/kiln/apply"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

// A Freshness proves that the view of a claim's pool and template is as new as the
// claim. A claim on a strict pool must not get a sandbox of an older template than
// there was when the claim was made, however far the watches are behind. Where both
// stores have passed the claim's resource version, that is so. Otherwise the server
// is asked beside the adoption which generation the pool and the template have. A
// pool is strict from the moment on that the controller has observed it to be, as
// its status says.
//
// The two are read by name, from the quorum. A list would prove every pool at once,
// but the server answers consistent lists from its watch cache, and lets them wait
// until that has caught up: some fifty milliseconds, as long as three claims take.
//
// Reads are shared: one of a subject is in flight at a time. A claim that comes
// meanwhile waits for it, and reads again only if it was begun too early.
type Freshness struct {
	stores *store.Stores
	read   func(context.Context, Subject) (reading, error)
	// version is how far the watch of claims has come.
	version func() string

	mu       sync.Mutex
	last     map[Subject]reading
	inflight map[Subject]*call
}

// A Subject is what a freshness is about.
type Subject struct{ Pool, Template view.Key }

// A reading is what the server said of a subject; nil stands for what is not there.
type reading struct {
	pool, template *metav1.PartialObjectMetadata
	// version is how far the watch of claims had come when the server was asked: the
	// reading is at least as new as every claim up to there.
	version string
}

// A call is a read in flight.
type call struct {
	done chan struct{}
	got  reading
	err  error
}

// NewFreshness reads the metadata of pools and templates.
func NewFreshness(m metadata.Interface, s *store.Stores) *Freshness {
	get := func(ctx context.Context, of schema.GroupVersionResource, key view.Key) (*metav1.PartialObjectMetadata, error) {
		got, err := m.Resource(of).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return got, err
	}
	return &Freshness{
		stores: s, version: s.Claims.Version, last: map[Subject]reading{}, inflight: map[Subject]*call{},
		read: func(ctx context.Context, of Subject) (r reading, err error) {
			var template sync.WaitGroup
			var other error
			template.Go(func() { r.template, other = get(ctx, ext.TemplateResource, of.Template) })
			r.pool, err = get(ctx, ext.PoolResource, of.Pool)
			template.Wait()
			return r, errors.Join(err, other)
		},
	}
}

// Prove says how new the stores are for a claim of a version.
func (f *Freshness) Prove(ctx context.Context, version string, of Subject) (states.Freshness, error) {
	r, err := f.from(ctx, version, of)
	if err != nil {
		return states.FreshnessUnknown, err
	}
	if behind(f.stores.Pools, of.Pool, r.pool, version) || behind(f.stores.Templates, of.Template, r.template, version) {
		return states.FreshnessBehind, nil
	}
	return states.FreshnessProven, nil
}

// Forget drops what was read of a pool that is gone, or has changed.
func (f *Freshness) Forget(pool view.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.last, func(of Subject, _ reading) bool { return of.Pool == pool })
}

// Len is of how many pools it remembers what the server said.
func (f *Freshness) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.last)
}

// behind reports whether a store shows an earlier state of an object than the
// server did, and that matters to a claim of a version: what was written after the
// claim is new enough, whatever came after it.
func behind[T store.Object](s *store.Store[T], key view.Key, is *metav1.PartialObjectMetadata, version string) bool {
	had, shown := s.Get(key)
	switch {
	case shown && store.AtLeast(had.GetResourceVersion(), version):
		return false
	case is == nil:
		return shown
	case !shown:
		return !s.Passed(is.ResourceVersion)
	case is.UID == had.GetUID() && is.Generation != had.GetGeneration():
		return is.Generation > had.GetGeneration()
	case is.UID == had.GetUID() && is.Annotations[asked] == had.GetAnnotations()[asked]:
		return false
	}
	return !store.AtLeast(had.GetResourceVersion(), is.ResourceVersion)
}

// asked is the one annotation that changes which members are old.
const asked = apply.AnnotationRollOnMetadata

// from returns a reading that is at least as new as a claim of a version.
func (f *Freshness) from(ctx context.Context, version string, of Subject) (reading, error) {
	for early := true; ; early = false {
		f.mu.Lock()
		if last, ok := f.last[of]; ok && store.AtLeast(last.version, version) {
			f.mu.Unlock()
			return last, nil
		}
		c := f.inflight[of]
		if c == nil {
			c, early = &call{done: make(chan struct{})}, false
			f.inflight[of] = c
			go f.begin(context.WithoutCancel(ctx), c, of)
		}
		f.mu.Unlock()
		select {
		case <-c.done:
		case <-ctx.Done():
			return reading{}, context.Cause(ctx)
		}
		if c.err != nil || !early {
			return c.got, c.err
		}
	}
}

// readTimeout is the longest one read may take.
const readTimeout = 10 * time.Second

func (f *Freshness) begin(ctx context.Context, c *call, of Subject) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	version := f.version()
	c.got, c.err = f.read(ctx, of)
	c.got.version = version
	f.mu.Lock()
	defer f.mu.Unlock()
	// Of a pool that is not there, nothing would ever forget it. One that ends from
	// here on has its event, which forgets.
	if _, there := f.stores.Pools.Get(of.Pool); c.err == nil && there {
		f.last[of] = c.got
	}
	delete(f.inflight, of)
	close(c.done)
}
