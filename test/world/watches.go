package world

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// Clients read what a recorder watches.
type Clients struct {
	Core kubernetes.Interface
	Kiln *client.Clients
}

// Watch has the recorder watch every kind of a namespace, or of all of them if
// none is given; objects then go by namespace/name. What there is already is part
// of the history. Ended waits for the watches, once ctx is done.
func (r *Recorder) Watch(ctx context.Context, c Clients, namespace string) (ended func(), err error) {
	r.snapshot.wide = namespace == metav1.NamespaceAll
	var following sync.WaitGroup
	for _, start := range []func() (func(), error){
		feed(ctx, r, c.Core.CoreV1().Pods(namespace)), feed(ctx, r, c.Kiln.Sandboxes(namespace)),
		feed(ctx, r, c.Kiln.Claims(namespace)), feed(ctx, r, c.Kiln.Pools(namespace)),
		feed(ctx, r, c.Kiln.Templates(namespace)),
	} {
		follow, err := start()
		if err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		following.Go(follow)
	}
	return following.Wait, nil
}

// CaughtUp returns the condition that the recorder has seen all that the server
// has now.
func (r *Recorder) CaughtUp(ctx context.Context, c Clients, namespace string) (Condition, error) {
	var all []Condition
	for _, one := range []func() (Condition, error){
		seen(ctx, "pod", c.Core.CoreV1().Pods(namespace)), seen(ctx, "sandbox", c.Kiln.Sandboxes(namespace)),
		seen(ctx, "claim", c.Kiln.Claims(namespace)), seen(ctx, "pool", c.Kiln.Pools(namespace)),
	} {
		condition, err := one()
		if err != nil {
			return nil, err
		}
		all = append(all, condition)
	}
	return All(all...), nil
}

// source is the part of a typed client that a watch needs.
type source[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// feed lists a kind, and returns what follows it from there.
func feed[L runtime.Object](ctx context.Context, r *Recorder, c source[L]) func() (func(), error) {
	return func() (func(), error) {
		list, err := c.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		l, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			change, err := newChange(o.(metav1.Object), false)
			if err == nil {
				r.see(change)
			}
			return err
		})
		return func() { follow(ctx, r, c, l.GetResourceVersion()) }, err
	}
}

// follow watches from a version on, and from where it was when the server ends
// the watch.
func follow[L runtime.Object](ctx context.Context, r *Recorder, c source[L], version string) {
	for {
		w, err := c.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err == nil {
			version, err = drain(r, w, version)
		}
		switch {
		case ctx.Err() != nil:
			return // whatever it says, it says because the recorder is done
		case err != nil:
			r.fail(fmt.Errorf("watch: %w", err))
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
			return version, apierrors.FromObject(e.Object)
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

// seen returns the condition that a kind was seen at least as it is now.
func seen[L runtime.Object](ctx context.Context, kind string, c source[L]) func() (Condition, error) {
	return func() (Condition, error) {
		list, err := c.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		there := map[types.UID]Change{}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			change, err := newChange(o.(metav1.Object), false)
			there[change.Object.GetUID()] = change
			return err
		})
		return func(s *Snapshot) error { return s.covers(kind, there) }, err
	}
}

// covers reports what a snapshot has not caught up with.
func (s *Snapshot) covers(kind string, there map[types.UID]Change) error {
	for _, o := range s.All(kind) {
		if _, ok := there[o.GetUID()]; !ok {
			return fmt.Errorf("the recorder has not seen the end of %s %s", kind, o.GetName())
		}
	}
	for uid, c := range there {
		if s.versions[uid] < c.Version && !s.Deleted[uid] {
			return fmt.Errorf("the recorder has not seen %s", c)
		}
	}
	return nil
}
