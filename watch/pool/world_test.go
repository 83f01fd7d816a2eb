package pool

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
	key  = view.Key{Namespace: "a", Name: "p"}
)

// world is the loops of pools that only look: their stores are filled by hand, and
// they have neither writer nor shelves.
type world struct {
	*Pools
	g     Gomega
	woken []string
	ended int
}

func aWorld(t *testing.T, all ...metav1.Object) *world {
	t.Helper()
	conn, err := client.Connect(&rest.Config{Host: "http://localhost"}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s, err := store.New(conn, "")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := &world{g: NewWithT(t)}
	var mu sync.Mutex // members are made at once
	wake := func(kind string) func(view.Key) {
		return func(k view.Key) {
			mu.Lock()
			defer mu.Unlock()
			w.woken = append(w.woken, kind+" "+k.String())
		}
	}
	retirements := memory.NewRetirements()
	w.Pools = &Pools{
		Stores: s, Churn: memory.NewChurn(), InFlight: memory.NewPodsInFlight(), Retirements: retirements, Roster: NewRoster(s, retirements),
		Memory: NewMemory(), Problems: memory.NewPolicyProblems(), Wake: wake("pool"), WakeSandbox: wake("sandbox"), WakeWaiting: wake("claims of"),
		ForgetSeries: func(view.Key) { w.ended++ }, ForgetFreshness: wake("freshness of"), WakeStatus: func(k view.Key, t time.Duration) { wake(fmt.Sprint("status in ", t, " of"))(k) },
		Batch: 300, Grace: 5 * time.Minute, Now: func() time.Time { return noon.Time },
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
	case *ext.SandboxWarmPool:
		w.g.Expect(w.Stores.Pools.Put(o)).To(Succeed())
	case *ext.SandboxTemplate:
		w.g.Expect(w.Stores.Templates.Put(o)).To(Succeed())
	default:
		w.g.Expect(o).To(BeNil(), "no store is for that")
	}
}

// writing gives a world what it writes with, and shelves.
func (w *world) writing() *recorder {
	r := &recorder{}
	w.Writer = r
	w.Events = loop.NewEmitter(r.event, nil, slog.New(slog.DiscardHandler))
	w.Shelves = shelf.New(w.Stores, w.Retirements, func(view.Key) {}, func(view.Key) {})
	for _, b := range w.Stores.Sandboxes.All() {
		w.Shelves.Sync(view.KeyOf(b))
	}
	return r
}

// told are the Events by now.
func (w *world) told(r *recorder) []string {
	w.Events.Stop()
	w.Events.Run(context.Background())
	return r.events
}

func made(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: "5", Generation: 3,
		CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
	}
}

// aPool is one of two members, before a row changes it.
func aPool(changes ...func(*ext.SandboxWarmPool)) *ext.SandboxWarmPool {
	two := int32(2)
	p := &ext.SandboxWarmPool{ObjectMeta: made("p", "u")}
	p.Spec.Replicas, p.Spec.TemplateRef.Name = &two, "t"
	for _, change := range changes {
		change(p)
	}
	return p
}

func aTemplate(changes ...func(*ext.SandboxTemplate)) *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: made("t", "t-uid")}
	t.Spec.PodTemplate.Spec.Raw = []byte("{}")
	for _, change := range changes {
		change(t)
	}
	return t
}

func broken(t *ext.SandboxTemplate) { t.Spec.PodTemplate.Spec.Raw = []byte("no") }

func revision() string {
	b, err := apply.BlueprintOf(aTemplate())
	if err != nil {
		panic(err) // the template is ours
	}
	return b.Revision
}

// member is a current member, before a row changes it. Its UID is its name.
func member(name string, changes ...func(*agents.Sandbox)) *agents.Sandbox {
	b := &agents.Sandbox{ObjectMeta: made(name, name)}
	b.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm, apply.LabelRevision: revision()}
	b.Annotations = map[string]string{apply.AnnotationTemplate: "t"}
	b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aPool(), ext.SchemeGroupVersion.WithKind(ext.KindPool))}
	for _, change := range changes {
		change(b)
	}
	return b
}

func old(b *agents.Sandbox)     { b.Labels[apply.LabelRevision] = "older" }
func retired(b *agents.Sandbox) { b.Annotations[apply.AnnotationRetired] = "surplus" }
func refused(b *agents.Sandbox) {
	b.Status.Conditions = []metav1.Condition{view.Condition(view.Ready, metav1.ConditionFalse, view.ReasonReconcilerError, view.ErrorSeen+"quota")}
}

// free is a member's pod that may be taken, before a row changes it.
func free(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: made(name, name+"-pod")}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(member(name), agents.SchemeGroupVersion.WithKind(agents.KindSandbox))}
	p.Labels = map[string]string{apply.LabelState: string(states.Ready)}
	p.Annotations = map[string]string{apply.AnnotationPoolUID: "u"}
	p.Spec.NodeName = "node"
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func starting(p *corev1.Pod) {
	p.Labels[apply.LabelState] = string(states.Warming)
	p.Status.Conditions[1].Status = corev1.ConditionFalse
}

func noRoom(p *corev1.Pod) {
	starting(p)
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions[0] = corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0 of 3 nodes",
	}
}

// A recorder is a writer that remembers what it was to write. What it returns is a
// later version of what it was given.
type recorder struct {
	mu      sync.Mutex
	made    []string
	status  ext.SandboxWarmPoolStatus
	decided states.Decision
	events  []string
	err     error
}

func (r *recorder) event(_ context.Context, about apply.Regarding, body apply.EventBody) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s %s: %s", about.GetName(), body.Type, body.Reason, body.Action, body.Message))
	return nil
}

func (r *recorder) CreateMember(_ context.Context, _ *ext.SandboxWarmPool, name string, _ apply.Blueprint) (*agents.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, name)
	return member(name), r.err
}

func (r *recorder) ReportPool(_ context.Context, p *ext.SandboxWarmPool, want ext.SandboxWarmPoolStatus, d states.Decision) (*ext.SandboxWarmPool, error) {
	r.status, r.decided = want, d
	got := p.DeepCopy()
	got.Status, got.ResourceVersion = want, p.ResourceVersion+"0"
	return got, r.err
}
