package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/world"
)

// A tenant is a namespace with sandboxes, and what is seen of it.
type tenant struct {
	*world.Recorder
	stand     *stand
	namespace string
}

// admit makes a namespace in which no pod may do more than it must.
func (s *stand) admit(ctx context.Context, namespace, level string) error {
	_, err := s.clients.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level},
	}}, metav1.CreateOptions{})
	return err
}

// watch begins to watch a namespace, which goes on until ctx ends.
func (s *stand) watch(ctx context.Context, namespace string) (*tenant, error) {
	t := &tenant{Recorder: world.NewRecorder(), stand: s, namespace: namespace}
	s.tenants[namespace] = t
	_, err := t.Watch(ctx, s.clients, namespace)
	return t, err
}

// create makes objects of a manifest.
func (t *tenant) create(ctx context.Context, manifest string) error {
	return t.stand.create(ctx, t.namespace, manifest)
}

// claim makes a claim.
func (t *tenant) claim(ctx context.Context, name, pool string) error {
	_, err := t.stand.clients.Kiln.Claims(t.namespace).Create(ctx, world.Claim(name, pool), metav1.CreateOptions{})
	return err
}

// kubectl runs kubectl in the namespace.
func (t *tenant) kubectl(ctx context.Context, args ...string) (string, error) {
	return t.stand.kubectl(ctx, append([]string{"-n", t.namespace}, args...)...)
}

// exec runs the program of a sandbox's image in its pod.
func (t *tenant) exec(ctx context.Context, pod string, args ...string) (string, error) {
	said, err := t.kubectl(ctx, append([]string{"exec", pod, "--", "/sandbox"}, args...)...)
	return strings.TrimSpace(said), err
}

// who is the process that runs in a pod: its version, and what no other process says.
func (t *tenant) who(ctx context.Context, pod string) (string, error) { return t.exec(ctx, pod, "who") }

// pod is a pod as it was seen last.
func (t *tenant) pod(name string) (pod *corev1.Pod) {
	t.Look(func(s *world.Snapshot) { pod = s.Pods[name] })
	return pod
}

// asks asks an address from the pod of claim "first", which is kept, until the answer is right. The kernel does not tell
// the node itself that a Service without endpoints refuses a connection.
func (t *tenant) asks(ctx context.Context, address string, right func(answer string) bool) error {
	var answer string
	var last error
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		answer, last = t.exec(ctx, t.SandboxOf("first"), "ask", address)
		return last == nil && right(answer), nil
	})
	if err != nil {
		return fmt.Errorf("%s answers %q, %w: %w", address, answer, last, context.Cause(ctx))
	}
	return nil
}

// version says of which version the process in a pod is.
func version(who string) string {
	before, _, _ := strings.Cut(strings.TrimPrefix(who, "version "), ",")
	return before
}

// kept is a container that is to outlive what follows, and the claim that has it.
type kept struct {
	tenant     *tenant
	claim, pod string
	uid        types.UID
	process    string
}

// keep has every later proof see that what a claim has is still there.
func (t *tenant) keep(ctx context.Context, claim string) error {
	k := kept{tenant: t, claim: claim, pod: t.SandboxOf(claim)}
	pod := t.pod(k.pod)
	if pod == nil {
		return fmt.Errorf("claim %s has no pod %q", claim, k.pod)
	}
	k.uid = pod.UID
	var err error
	k.process, err = t.who(ctx, k.pod)
	t.stand.kept = append(t.stand.kept, k)
	return err
}

// unhurt says what is lost of that which is to be kept.
func (s *stand) unhurt(ctx context.Context) error {
	var lost []error
	for _, k := range s.kept {
		lost = append(lost, k.lost(ctx))
	}
	return errors.Join(lost...)
}

func (k kept) lost(ctx context.Context) error {
	if err := k.tenant.Holds(world.HasState(k.claim, states.Bound)); err != nil {
		return fmt.Errorf("it is lost: %w", err)
	}
	// A pod may be not ready for a moment, as after a restart of the kubelet.
	if err := k.tenant.Wait(ctx, world.Told(k.claim)); err != nil {
		return err
	}
	if now := k.tenant.SandboxOf(k.claim); now != k.pod {
		return fmt.Errorf("claim %s had sandbox %s and has %q", k.claim, k.pod, now)
	}
	if pod := k.tenant.pod(k.pod); pod == nil || pod.UID != k.uid {
		return fmt.Errorf("pod %s of claim %s is no more, or another one", k.pod, k.claim)
	}
	who, err := k.tenant.who(ctx, k.pod)
	if err != nil {
		return err
	}
	if who != k.process {
		return fmt.Errorf("in pod %s of claim %s ran %q and runs %q", k.pod, k.claim, k.process, who)
	}
	return nil
}
