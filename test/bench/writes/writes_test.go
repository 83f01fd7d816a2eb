// The benchmark of single writes: what each write of a warm claim's cycle costs the API
// server, in CPU. Nothing but the API server and etcd runs beside it: no controller, no
// scheduler and no kubelet answers. Figures of two kinds of write compare within one run.
package writes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/test/cluster"
)

const ns = metav1.NamespaceDefault

// atOnce is how many requests are under way: enough to keep a few cores busy.
const atOnce = 8

// A member is a sandbox on its way through a cycle, as the last write left it.
type member struct {
	name    string
	sandbox *agents.Sandbox
	pod     *corev1.Pod
	claim   *ext.SandboxClaim
}

// A writer makes the writes of a pool.
type writer struct {
	plane *cluster.Cluster
	*apply.Applier
	*client.Connection
	pool      *ext.SandboxWarmPool
	blueprint apply.Blueprint
}

// BenchmarkWrites takes sandboxes through the writes of a cycle, all of them through one
// write before the next. It reports the CPU of the API server for each write.
func BenchmarkWrites(b *testing.B) {
	plane, err := cluster.Start(b.Context(), cluster.Options{CRDs: true})
	must(b, err)
	b.Cleanup(func() { must(b, plane.Stop()) })
	for _, spec := range []struct{ name, path string }{
		{"pod=0.1KB", ""}, {"pod=4.3KB", "cmd/kiln/bench/template.yaml"},
	} {
		b.Run(spec.name, func(b *testing.B) {
			w := newWriter(b, plane, fmt.Sprintf("pool-%d-%d", len(spec.path), b.N), spec.path)
			members := make([]*member, b.N)
			for i := range members {
				members[i] = &member{name: fmt.Sprintf("%s-%d", w.pool.Name, i)}
			}
			for _, one := range w.cycle() {
				before := w.used(b)
				inParallel(b, members, one.write)
				if one.name != "" {
					b.ReportMetric(1000*(w.used(b)-before)/float64(b.N), one.name+"-ms")
				}
			}
		})
	}
}

// newWriter makes a pool and its template: the pod spec of a file, or the least one.
func newWriter(b *testing.B, plane *cluster.Cluster, name, path string) writer {
	b.Helper()
	template := &ext.SandboxTemplate{}
	template.Spec.PodTemplate = agents.PodTemplate{Spec: runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"image"}]}`)}}
	if path != "" {
		root, err := cluster.Root()
		must(b, err)
		text, err := os.ReadFile(filepath.Join(root, path))
		must(b, err)
		must(b, yaml.UnmarshalStrict(text, template))
	}
	template.Name = name
	connection, err := client.Connect(plane.Config, nil)
	must(b, err)
	applier, err := apply.New(plane.Config, apply.Options{Component: "writes", SafeToEvict: true})
	must(b, err)
	w := writer{plane: plane, Applier: applier, Connection: connection}
	template, err = w.Kiln.Templates(ns).Create(b.Context(), template, metav1.CreateOptions{})
	must(b, err)
	pool := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.TemplateRef.Name = name
	w.pool, err = w.Kiln.Pools(ns).Create(b.Context(), pool, metav1.CreateOptions{})
	must(b, err)
	w.blueprint, err = apply.BlueprintOf(template)
	must(b, err)
	return w
}

// A step is one write of a cycle. What has no name is others' work, and not reported.
type step struct {
	name  string
	write func(context.Context, *member) error
}

// cycle are the writes of a cycle in their order.
func (w writer) cycle() []step {
	return []step{
		{"sandbox-create", func(ctx context.Context, m *member) (err error) {
			m.sandbox, err = w.CreateMember(ctx, w.pool, m.name, w.blueprint)
			return err
		}},
		{"pod-create", func(ctx context.Context, m *member) (err error) {
			m.pod, err = w.CreatePod(ctx, m.sandbox)
			return err
		}},
		{"", w.run},
		{"sandbox-status", func(ctx context.Context, m *member) (err error) {
			m.sandbox, err = w.ReportSandbox(ctx, m.sandbox, agents.SandboxStatus{
				Conditions: ready("DependenciesReady", "Pod is Ready"), NodeName: m.pod.Spec.NodeName,
				Selector: apply.LabelNameHash + "=" + apply.Hash(m.name), PodIPs: []string{"10.0.0.1"},
			})
			return err
		}},
		{"pod-ready", w.move(states.EventWarmed)},
		{"claim-create", func(ctx context.Context, m *member) (err error) {
			claim := &ext.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
			claim.Spec.WarmPoolRef.Name = w.pool.Name
			m.claim, err = w.Kiln.Claims(ns).Create(ctx, claim, metav1.CreateOptions{})
			return err
		}},
		{"sandbox-adopt", func(ctx context.Context, m *member) (err error) {
			m.sandbox, err = w.Adopt(ctx, apply.Claimed{Sandbox: m.sandbox, Claim: m.claim, Template: w.pool.Name, Says: w.blueprint})
			return err
		}},
		{"claim-status", func(ctx context.Context, m *member) (err error) {
			m.claim, err = w.MoveClaim(ctx, m.claim, move(states.EventBound), ext.SandboxClaimStatus{
				Conditions:    ready("DependenciesReady", "Pod is Ready"),
				SandboxStatus: ext.SandboxStatus{Name: m.sandbox.Name, UID: m.sandbox.UID, PodIPs: m.sandbox.Status.PodIPs},
			})
			return err
		}},
		{"pod-bound", w.move(states.EventHanded)},
		{"claim-annotate", func(ctx context.Context, m *member) (err error) {
			m.claim, err = w.AnnotateClaim(ctx, m.claim, apply.ClaimAnnotations{Sandbox: m.sandbox.Name})
			return err
		}},
		{"event", func(ctx context.Context, m *member) error {
			return w.Event(ctx, m.claim, apply.EventBody{
				Type: corev1.EventTypeNormal, Reason: "SandboxAdopted", Action: "Adopt", Message: "adopted " + m.sandbox.Name,
			})
		}},
	}
}

// run does what the scheduler and a kubelet write.
func (w writer) run(ctx context.Context, m *member) error {
	pods := w.Core.CoreV1().Pods(ns)
	to := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
	if err := pods.Bind(ctx, to, metav1.CreateOptions{}); err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod, err := pods.Get(ctx, m.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
		for _, is := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: is, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			})
		}
		m.pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{FieldManager: "kubelet"})
		return err
	})
}

// move is a move of the pod.
func (w writer) move(event states.Event) func(context.Context, *member) error {
	return func(ctx context.Context, m *member) (err error) {
		m.pod, err = w.MovePod(ctx, apply.PodMove{Pod: m.pod, Sandbox: m.sandbox, Claim: m.claim, Decision: move(event)})
		return err
	}
}

func move(event states.Event) states.Decision {
	return states.Decision{Act: states.Move, About: states.About{Event: event}}
}

func ready(reason, message string) []metav1.Condition {
	return []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
	}}
}

// inParallel makes one write of every member.
func inParallel(b *testing.B, members []*member, write func(context.Context, *member) error) {
	b.Helper()
	next := make(chan *member)
	var writing sync.WaitGroup
	for range atOnce {
		writing.Go(func() {
			for m := range next {
				if err := write(b.Context(), m); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, m := range members {
		next <- m
	}
	close(next)
	writing.Wait()
	if b.Failed() {
		b.FailNow() // what follows needs what failed
	}
}

// used is the CPU that the API server has used, in seconds.
func (w writer) used(b *testing.B) float64 {
	b.Helper()
	process, err := procfs.NewProc(w.plane.PID("kube-apiserver"))
	must(b, err)
	is, err := process.Stat()
	must(b, err)
	return is.CPUTime()
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
