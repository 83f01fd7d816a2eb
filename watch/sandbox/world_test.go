package sandbox

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

var (
	noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	key  = view.Key{Namespace: "a", Name: "s"}
)

// world is a loop of sandboxes that only looks: its stores are filled by hand, and it
// has neither writer nor shelves.
type world struct {
	*Sandboxes
	g     Gomega
	woken []string
	// differs: the labels of every pod are wrong.
	differs bool
}

func aWorld(t *testing.T, all ...metav1.Object) *world {
	t.Helper()
	conn, err := client.Connect(&rest.Config{Host: "http://localhost"}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s, err := store.New(conn, "")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := &world{g: NewWithT(t)}
	wake := func(kind string) func(view.Key) {
		return func(k view.Key) { w.woken = append(w.woken, kind+" "+k.String()) }
	}
	w.Sandboxes = &Sandboxes{
		Drifted: func(apply.PodMove, states.State) bool { return w.differs },
		Stores:  s, Churn: memory.NewChurn(), InFlight: memory.NewPodsInFlight(), Retirements: memory.NewRetirements(), News: memory.NewNews(), Problems: memory.NewPolicyProblems(), Deletions: memory.NewPolicyDeletions(),
		Wake: wake("sandbox"), WakeClaim: wake("claim"), WakePool: wake("pool"), WakeTemplate: wake("template"), ClusterDomain: "cluster.local", Now: func() time.Time { return noon.Time },
	}
	for _, o := range all {
		w.put(o)
	}
	return w
}

func (w *world) put(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		w.g.Expect(w.Stores.Pods.Put(o)).To(Succeed())
	case *agents.Sandbox:
		w.g.Expect(w.Stores.Sandboxes.Put(o)).To(Succeed())
	case *ext.SandboxClaim:
		w.g.Expect(w.Stores.Claims.Put(o)).To(Succeed())
	case *ext.SandboxTemplate:
		w.g.Expect(w.Stores.Templates.Put(o)).To(Succeed())
	case *ext.SandboxWarmPool:
		w.g.Expect(w.Stores.Pools.Put(o)).To(Succeed())
	case *networkingv1.NetworkPolicy:
		w.g.Expect(w.Stores.Policies.Put(o)).To(Succeed())
	case *corev1.Service:
		w.g.Expect(w.Stores.Services.Put(o)).To(Succeed())
	case *corev1.PersistentVolumeClaim:
		w.g.Expect(w.Stores.Volumes.Put(o)).To(Succeed())
	default:
		w.g.Expect(o).To(BeNil(), "no store is for that")
	}
}

func made(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: "5", Generation: 3,
		CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
	}
}

// aSandbox is one that a user made, before a row changes it.
func aSandbox(changes ...func(*agents.Sandbox)) *agents.Sandbox {
	b := &agents.Sandbox{ObjectMeta: made("s", "u")}
	b.Spec.PodTemplate.Spec.Raw = []byte("{}")
	for _, change := range changes {
		change(b)
	}
	return b
}

func adoptable(p *corev1.Pod) {
	p.OwnerReferences, p.Labels[apply.LabelAdoptable] = nil, "true"
}

func suspend(b *agents.Sandbox) { b.Spec.OperatingMode = agents.Suspended }
func young(b *agents.Sandbox)   { b.CreationTimestamp = noon }
func ofPool(b *agents.Sandbox) {
	b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aPool(), ext.SchemeGroupVersion.WithKind(ext.KindPool))}
	b.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm}
}

func ofClaim(b *agents.Sandbox) {
	b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aClaim(), ext.SchemeGroupVersion.WithKind(ext.KindClaim))}
	b.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm, apply.LabelClaimUID: "c-uid"}
}

func aPool(changes ...func(*ext.SandboxWarmPool)) *ext.SandboxWarmPool {
	p := &ext.SandboxWarmPool{ObjectMeta: made("p", "p-uid")}
	for _, change := range changes {
		change(p)
	}
	return p
}

func aClaim(changes ...func(*ext.SandboxClaim)) *ext.SandboxClaim {
	c := &ext.SandboxClaim{ObjectMeta: made("c", "c-uid")}
	for _, change := range changes {
		change(c)
	}
	return c
}

// running is the sandbox's pod, Ready, before a row changes it.
func running(changes ...func(*corev1.Pod)) *corev1.Pod {
	owner := metav1.NewControllerRef(&agents.Sandbox{ObjectMeta: made("s", "u")}, agents.SchemeGroupVersion.WithKind(agents.KindSandbox))
	p := &corev1.Pod{ObjectMeta: made("s", "pod-uid")}
	p.OwnerReferences = []metav1.OwnerReference{*owner}
	p.Labels = map[string]string{apply.LabelNameHash: apply.Hash("s")}
	p.Spec.NodeName = "node"
	p.Status = corev1.PodStatus{
		Phase:  corev1.PodRunning,
		PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }
func noRoom(p *corev1.Pod)  { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func noIPs(p *corev1.Pod)   { p.Status.PodIPs = nil }
func deleted(p *corev1.Pod) { p.DeletionTimestamp = &noon }
func ofOther(p *corev1.Pod) { p.OwnerReferences[0].UID = "another" }
func inB(p *corev1.Pod)     { p.Namespace = "b" }
func second(p *corev1.Pod)  { p.Name, p.UID = "s-2", "pod-uid-2" }
func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}

func carries(state states.State) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[apply.LabelState] = string(state) }
}

// A recorder is a writer that remembers what it was to write. What it returns is a
// later version of what it was given.
type recorder struct {
	Writer
	moved   []apply.PodMove
	synced  []states.State
	status  agents.SandboxStatus
	retired states.Reason
	deleted []string
	pods    int
	err     error
}

func later(version string) string { return version + "0" }

func (r *recorder) ReportSandbox(_ context.Context, b *agents.Sandbox, want agents.SandboxStatus) (*agents.Sandbox, error) {
	got := b.DeepCopy()
	r.status, got.Status, got.ResourceVersion = want, want, later(b.ResourceVersion)
	return got, r.err
}

func (r *recorder) MovePod(_ context.Context, m apply.PodMove) (*corev1.Pod, error) {
	got := m.Pod.DeepCopy()
	r.moved, got.ResourceVersion = append(r.moved, m), later(m.Pod.ResourceVersion)
	edge, _ := states.Pod.Edge(view.StateOf(m.Pod), m.Decision.About.Event)
	got.Labels[apply.LabelState] = string(edge.To)
	return got, r.err
}

func (r *recorder) Recover(_ context.Context, b *agents.Sandbox, pool *ext.SandboxWarmPool) (*agents.Sandbox, error) {
	got := b.DeepCopy()
	got.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pool, ext.SchemeGroupVersion.WithKind(ext.KindPool))}
	got.ResourceVersion = later(b.ResourceVersion)
	return got, r.err
}

func (r *recorder) SyncPod(_ context.Context, m apply.PodMove, is states.State) (*corev1.Pod, error) {
	got := m.Pod.DeepCopy()
	r.synced, got.ResourceVersion = append(r.synced, is), later(m.Pod.ResourceVersion)
	return got, r.err
}

func (r *recorder) Retire(_ context.Context, b *agents.Sandbox, why states.Reason) (*agents.Sandbox, error) {
	got := b.DeepCopy()
	r.retired, got.ResourceVersion = why, later(b.ResourceVersion)
	got.Annotations = map[string]string{apply.AnnotationRetired: "yes"}
	return got, r.err
}

func (r *recorder) CreatePod(context.Context, *agents.Sandbox) (*corev1.Pod, error) {
	r.pods++
	return running(), r.err
}

func (r *recorder) DeleteSandbox(context.Context, *agents.Sandbox) error { return r.err }

func (r *recorder) DeletePod(_ context.Context, _ *agents.Sandbox, p *corev1.Pod) (*corev1.Pod, error) {
	got := p.DeepCopy()
	r.deleted, got.ResourceVersion, got.DeletionTimestamp = append(r.deleted, "pod "+p.Name), later(p.ResourceVersion), &noon
	return got, r.err
}

func (r *recorder) DeleteService(_ context.Context, is *corev1.Service) error {
	r.deleted = append(r.deleted, "service "+is.Name)
	return r.err
}

func (r *recorder) CreateService(_ context.Context, b *agents.Sandbox) (*corev1.Service, error) {
	return itsService(), r.err
}

func (r *recorder) CreateVolume(_ context.Context, b *agents.Sandbox, v agents.PersistentVolumeClaimTemplate) (*corev1.PersistentVolumeClaim, error) {
	return itsVolume(), r.err
}

func serves(b *agents.Sandbox)    { yes := true; b.Spec.Service = &yes }
func noService(b *agents.Sandbox) { no := false; b.Spec.Service = &no }
func stores(b *agents.Sandbox) {
	b.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{ObjectMeta: agents.VolumeMetadata{Name: "data"}}}
	b.Spec.VolumeClaimTemplates[0].Spec.Raw = []byte("{}")
}

func ends(at time.Time) func(*agents.Sandbox) {
	return func(b *agents.Sandbox) { b.Spec.ShutdownTime = &metav1.Time{Time: at} }
}

func hasExpired(b *agents.Sandbox) {
	b.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionFalse, view.ReasonExpired, "")}
}

// itsService is the sandbox's Service, before a row changes it.
func itsService(changes ...func(*corev1.Service)) *corev1.Service {
	is := &corev1.Service{ObjectMeta: running().ObjectMeta}
	is.UID = "service-uid"
	is.Spec.ClusterIP, is.Spec.Selector = corev1.ClusterIPNone, map[string]string{apply.LabelNameHash: apply.Hash("s")}
	for _, change := range changes {
		change(is)
	}
	return is
}

// itsVolume is the sandbox's claim for storage, before a row changes it.
func itsVolume(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	is := &corev1.PersistentVolumeClaim{ObjectMeta: running().ObjectMeta}
	is.Name, is.UID = "data-s", "volume-uid"
	for _, change := range changes {
		change(is)
	}
	return is
}
