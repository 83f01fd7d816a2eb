package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kiln-sandbox/kiln/crds/client"
)

// rivalAccount is the service account of the agent-sandbox controller, by its manifests and
// by its chart.
const rivalAccount = "agent-sandbox-controller"

var errRival = errors.New("an agent-sandbox controller works without this lease")

// Rivals are the pods of the agent-sandbox controller in the namespace of the lease. One that does
// not use the lease keeps this process from working. Pods in other namespaces do not count: whoever
// may make pods there could stop this process by a pod that looks like one.
type rivals struct {
	namespace string
	// elects: this process uses the lease.
	elects bool
	// self is the pod of this process.
	self     string
	informer cache.SharedIndexInformer
	pods     cache.Store
	log      *slog.Logger

	// known is closed when the pods are known, or never will be.
	known chan struct{}
	once  sync.Once

	mu sync.Mutex
	// changed is closed at the next change of a pod.
	changed chan struct{}
	// said are the reasons that were logged, by pod.
	said map[string]string
}

// newRivals connects to the pods. Nothing is asked yet.
func newRivals(s *settings, cfg *rest.Config, log *slog.Logger) (*rivals, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("look for other controllers: %w", err)
	}
	c, err := client.Connect(cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("look for other controllers: %w", err)
	}
	r := &rivals{
		namespace: leaseNamespace(s), elects: s.leaderElect, self: host, log: log,
		known: make(chan struct{}), changed: make(chan struct{}), said: map[string]string{},
	}
	r.informer = cache.NewSharedIndexInformerWithOptions(podsOf(rivalAccount, c.Core.CoreV1().Pods(r.namespace)), &corev1.Pod{}, cache.SharedIndexInformerOptions{})
	r.pods = r.informer.GetStore()
	_, err = r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { r.look() },
		UpdateFunc: func(_, _ any) { r.look() },
		DeleteFunc: func(any) { r.look() },
	})
	return r, errors.Join(err, r.informer.SetWatchErrorHandlerWithContext(r.fails))
}

// podsOf lists and watches the pods that run under an account.
func podsOf(account string, pods core.PodInterface) cache.ListerWatcher {
	of := fields.OneTermEqualSelector("spec.serviceAccountName", account).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = of
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = of
			return pods.Watch(ctx, o)
		},
	}
}

// watch watches the pods until ctx ends.
func (r *rivals) watch(ctx context.Context) {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), r.informer.HasSynced) {
			r.once.Do(func() { close(r.known) })
		}
	}()
	r.informer.RunWithContext(ctx)
}

// fails is told why the pods cannot be watched. Who may not watch them notices nobody, and says
// it once; everything else is tried again.
func (r *rivals) fails(_ context.Context, _ *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	r.once.Do(func() {
		r.log.Warn("an agent-sandbox controller that does not use this lease would not be noticed", "namespace", r.namespace, "err", err)
		close(r.known)
	})
}

// look logs each rival once, and wakes whoever waits.
func (r *rivals) look() {
	found := r.found()
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod, why := range found {
		if r.said[pod] != why {
			r.log.Warn("not working beside an agent-sandbox controller that does not use this lease", "pod", pod, "namespace", r.namespace, "because", why)
		}
	}
	for pod := range r.said {
		if found[pod] == "" {
			r.log.Info("that agent-sandbox controller is gone", "pod", pod, "namespace", r.namespace)
		}
	}
	r.said = found
	close(r.changed)
	r.changed = make(chan struct{})
}

// found are the reasons why pods are rivals, by the name of the pod.
func (r *rivals) found() map[string]string {
	found := map[string]string{}
	for _, o := range r.pods.List() {
		if pod, ok := o.(*corev1.Pod); ok && pod.Name != r.self {
			if why := apart(pod, r.elects); why != "" {
				found[pod.Name] = why
			}
		}
	}
	return found
}

// none returns when there is no rival.
func (r *rivals) none(ctx context.Context) error {
	select {
	case <-r.known:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if len(r.found()) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// apart says why a pod of the agent-sandbox controller may work while this process does, or
// nothing if the lease keeps the two from that. A value that cannot be read may be any.
func apart(pod *corev1.Pod, elects bool) string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	if !elects {
		return "this replica has --leader-elect=false"
	}
	for _, c := range pod.Spec.Containers {
		on, namespace := "true", pod.Namespace
		args := append(append([]string{}, c.Command...), c.Args...)
		for i, arg := range args {
			name, value, given := strings.Cut(arg, "=")
			switch name {
			case "--leader-elect", "-leader-elect":
				on = "true"
				if given {
					on = value
				}
			case "--leader-election-namespace", "-leader-election-namespace":
				if !given && i+1 < len(args) {
					value = args[i+1]
				}
				if namespace = value; namespace == "" {
					namespace = pod.Namespace
				}
			}
		}
		if is, err := strconv.ParseBool(on); err != nil || !is {
			return "it has --leader-elect=" + on
		}
		if namespace != pod.Namespace {
			return "it has --leader-election-namespace=" + namespace
		}
	}
	return ""
}

// A sharedLease is the lease that the agent-sandbox controller uses as well. While there is a rival, it
// is the rival's. When the pod of its holder is gone, it is nobody's: that controller has written that it
// may be silent for 15 seconds, and a pod is removed when its containers have ended, not before.
type sharedLease struct {
	resourcelock.Interface
	rivals *rivals

	mu sync.Mutex
	// alive is a holder whose pod was there.
	alive string
}

// Get reads the lease.
func (l *sharedLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if all := l.rivals.found(); len(all) > 0 {
		holder := fmt.Sprint(all)
		return &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: math.MaxInt32}, []byte(holder), nil
	}
	r, raw, err := l.Interface.Get(ctx)
	if err != nil || r.HolderIdentity == "" {
		return r, raw, err
	}
	host, _, _ := strings.Cut(r.HolderIdentity, "_")
	_, there, _ := l.rivals.pods.GetByKey(l.rivals.namespace + "/" + host)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case there && l.alive != r.HolderIdentity:
		l.alive = r.HolderIdentity
		l.rivals.log.Info("standing by while an agent-sandbox controller leads", "holder", l.alive)
	case there:
	case l.alive == r.HolderIdentity:
		free := *r
		free.HolderIdentity = ""
		return &free, raw, nil
	}
	return r, raw, nil
}

// Create makes the lease.
func (l *sharedLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Create)
}

// Update takes, renews or releases the lease.
func (l *sharedLease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Update)
}

func (l *sharedLease) write(ctx context.Context, r resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if r.HolderIdentity == l.Identity() && len(l.rivals.found()) > 0 {
		return errRival
	}
	return do(ctx, r)
}
