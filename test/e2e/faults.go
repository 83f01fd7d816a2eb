package main

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kiln-sandbox/kiln/test/cluster"
	"github.com/kiln-sandbox/kiln/test/stage"
	"github.com/kiln-sandbox/kiln/test/world"
)

// faults shows what becomes of claims and sandboxes when what serves them ends.
func (s *stand) faults() []proof {
	t := s.tenants[claiming]
	return []proof{
		{"Kiln is killed in the middle of a burst, and every claim gets a sandbox of its own", t.burst},
		{"while the kubelet is away a warm claim is served; when it is back the pool fills", t.withoutKubelet},
	}
}

// burst makes claims, kills the replica that works, and makes as many again.
func (t *tenant) burst(ctx context.Context) error {
	const half = 5
	var claims []string
	more := func() error {
		for range half {
			name := fmt.Sprintf("burst-%d", len(claims)+1)
			claims = append(claims, name)
			if err := t.claim(ctx, name, "warm"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := more(); err != nil {
		return err
	}
	killed, err := t.stand.killLeader(ctx)
	if err != nil {
		return err
	}
	if err := more(); err != nil {
		return err
	}
	// Bound: no sandbox was given to two.
	if err := t.Wait(ctx, world.All(world.Bound(claims...), world.Full("warm", 2))); err != nil {
		return err
	}
	if err := t.give(ctx, claims...); err != nil {
		return err
	}
	return t.stand.restarted(ctx, killed)
}

// killLeader kills the process of the replica that holds the lease, and returns its pod as it was.
func (s *stand) killLeader(ctx context.Context) (*corev1.Pod, error) {
	holder, err := s.holder(ctx, func(holder string) bool { return holder != "" })
	if err != nil {
		return nil, err
	}
	host, _, _ := strings.Cut(holder, "_")
	pod, err := s.clients.Core.CoreV1().Pods(home).Get(ctx, host, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("who holds the lease: %w", err)
	}
	_, err = s.node.ctr(ctx, "tasks", "kill", "--signal=SIGKILL", container(pod))
	return pod, err
}

// holder waits until the one who holds the lease is right, and returns it. Nobody is the empty string.
func (s *stand) holder(ctx context.Context, right func(string) bool) (holder string, err error) {
	err = s.cluster.Await(ctx, coordinationv1.SchemeGroupVersion.WithResource("leases"), home, stage.Lease, cluster.Condition{
		What: "held by the right one",
		Met: func(o *unstructured.Unstructured) bool {
			if o == nil {
				return false
			}
			holder, _, _ = unstructured.NestedString(o.Object, "spec", "holderIdentity")
			return right(holder)
		},
	})
	return holder, err
}

// restarted waits until another container runs in a pod than ran before. How often it was
// restarted in its life says nothing about that.
func (s *stand) restarted(ctx context.Context, before *corev1.Pod) error {
	return s.cluster.Await(ctx, corev1.SchemeGroupVersion.WithResource("pods"), before.Namespace, before.Name, cluster.Condition{
		What: "restarted",
		Met: func(o *unstructured.Unstructured) bool {
			var now corev1.Pod
			if o == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &now) != nil || container(&now) == container(before) {
				return false
			}
			return now.Status.ContainerStatuses[0].State.Running != nil
		},
	})
}

// container is the id of a pod's one container, as containerd has it.
func container(pod *corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return ""
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// withoutKubelet kills the kubelet, has a claim served, and starts it again.
func (t *tenant) withoutKubelet(ctx context.Context) error {
	if err := t.Wait(ctx, world.Full("warm", 2)); err != nil {
		return err
	}
	t.stand.node.kubelet.Kill()
	if err := t.claim(ctx, "meanwhile", "warm"); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.Bound("meanwhile")); err != nil {
		return err
	}
	if err := t.stand.node.start(ctx); err != nil {
		return err
	}
	if err := t.Wait(ctx, world.All(world.Full("warm", 2), world.Counted("warm", 2))); err != nil {
		return err
	}
	return t.keep(ctx, "meanwhile")
}
