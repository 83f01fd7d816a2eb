package kit

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watchable is the part of a typed client that a feed needs.
type watchable[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// watch starts a feed for each kind. The namespace is new, so there is nothing
// that the feeds have not seen from its birth.
func (w *World) watch(ctx context.Context, running *sync.WaitGroup) {
	w.t.Helper()
	for _, start := range []func() (func(), error){
		feed(ctx, w.Recorder, w.Pods()), feed(ctx, w.Recorder, w.Sandboxes()),
		feed(ctx, w.Recorder, w.Claims()), feed(ctx, w.Recorder, w.Pools()),
		feed(ctx, w.Recorder, w.Templates()),
	} {
		follow, err := start()
		if err != nil {
			w.t.Fatalf("watch the namespace: %v", err)
		}
		running.Go(follow)
	}
}

// feed is a plain watch from the first revision of the namespace. An informer
// would do, were it not allowed to leave out what happened between two lists.
func feed[L runtime.Object](ctx context.Context, r *Recorder, c watchable[L]) func() (func(), error) {
	return func() (func(), error) {
		list, err := c.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		l, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		return func() { follow(ctx, r, c, l.GetResourceVersion()) }, nil
	}
}

// follow watches from a version on, and from where it was when the server ends
// the watch.
func follow[L runtime.Object](ctx context.Context, r *Recorder, c watchable[L], version string) {
	for {
		w, err := c.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err == nil {
			version, err = drain(r, w, version)
		}
		switch {
		case ctx.Err() != nil:
			return // whatever it says, it says because the world has ended
		case err != nil:
			r.t.Errorf("watch: %v", err)
			return
		}
	}
}

// drain takes in what a watch shows until it ends.
func drain(r *Recorder, w watch.Interface, version string) (string, error) {
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(metav1.Object)
		if !ok {
			return version, errors.FromObject(e.Object)
		}
		change, err := newChange(o, e.Type == watch.Deleted)
		if err != nil {
			return version, err
		}
		version = o.GetResourceVersion()
		r.see(change)
	}
	return version, nil
}

// caughtUp wishes for the recorder to have seen what the server has now.
func (w *World) caughtUp() Wish {
	w.t.Helper()
	var wishes []Wish
	for _, one := range []func() (Wish, error){
		seen(w.ctx, "pod", w.Pods()), seen(w.ctx, "sandbox", w.Sandboxes()),
		seen(w.ctx, "claim", w.Claims()), seen(w.ctx, "pool", w.Pools()),
	} {
		wish, err := one()
		if err != nil {
			w.t.Fatal(err)
		}
		wishes = append(wishes, wish)
	}
	return All(wishes...)
}
