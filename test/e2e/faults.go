package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	_, err = t.stand.kubectl(ctx, "-n", home, "wait", "pod/"+killed, patience,
		"--for=jsonpath={.status.containerStatuses[0].restartCount}=1")
	return err
}

// killLeader kills the process of the replica that holds the lease, and returns its pod.
func (s *stand) killLeader(ctx context.Context) (name string, err error) {
	leases, err := s.clients.Core.CoordinationV1().Leases(home).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, l := range leases.Items {
		if l.Spec.HolderIdentity == nil {
			continue
		}
		host, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
		pod, err := s.clients.Core.CoreV1().Pods(home).Get(ctx, host, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("who holds lease %s: %w", l.Name, err)
		}
		_, err = s.node.ctr(ctx, "tasks", "kill", "--signal=SIGKILL", container(pod))
		return pod.Name, err
	}
	return "", fmt.Errorf("nobody holds one of the %d leases", len(leases.Items))
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
