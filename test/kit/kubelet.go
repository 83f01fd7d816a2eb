package kit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/kiln-sandbox/kiln/test/world"
)

// A Kubelet is scheduler and kubelet of a world. Pods become Ready at once,
// unless a test holds them.
type Kubelet struct {
	w     *World
	queue workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	holding bool            // pods stay pending until they are released by name
	lingers bool            // deleted pods do not finish terminating
	free    map[string]bool // those released
	unready map[string]bool
	ended   map[string]corev1.PodPhase
	broken  map[string]bool // images that never become Ready
	chatter int             // how many writes a pod takes before it is Ready
	network int64
	ips     int
	// withholds: pods get no address.
	withholds bool
}

// networks counts the worlds of this binary: no two of their pods have one address.
var networks atomic.Int64

func newKubelet(w *World) *Kubelet {
	k := &Kubelet{
		w: w, queue: newQueue[string](), network: networks.Add(1),
		free: map[string]bool{}, unready: map[string]bool{}, ended: map[string]corev1.PodPhase{}, broken: map[string]bool{},
	}
	w.Listen(func(c world.Change) {
		if p, ok := c.Object.(*corev1.Pod); ok {
			k.queue.Add(p.Name)
		}
	})
	return k
}

func newQueue[T comparable]() workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedItemBasedRateLimiter[T]())
}

// Hold keeps new pods from becoming Ready until they are released.
func (k *Kubelet) Hold() { k.set(func() { k.holding = true }) }

// Release lets held pods become Ready; with no name, all of them and all to come.
func (k *Kubelet) Release(pods ...string) {
	k.set(func() {
		k.holding = k.holding && len(pods) > 0
		for _, p := range pods {
			k.free[p] = true
		}
	})
}

// Linger keeps deleted pods from going: those that have a node run out a grace
// period that does not end.
func (k *Kubelet) Linger() { k.set(func() { k.lingers = true }) }

// LetGo lets deleted pods go, those that lingered and all to come.
func (k *Kubelet) LetGo() { k.set(func() { k.lingers = false }) }

// Chatter has a pod's status written a number of times before it is Ready, as the
// steps of a real launch do.
func (k *Kubelet) Chatter(writes int) { k.set(func() { k.chatter = writes }) }

// Withhold has pods become Ready without an address.
func (k *Kubelet) Withhold() { k.set(func() { k.withholds = true }) }

// SetReady has a pod lose its readiness, or win it back.
func (k *Kubelet) SetReady(pod string, ready bool) { k.set(func() { k.unready[pod] = !ready }) }

// Fail ends a pod's containers for good.
func (k *Kubelet) Fail(pod string) { k.set(func() { k.ended[pod] = corev1.PodFailed }) }

// Succeed ends a pod's containers as they were meant to end.
func (k *Kubelet) Succeed(pod string) { k.set(func() { k.ended[pod] = corev1.PodSucceeded }) }

// Break keeps the pods of an image from becoming Ready.
func (k *Kubelet) Break(image string) { k.set(func() { k.broken[image] = true }) }

// Repair lets the pods of all images become Ready, and those that lost it.
func (k *Kubelet) Repair() { k.set(func() { clear(k.broken); clear(k.unready) }) }

// set changes what is wanted and looks at every pod again.
func (k *Kubelet) set(change func()) {
	k.mu.Lock()
	change()
	k.mu.Unlock()
	k.w.Recorder.Look(func(s *world.Snapshot) {
		for name := range s.Pods {
			k.queue.Add(name)
		}
	})
}

func (k *Kubelet) run(ctx context.Context) { work(ctx, k.queue, k.step) }

// work steps keys until ctx ends; one that fails comes again.
func work[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], step func(context.Context, T) error) {
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				key, closed := queue.Get()
				if closed {
					return
				}
				if err := step(ctx, key); err != nil && !errors.IsNotFound(err) {
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
}

// step brings a pod one request further.
func (k *Kubelet) step(ctx context.Context, name string) error {
	var pod *corev1.Pod
	k.w.Recorder.Look(func(s *world.Snapshot) { pod = s.Pods[name] })
	switch {
	case pod == nil:
		return nil
	case pod.DeletionTimestamp != nil && k.keeps():
		return nil
	case pod.DeletionTimestamp != nil:
		return k.w.Pods().Delete(ctx, name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case pod.Spec.NodeName == "":
		return k.w.Pods().Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
		}, metav1.CreateOptions{})
	}
	phase, ready := k.wants(pod)
	if ready && !world.IsReady(pod) && k.talks(pod) {
		return k.progress(ctx, pod)
	}
	if phase == pod.Status.Phase && (ready == world.IsReady(pod)) {
		return nil
	}
	return k.report(ctx, pod, phase, ready)
}

func (k *Kubelet) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lingers
}

// wants is what a pod's status should be.
func (k *Kubelet) wants(pod *corev1.Pod) (corev1.PodPhase, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch phase := k.ended[pod.Name]; {
	case phase != "":
		return phase, false
	case k.holding && !k.free[pod.Name], k.broken[pod.Spec.Containers[0].Image]:
		return corev1.PodPending, false
	}
	return corev1.PodRunning, !k.unready[pod.Name]
}

// talks reports whether a pod's launch has another step.
func (k *Kubelet) talks(pod *corev1.Pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(pod.Status.Message) < k.chatter
}

// progress writes one step of a pod's launch.
func (k *Kubelet) progress(ctx context.Context, pod *corev1.Pod) error {
	status := corev1ac.PodStatus().WithPhase(corev1.PodPending).WithMessage(pod.Status.Message + ".")
	return k.write(ctx, pod, status)
}

// write writes a status, and returns when the watch shows that: a kubelet knows what it
// has said, and does not say it again.
func (k *Kubelet) write(ctx context.Context, pod *corev1.Pod, status *corev1ac.PodStatusApplyConfiguration) error {
	got, err := k.w.Pods().ApplyStatus(ctx, corev1ac.Pod(pod.Name, pod.Namespace).WithUID(types.UID(pod.UID)).WithStatus(status),
		metav1.ApplyOptions{FieldManager: "kubelet", Force: true})
	if err != nil {
		return err
	}
	return k.w.Wait(ctx, world.Seen(got))
}

func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, ready bool) error {
	status := corev1ac.PodStatus().WithPhase(phase)
	value := corev1.ConditionFalse
	if ready {
		value = corev1.ConditionTrue
	}
	if phase != corev1.PodPending {
		if ip := k.address(pod); ip != "" {
			status.WithPodIP(ip).WithPodIPs(corev1ac.PodIP().WithIP(ip))
		}
		status.WithConditions(corev1ac.PodCondition().WithType(corev1.PodReady).WithStatus(value).WithLastTransitionTime(metav1.Now()))
	}
	return k.write(ctx, pod, status)
}

// address is the address a pod has, or the next that is free, or none.
func (k *Kubelet) address(pod *corev1.Pod) string {
	if pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.withholds {
		return ""
	}
	k.ips++
	return fmt.Sprintf("10.%d.%d.%d", k.network%250, k.ips/250%256, k.ips%250+1)
}
