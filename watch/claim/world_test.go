package claim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/shelf"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

var (
	noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	key  = view.Key{Namespace: "a", Name: "c"}
)

// world is a loop of claims that only looks: its stores are filled by hand, and it
// has neither writer nor shelves.
type world struct {
	*Claims
	g     Gomega
	woken []string
}

func filled(t testing.TB) *store.Stores {
	t.Helper()
	conn, err := client.Connect(&rest.Config{Host: "http://localhost"}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s, err := store.New(conn, "")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func aWorld(t testing.TB, all ...metav1.Object) *world {
	t.Helper()
	w := &world{g: NewWithT(t)}
	wake := func(kind string) func(view.Key) {
		return func(k view.Key) { w.woken = append(w.woken, kind+" "+k.String()) }
	}
	w.Claims = &Claims{
		Stores: filled(t), Wake: wake("claim"), WakeSandbox: wake("sandbox"), WakePool: wake("pool"),
		Leads: func() bool { return true }, Quiet: func() bool { return true }, Metrics: NewMetrics(nil),
		MaxWait: 10 * time.Second, Now: func() time.Time { return noon.Time },
	}
	w.AllowLabels([]string{"sandbox.users.io"})
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
	case *ext.SandboxWarmPool:
		w.g.Expect(w.Stores.Pools.Put(o)).To(Succeed())
	case *ext.SandboxTemplate:
		w.g.Expect(w.Stores.Templates.Put(o)).To(Succeed())
	default:
		w.g.Expect(o).To(BeNil(), "no store is for that")
	}
}

// passed has the watches of pools and templates show what there is, and come to a
// version.
func (w *world) passed(version string) {
	other := metav1.ObjectMeta{Namespace: "z", Name: "other", ResourceVersion: version}
	informers := w.Stores.Informers()
	for _, p := range w.Stores.Pools.All() {
		w.g.Expect(informers[3].GetIndexer().Add(p)).To(Succeed())
	}
	for _, t := range w.Stores.Templates.All() {
		w.g.Expect(informers[4].GetIndexer().Add(t)).To(Succeed())
	}
	w.g.Expect(informers[3].GetIndexer().Add(&ext.SandboxWarmPool{ObjectMeta: other})).To(Succeed())
	w.g.Expect(informers[4].GetIndexer().Add(&ext.SandboxTemplate{ObjectMeta: other})).To(Succeed())
}

// writing gives a world what it writes with, and shelves.
func (w *world) writing() *recorder {
	r := &recorder{}
	w.Writer = r
	w.Events = loop.NewEmitter(r.event, nil, slog.New(slog.DiscardHandler))
	w.Shelves, w.Refusals = shelf.New(w.Stores, memory.NewRetirements(), w.Wake, w.WakePool), memory.NewRefusals(w.Now)
	w.Shelves.Refusals = w.Refusals
	w.WakeSandboxAfter = func(k view.Key, t time.Duration) { w.woken = append(w.woken, fmt.Sprintf("sandbox %s after %s", k, t)) }
	return r
}

// told are the Events by now.
func (w *world) told(r *recorder) []string {
	w.Events.Stop()
	w.Events.Run(context.Background())
	return r.events
}

func made(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: "5", Generation: 3}
}

func aClaim(changes ...func(*ext.SandboxClaim)) *ext.SandboxClaim {
	c := &ext.SandboxClaim{ObjectMeta: made("c", "c-uid")}
	c.Spec.WarmPoolRef.Name = "p"
	for _, change := range changes {
		change(c)
	}
	return c
}

func named(state ext.State) func(*ext.SandboxClaim) {
	return func(c *ext.SandboxClaim) {
		c.Status.State, c.Status.SandboxStatus = state, ext.SandboxStatus{Name: "s", UID: "u"}
	}
}

func aPool(changes ...func(*ext.SandboxWarmPool)) *ext.SandboxWarmPool {
	p := &ext.SandboxWarmPool{ObjectMeta: made("p", "p-uid")}
	p.Spec.TemplateRef.Name = "t"
	for _, change := range changes {
		change(p)
	}
	return p
}

func strict(p *ext.SandboxWarmPool) { p.Spec.UpdateStrategy.Type = ext.Recreate }

func aTemplate(changes ...func(*ext.SandboxTemplate)) *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: made("t", "t-uid")}
	t.Spec.PodTemplate.Spec.Raw = []byte("{}")
	for _, change := range changes {
		change(t)
	}
	return t
}

func revision() string {
	b, err := apply.BlueprintOf(aTemplate())
	if err != nil {
		panic(err) // the template is ours
	}
	return b.Revision
}

// aSandbox is a free member of the pool, before a change.
func aSandbox(changes ...func(*agents.Sandbox)) *agents.Sandbox {
	b := &agents.Sandbox{ObjectMeta: made("s", "u")}
	b.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm, apply.LabelRevision: revision()}
	b.Annotations = map[string]string{apply.AnnotationTemplate: "t", apply.AnnotationPodName: "s", apply.AnnotationPolicy: apply.PolicyName("t")}
	b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aPool(), ext.SchemeGroupVersion.WithKind(ext.KindPool))}
	for _, change := range changes {
		change(b)
	}
	return b
}

func owned(b *agents.Sandbox) {
	b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aClaim(), ext.SchemeGroupVersion.WithKind(ext.KindClaim))}
	b.Labels[apply.LabelClaimUID] = "c-uid"
}

func cold(b *agents.Sandbox) {
	b.Labels[apply.LabelLaunch] = apply.LaunchCold
	b.Spec.PodTemplate.ObjectMeta.Labels = map[string]string{apply.LabelClaimUID: "c-uid"}
}
func outdated(b *agents.Sandbox) { b.Labels[apply.LabelRevision] = "older" }
func ready(b *agents.Sandbox) {
	c := view.Condition(view.Ready, metav1.ConditionTrue, "DependenciesReady", "Pod is Ready")
	c.LastTransitionTime = noon
	b.Status.Conditions, b.Status.PodIPs = []metav1.Condition{c}, []string{"10.0.0.1"}
}

// aPod is the sandbox's pod, free.
func aPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: made("s", "pod-uid")}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aSandbox(), agents.SchemeGroupVersion.WithKind(agents.KindSandbox))}
	p.Labels = map[string]string{apply.LabelState: string(states.Ready)}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	return p
}

// A recorder is a writer that remembers what it was to write, in order. What it
// returns is a later version of what it was given.
type recorder struct {
	wrote   []string
	status  ext.SandboxClaimStatus
	decided states.Decision
	mu      sync.Mutex
	events  []string
	err     error
}

func (r *recorder) event(_ context.Context, about apply.Regarding, body apply.EventBody) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s %s: %s", about.GetName(), body.Type, body.Reason, body.Action, body.Message))
	return nil
}

func (r *recorder) next(c *ext.SandboxClaim, what string, status ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	r.wrote, r.status = append(r.wrote, what), status
	got := c.DeepCopy()
	got.Status, got.ResourceVersion = status, c.ResourceVersion+"0"
	return got, r.err
}

func (r *recorder) Adopt(_ context.Context, of apply.Claimed) (*agents.Sandbox, error) {
	b := of.Sandbox
	r.wrote = append(r.wrote, "adopt "+b.Name)
	got := b.DeepCopy()
	owned(got)
	got.ResourceVersion = b.ResourceVersion + "0"
	return got, r.err
}

func (r *recorder) CreateOwn(_ context.Context, c *ext.SandboxClaim, b apply.Blueprint) (*agents.Sandbox, error) {
	r.wrote = append(r.wrote, "create "+c.Name)
	return aSandbox(owned, cold, func(b *agents.Sandbox) {
		b.Name, b.UID = c.Name, "own"
		b.Annotations[apply.AnnotationPodName] = c.Name
	}), r.err
}

func (r *recorder) MoveClaim(_ context.Context, c *ext.SandboxClaim, d states.Decision, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	r.decided = d
	edge, _ := states.Claim.Edge(states.Claim.Parse(string(c.Status.State)), d.About.Event)
	want.State = ext.State(edge.To)
	return r.next(c, string(d.About.Event), want)
}

func (r *recorder) RefuseSandbox(_ context.Context, c *ext.SandboxClaim, b *agents.Sandbox) (*ext.SandboxClaim, error) {
	status := *c.Status.DeepCopy()
	status.RefusedSandboxes = append(status.RefusedSandboxes, b.UID)
	return r.next(c, "refuse "+b.Name, status)
}

func (r *recorder) ReportClaim(_ context.Context, c *ext.SandboxClaim, want ext.SandboxClaimStatus) (*ext.SandboxClaim, error) {
	return r.next(c, "report", want)
}

func (r *recorder) AnnotateClaim(_ context.Context, c *ext.SandboxClaim, of apply.ClaimAnnotations) (*ext.SandboxClaim, error) {
	r.note(fmt.Sprintf("annotate %s %s", of.Sandbox, of.Startup.ControllerObservedTime.Format(time.TimeOnly)))
	got := c.DeepCopy()
	got.ResourceVersion = c.ResourceVersion + "0"
	noted(got)
	got.Annotations[apply.AnnotationSandboxName] = of.Sandbox
	if at := of.Startup.FirstReadyTime; at != nil {
		got.Annotations[apply.AnnotationFirstObserved] = of.Startup.ControllerObservedTime.UTC().Format(time.RFC3339Nano)
		got.Annotations[apply.AnnotationFirstReady] = at.UTC().Format(time.RFC3339Nano)
	}
	return got, r.err
}

func (r *recorder) MovePod(_ context.Context, m apply.PodMove) (*corev1.Pod, error) {
	r.note(fmt.Sprintf("%s %s", m.Decision.About.Event, m.Pod.Name))
	edge, _ := states.Pod.Edge(states.Pod.Parse(m.Pod.Labels[apply.LabelState]), m.Decision.About.Event)
	got := m.Pod.DeepCopy()
	got.Labels[apply.LabelState], got.ResourceVersion = string(edge.To), m.Pod.ResourceVersion+"0"
	return got, r.err
}

// note remembers a write, also of two at a time.
func (r *recorder) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrote = append(r.wrote, what)
}

// noted has the annotations of a claim that was served before anybody noted when.
func noted(c *ext.SandboxClaim) {
	c.Annotations = map[string]string{
		apply.AnnotationSandboxName: "s", apply.AnnotationFirstObserved: "2026-11-20T11:59:00Z", apply.AnnotationFirstReady: "unknown",
	}
}

func (r *recorder) SyncClaimed(_ context.Context, of apply.Claimed) (*agents.Sandbox, error) {
	r.wrote = append(r.wrote, "sync "+of.Sandbox.Name)
	got := aSandbox(owned, ready)
	got.ResourceVersion = of.Sandbox.ResourceVersion + "0"
	return got, r.err
}

func (r *recorder) RemakeOwn(_ context.Context, of apply.Claimed, b apply.Blueprint) (*agents.Sandbox, error) {
	r.wrote = append(r.wrote, "remake "+of.Sandbox.Name)
	got := of.Sandbox.DeepCopy()
	got.Labels[apply.LabelRevision], got.ResourceVersion = b.Revision, of.Sandbox.ResourceVersion+"0"
	return got, r.err
}

func (r *recorder) DeleteOf(_ context.Context, of apply.Claimed) error {
	r.wrote = append(r.wrote, "delete "+of.Sandbox.Name)
	return r.err
}

func (r *recorder) DeleteClaim(_ context.Context, c *ext.SandboxClaim, policy ext.ShutdownPolicy) error {
	r.wrote = append(r.wrote, fmt.Sprintf("delete claim %s %s", c.Name, policy))
	return r.err
}
