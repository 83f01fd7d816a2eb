package world

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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
		feed(ctx, r, "pod", c.Core.CoreV1().Pods(namespace)), feed(ctx, r, "sandbox", c.Kiln.Sandboxes(namespace)),
		feed(ctx, r, "claim", c.Kiln.Claims(namespace)), feed(ctx, r, "pool", c.Kiln.Pools(namespace)),
		feed(ctx, r, "template", c.Kiln.Templates(namespace)), feed(ctx, r, "policy", c.Core.NetworkingV1().NetworkPolicies(namespace)),
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
	kinds := []func() (Condition, error){
		seen(ctx, "pod", c.Core.CoreV1().Pods(namespace)), seen(ctx, "sandbox", c.Kiln.Sandboxes(namespace)),
		seen(ctx, "claim", c.Kiln.Claims(namespace)), seen(ctx, "pool", c.Kiln.Pools(namespace)),
	}
	all, errs := make([]Condition, len(kinds)), make([]error, len(kinds))
	var reads sync.WaitGroup
	for i, one := range kinds {
		reads.Go(func() { all[i], errs[i] = one() })
	}
	reads.Wait()
	return All(all...), errors.Join(errs...)
}

// source is the part of a typed client that a watch needs.
type source[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// feed lists a kind, and returns what follows it from there.
func feed[L runtime.Object](ctx context.Context, r *Recorder, kind string, c source[L]) func() (func(), error) {
	return func() (func(), error) {
		version, err := relist(ctx, r, kind, c, false)
		return func() { follow(ctx, r, kind, c, version) }, err
	}
}

// relist takes in how a kind stands, and says at which version. After a gap it takes in
// what differs from what is known: what is no more was deleted.
func relist[L runtime.Object](ctx context.Context, r *Recorder, kind string, c source[L], gap bool) (version string, err error) {
	list, err := c.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	there := map[types.UID]bool{}
	var changes []Change
	err = meta.EachListItem(list, func(o runtime.Object) error {
		change, err := newChange(o.(metav1.Object), false)
		change.Gap = gap
		there[change.Object.GetUID()] = true
		changes = append(changes, change)
		return err
	})
	if err != nil {
		return "", err
	}
	at, err := strconv.ParseUint(l.GetResourceVersion(), 10, 64)
	if err != nil {
		return "", err
	}
	for _, o := range r.missing(kind, there) {
		r.see(Change{Object: o, Deleted: true, Version: at, At: time.Now(), Gap: gap})
	}
	for _, change := range changes {
		if !gap || r.newer(change) {
			r.see(change)
		}
	}
	return l.GetResourceVersion(), nil
}

// follow watches from a version on, and from where it was when the server ends
// the watch. A recorder that endures lists anew when the server does not know that any
// more, or is away.
func follow[L runtime.Object](ctx context.Context, r *Recorder, kind string, c source[L], version string) {
	for {
		w, err := c.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err == nil {
			version, err = drain(r, w, version)
		}
		if err != nil && ctx.Err() == nil && r.endures {
			version, err = relistUntil(ctx, r, kind, c)
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

// again is how often a server that is away is asked.
const again = 200 * time.Millisecond

// relistUntil lists a kind until the server answers.
func relistUntil[L runtime.Object](ctx context.Context, r *Recorder, kind string, c source[L]) (version string, err error) {
	err = wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) {
		var err error
		version, err = relist(ctx, r, kind, c, true)
		return err == nil, nil
	})
	return version, err
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
		if err != nil {
			return nil, err
		}
		l, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		version, err := strconv.ParseUint(l.GetResourceVersion(), 10, 64)
		return func(s *Snapshot) error { return s.covers(kind, there, version) }, err
	}
}

// covers reports what a snapshot has not caught up with of what was there at a version.
func (s *Snapshot) covers(kind string, there map[types.UID]Change, version uint64) error {
	for _, o := range s.All(kind) {
		if _, ok := there[o.GetUID()]; !ok && s.versions[o.GetUID()] <= version {
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
