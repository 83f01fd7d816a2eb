// Command incumbent stands for the agent-sandbox controller on the node of package e2e, where that
// one's image is not to be had. It holds the lease as that controller does, because the same library
// holds it, and it serves claims in the simplest of its ways: each gets a sandbox of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// manages is the field manager of all that it writes, and lease what it holds.
const (
	manages = "agent-sandbox-controller"
	lease   = "a3317529.agent-sandbox.x-k8s.io"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "incumbent:", err)
		os.Exit(1)
	}
}

func run() error {
	elects := flag.Bool("leader-elect", true, "work only while holding the lease")
	releases := flag.Bool("release", true, "release the lease at the end; a process that is killed does not")
	flag.Bool("extensions", false, "accepted")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		LeaderElection: *elects, LeaderElectionID: lease, LeaderElectionReleaseOnCancel: *releases,
		Metrics: server.Options{BindAddress: ":8080"},
	})
	if err != nil {
		return err
	}
	c, err := client.Connect(cfg, nil)
	if err != nil {
		return err
	}
	if err := m.Add(manager.RunnableFunc(controller{c}.work)); err != nil {
		return err
	}
	return m.Start(ctrl.SetupSignalHandler())
}

// A controller serves claims.
type controller struct{ *client.Connection }

// work looks at every claim again and again: what is not done yet is done the next time.
func (c controller) work(ctx context.Context) error {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		claims, err := c.Kiln.Claims("").List(ctx, metav1.ListOptions{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "incumbent:", err)
			continue
		}
		for _, claim := range claims.Items {
			if claim.Status.SandboxStatus.Name != "" || claim.DeletionTimestamp != nil {
				continue
			}
			if err := c.serve(ctx, &claim); err != nil {
				fmt.Fprintf(os.Stderr, "incumbent: claim %s: %v\n", claim.Name, err)
			}
		}
	}
}

// serve takes a claim one step further: a sandbox, its pod, and the word that it is Ready.
func (c controller) serve(ctx context.Context, claim *ext.SandboxClaim) error {
	box, err := c.sandboxOf(ctx, claim)
	if err != nil {
		return err
	}
	pod, err := c.Core.CoreV1().Pods(claim.Namespace).Get(ctx, box.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		pod, err = c.launch(ctx, box)
	}
	if err != nil || !isReady(pod) {
		return err
	}
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "DependenciesReady", Message: "Pod is Ready",
		ObservedGeneration: box.Generation, LastTransitionTime: metav1.Now(),
	}
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	by := metav1.PatchOptions{FieldManager: manages}
	told, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []metav1.Condition{ready}, "selector": apply.LabelNameHash + "=" + apply.Hash(box.Name), "podIPs": ips, "nodeName": pod.Spec.NodeName,
	}})
	if err != nil {
		return err
	}
	if _, err := c.Kiln.Sandboxes(claim.Namespace).Patch(ctx, box.Name, types.MergePatchType, told, by, "status"); err != nil {
		return err
	}
	ready.ObservedGeneration = claim.Generation
	told, err = json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []metav1.Condition{ready}, "sandbox": map[string]any{"name": box.Name, "podIPs": ips},
	}})
	if err != nil {
		return err
	}
	_, err = c.Kiln.Claims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, told, by, "status")
	return err
}

// sandboxOf is the sandbox that a claim owns, which is made if there is none.
func (c controller) sandboxOf(ctx context.Context, claim *ext.SandboxClaim) (*agents.Sandbox, error) {
	boxes := c.Kiln.Sandboxes(claim.Namespace)
	all, err := boxes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, box := range all.Items {
		if metav1.IsControlledBy(&box, claim) {
			return &box, nil
		}
	}
	pool, err := c.Kiln.Pools(claim.Namespace).Get(ctx, claim.Spec.WarmPoolRef.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	t, err := c.Kiln.Templates(claim.Namespace).Get(ctx, pool.Spec.TemplateRef.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{apply.LabelClaimUID: string(claim.UID), apply.LabelTemplate: apply.Hash(t.Name)}
	box := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, Annotations: map[string]string{apply.AnnotationTemplate: t.Name},
			Labels:          map[string]string{apply.LabelClaimUID: string(claim.UID), apply.LabelTemplate: apply.Hash(t.Name), apply.LabelLaunch: apply.LaunchCold},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(claim, ext.SchemeGroupVersion.WithKind(ext.KindClaim))},
		},
		Spec: agents.SandboxSpec{PodTemplate: agents.PodTemplate{ObjectMeta: agents.PodMetadata{Labels: labels}, Spec: t.Spec.PodTemplate.Spec}},
	}
	return boxes.Create(ctx, box, metav1.CreateOptions{FieldManager: manages})
}

// launch makes the pod of a sandbox.
func (c controller) launch(ctx context.Context, box *agents.Sandbox) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: box.Name, Labels: map[string]string{apply.LabelNameHash: apply.Hash(box.Name)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(box, agents.SchemeGroupVersion.WithKind(agents.KindSandbox))},
	}}
	for key, value := range box.Spec.PodTemplate.ObjectMeta.Labels {
		pod.Labels[key] = value
	}
	if err := json.Unmarshal(box.Spec.PodTemplate.Spec.Raw, &pod.Spec); err != nil {
		return nil, err
	}
	pod.Spec.AutomountServiceAccountToken = new(bool)
	return c.Core.CoreV1().Pods(box.Namespace).Create(ctx, pod, metav1.CreateOptions{FieldManager: "sandbox-controller"})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
