package template

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/memory"
	"github.com/kiln-sandbox/kiln/watch/store"
	"github.com/kiln-sandbox/kiln/watch/view"
)

var key = view.Key{Namespace: "a", Name: "t"}

func aTemplate(changes ...func(*ext.SandboxTemplate)) *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "t", UID: "u", ResourceVersion: "5", Generation: 1}}
	t.Spec.PodTemplate.Spec.Raw = []byte("{}")
	for _, change := range changes {
		change(t)
	}
	return t
}

func labelled(t *ext.SandboxTemplate) {
	t.Labels = map[string]string{apply.LabelTemplate: apply.Hash(t.Name)}
	t.ResourceVersion = "6"
}

// A world is a loop of templates over stores that are filled by hand, with a writer that
// remembers what it was to write and answers as the API server would.
type world struct {
	*Templates
	g      Gomega
	wrote  []string
	woken  []string
	events []string
	err    error                // of the next write
	truth  *ext.SandboxTemplate // what the API server has
	before func()               // what happens before a deletion reaches the API server
}

func aWorld(t *testing.T, all ...metav1.Object) *world {
	t.Helper()
	w := &world{g: NewWithT(t), before: func() {}}
	server := httptest.NewServer(http.HandlerFunc(w.answer))
	t.Cleanup(server.Close)
	conn, err := client.Connect(&rest.Config{Host: server.URL}, nil)
	w.g.Expect(err).NotTo(HaveOccurred())
	s, err := store.New(conn, "")
	w.g.Expect(err).NotTo(HaveOccurred())
	wake := func(kind string) func(view.Key) {
		return func(k view.Key) { w.woken = append(w.woken, kind+" "+k.String()) }
	}
	w.Templates = &Templates{
		Stores: s, Writer: w, Problems: memory.NewPolicyProblems(), Deletions: memory.NewPolicyDeletions(),
		Wake: wake("template"), WakeSandbox: wake("sandbox"), WakePoolStatus: wake("status"),
		PoolChanged: func(p *ext.SandboxWarmPool) { wake("pool")(view.KeyOf(p)) },
	}
	w.Events = loop.NewEmitter(func(_ context.Context, _ apply.Regarding, e apply.EventBody) error {
		w.events = append(w.events, e.Type+" "+e.Reason+": "+e.Message)
		return nil
	}, nil, slog.New(slog.DiscardHandler))
	for _, o := range all {
		w.put(o)
	}
	return w
}

// answer is the API server's answer to who asks for the template.
func (w *world) answer(to http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Path, "/sandboxtemplates/") {
		http.Error(to, "nobody is to ask for that", http.StatusInternalServerError)
		return
	}
	to.Header().Set("Content-Type", "application/json")
	if w.truth == nil {
		to.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(to).Encode(apierrors.NewNotFound(schema.GroupResource{Resource: "sandboxtemplates"}, "t").Status())
		return
	}
	_ = json.NewEncoder(to).Encode(w.truth)
}

func (w *world) put(o metav1.Object) {
	switch o := o.(type) {
	case *ext.SandboxTemplate:
		w.truth = o
		w.g.Expect(w.Stores.Templates.Put(o)).To(Succeed())
	case *networkingv1.NetworkPolicy:
		w.g.Expect(w.Stores.Policies.Put(o)).To(Succeed())
	case *agents.Sandbox:
		w.g.Expect(w.Stores.Sandboxes.Put(o)).To(Succeed())
	case *corev1.Pod:
		w.g.Expect(w.Stores.Pods.Put(o)).To(Succeed())
	case *ext.SandboxWarmPool:
		w.g.Expect(w.Stores.Pools.Put(o)).To(Succeed())
	}
}

// told are the Events by now.
func (w *world) told() []string {
	w.Events.Stop()
	w.Events.Run(context.Background())
	return w.events
}

func (w *world) LabelTemplate(_ context.Context, t *ext.SandboxTemplate) (*ext.SandboxTemplate, error) {
	w.wrote = append(w.wrote, "label")
	got := t.DeepCopy()
	labelled(got)
	return got, w.err
}

func (w *world) CreatePolicy(context.Context, apply.Policy) (*networkingv1.NetworkPolicy, error) {
	w.wrote = append(w.wrote, "create")
	return aPolicy(), w.err
}

func (w *world) SyncPolicy(context.Context, apply.Policy, *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	w.wrote = append(w.wrote, "sync")
	return aPolicy(func(p *networkingv1.NetworkPolicy) { p.ResourceVersion = "9" }), w.err
}

func (w *world) DeletePolicy(context.Context, *networkingv1.NetworkPolicy) error {
	w.wrote = append(w.wrote, "delete")
	w.before()
	return w.err
}

// aPolicy is the policy of the template t as the server has it, before a row changes it.
func aPolicy(changes ...func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	hash := apply.Hash("t")
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "t-network-policy", UID: "n", ResourceVersion: "8",
			Labels: map[string]string{apply.LabelTemplate: hash}, Annotations: map[string]string{apply.AnnotationTemplate: "t", apply.AnnotationTemplateUID: "u"},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{apply.LabelTemplate: hash}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// closed lets nothing pass, as aPolicy does.
func closed(t *ext.SandboxTemplate)         { t.Spec.NetworkPolicy = &ext.NetworkPolicySpec{} }
func unmanaged(t *ext.SandboxTemplate)      { t.Spec.NetworkPolicyManagement = ext.NetworkPolicyUnmanaged }
func foreign(p *networkingv1.NetworkPolicy) { p.Labels = nil }
func earlier(p *networkingv1.NetworkPolicy) { p.Annotations[apply.AnnotationTemplateUID] = "s" }
func drifted(p *networkingv1.NetworkPolicy) { p.Spec.PolicyTypes = nil }

// made is a sandbox made from the template t.
func made(name string) *agents.Sandbox {
	return &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: "7", Labels: map[string]string{apply.LabelTemplate: apply.Hash("t")},
	}}
}

// podOf is its pod.
func podOf(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: made(name).ObjectMeta} }

func TestWhatIsGatheredOfATemplate(t *testing.T) {
	now := metav1.Now()
	told := func(f states.TemplateFacts) states.TemplateFacts { f.Told = true; return f }
	elsewhere := made("s")
	elsewhere.Namespace = "b"
	for _, row := range []struct {
		name string
		has  []metav1.Object
		want states.TemplateFacts
	}{
		{"none", nil, told(states.TemplateFacts{Gone: true})},
		{"one of another namespace", []metav1.Object{aTemplate(func(t *ext.SandboxTemplate) { t.Namespace = "b" })}, told(states.TemplateFacts{Gone: true})},
		{"a new one", []metav1.Object{aTemplate()}, told(states.TemplateFacts{Managed: true})},
		{"one with its label", []metav1.Object{aTemplate(labelled)}, told(states.TemplateFacts{Managed: true, Labelled: true})},
		{"one with the label of another", []metav1.Object{aTemplate(labelled, func(t *ext.SandboxTemplate) {
			t.Labels[apply.LabelTemplate] = apply.Hash("other")
		})}, told(states.TemplateFacts{Managed: true})},
		{"one that is being deleted", []metav1.Object{aTemplate(func(t *ext.SandboxTemplate) { t.DeletionTimestamp = &now })},
			told(states.TemplateFacts{Managed: true, Terminating: true})},
		{"one that wants no policy", []metav1.Object{aTemplate(unmanaged)}, told(states.TemplateFacts{})},
		{"one with its policy", []metav1.Object{aTemplate(closed), aPolicy()}, told(states.TemplateFacts{Managed: true, Policy: states.PolicyCurrent})},
		{"one with other rules", []metav1.Object{aTemplate(), aPolicy()}, told(states.TemplateFacts{Managed: true, Policy: states.PolicyDrifted})},
		{"one whose policy was changed", []metav1.Object{aTemplate(closed), aPolicy(drifted)}, told(states.TemplateFacts{Managed: true, Policy: states.PolicyDrifted})},
		{"one whose policy is of an earlier template of the name", []metav1.Object{aTemplate(closed), aPolicy(earlier)},
			told(states.TemplateFacts{Managed: true, Policy: states.PolicyEarlier})},
		{"one whose policy's name is taken", []metav1.Object{aTemplate(), aPolicy(foreign)}, states.TemplateFacts{Managed: true, Policy: states.PolicyForeign}},
		{"one whose policy is going", []metav1.Object{aTemplate(), aPolicy(func(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = &now })},
			told(states.TemplateFacts{Managed: true, Policy: states.PolicyTerminating})},
		{"one whose rules cannot be read", []metav1.Object{aTemplate(badRule)}, states.TemplateFacts{Managed: true, Invalid: true}},
		{"a policy in another namespace", []metav1.Object{aTemplate(), aPolicy(func(p *networkingv1.NetworkPolicy) { p.Namespace = "b" })}, told(states.TemplateFacts{Managed: true})},
		{"one that is gone, and its policy", []metav1.Object{aPolicy(drifted)}, told(states.TemplateFacts{Gone: true, Policy: states.PolicyCurrent})},
		{"and a sandbox", []metav1.Object{aPolicy(), made("s")}, told(states.TemplateFacts{Gone: true, Policy: states.PolicyCurrent, Used: true})},
		{"and a pod", []metav1.Object{aPolicy(), podOf("s")}, told(states.TemplateFacts{Gone: true, Policy: states.PolicyCurrent, Used: true})},
		{"and a sandbox in another namespace", []metav1.Object{aPolicy(), elsewhere}, told(states.TemplateFacts{Gone: true, Policy: states.PolicyCurrent})},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(aWorld(t, row.has...).Observe(key, learned{}).Facts).To(Equal(row.want))
		})
	}
}

func badRule(t *ext.SandboxTemplate) {
	t.Spec.NetworkPolicy = &ext.NetworkPolicySpec{Ingress: []runtime.RawExtension{{Raw: []byte(`{"from":7}`)}}}
}

func TestATemplateGetsItsPolicyThenItsLabelAndIsLeftInPeace(t *testing.T) {
	w := aWorld(t, aTemplate(closed), made("waits"), made("runs"), podOf("runs"))
	for range 2 {
		w.g.Expect(loop.Step(t.Context(), w.Templates, key)).To(Equal(loop.Result{}))
	}
	w.g.Expect(w.wrote).To(Equal([]string{"create", "label"}))
	w.g.Expect(w.woken).To(Equal([]string{"sandbox a/waits"}), "only who waits for the policy looks again")
	w.g.Expect(w.told()).To(BeEmpty())
}

func TestAPolicyThatDriftsIsBroughtInLineOnceAStep(t *testing.T) {
	w := aWorld(t, aTemplate(closed, labelled), aPolicy(drifted))
	loop.Step(t.Context(), w.Templates, key)
	w.g.Expect(w.wrote).To(Equal([]string{"sync"}))
	again := aWorld(t, aTemplate(closed, labelled), aPolicy(earlier))
	loop.Step(t.Context(), again.Templates, key)
	again.g.Expect(again.wrote).To(Equal([]string{"sync"}), "it is taken over before anything starts under it")
	other := aWorld(t, aTemplate(labelled), aPolicy()) // what comes back is not as the template wants it
	loop.Step(t.Context(), other.Templates, key)
	other.g.Expect(other.wrote).To(Equal([]string{"sync"}))
}

func TestAProblemOfAPolicyIsToldToWhomItConcernsOnce(t *testing.T) {
	refused := errors.Join(apply.ErrRefused, errors.New("not in this house"))
	for _, row := range []struct {
		name   string
		has    []metav1.Object
		err    error
		wrote  []string
		says   string
		result loop.Result
	}{
		{"somebody else's", []metav1.Object{aTemplate(labelled), aPolicy(foreign)}, nil, nil,
			`Warning NetworkPolicyRefused: refusing to update NetworkPolicy "t-network-policy": it was not made for SandboxTemplate "t"; delete it or give it another name, ` +
				`or set spec.networkPolicyManagement of the template to Unmanaged; no pod is made from the template until then`, loop.Result{}},
		{"rules that cannot be read", []metav1.Object{aTemplate(labelled, badRule)}, nil, nil,
			`Warning NetworkPolicyRefused: no NetworkPolicy can be made from SandboxTemplate "t": spec.networkPolicy.ingress[0].from: ` +
				`json: cannot unmarshal number into Go struct field NetworkPolicyIngressRule.from of type []v1.NetworkPolicyPeer; mend that field; no pod is made from the template until then`, loop.Result{}},
		{"refused by the server", []metav1.Object{aTemplate(labelled)}, refused, []string{"create", "create"},
			`Warning NetworkPolicyRefused: the API server refuses NetworkPolicy "t-network-policy": ` + apply.Message(refused) +
				`; mend spec.networkPolicy of SandboxTemplate "t", or what refuses it; no pod is made from the template until then`, loop.Result{Retry: true, Err: refused}},
	} {
		t.Run(row.name, func(t *testing.T) {
			pool := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "p", ResourceVersion: "5"}}
			pool.Spec.TemplateRef.Name = "t"
			w := aWorld(t, append(row.has, made("waits"), pool)...)
			w.err = row.err
			for range 2 {
				w.g.Expect(loop.Step(t.Context(), w.Templates, key)).To(Equal(row.result))
			}
			w.g.Expect(w.wrote).To(Equal(row.wrote))
			w.g.Expect(w.woken).To(Equal([]string{"sandbox a/waits", "status a/p"}))
			w.g.Expect(w.Problems.Of(key).Message).NotTo(BeEmpty())
			w.err, w.woken = nil, nil
			w.put(aTemplate(labelled, closed, func(t *ext.SandboxTemplate) { t.ResourceVersion = "70" }))
			w.put(aPolicy(func(p *networkingv1.NetworkPolicy) { p.ResourceVersion = "71" }))
			w.g.Expect(loop.Step(t.Context(), w.Templates, key)).To(Equal(loop.Result{}))
			w.g.Expect(w.Problems.Of(key)).To(BeZero())
			w.g.Expect(w.woken).To(Equal([]string{"sandbox a/waits", "status a/p"}), "that it is mended concerns them, too")
			w.g.Expect(w.told()).To(Equal([]string{row.says}))
		})
	}
}

func TestAPolicyIsDeletedWhenNobodyNeedsItAndNeverElse(t *testing.T) {
	for _, row := range []struct {
		name   string
		has    []metav1.Object
		wrote  []string
		events []string
	}{
		{"the template is gone, and a sandbox is not", []metav1.Object{aPolicy(), made("s")}, nil, nil},
		{"both are gone, and a pod is not", []metav1.Object{aPolicy(), podOf("s")}, nil, nil},
		{"all are gone", []metav1.Object{aPolicy()}, []string{"delete"}, nil},
		{"all are gone, and it is somebody else's", []metav1.Object{aPolicy(foreign)}, nil, nil},
		{"the template wants none", []metav1.Object{aTemplate(unmanaged, labelled), aPolicy(), made("s")}, []string{"delete"}, []string{
			`Normal NetworkPolicyDeleted: NetworkPolicy "t-network-policy" is deleted: the template is Unmanaged; sandboxes that run are as open as the other policies leave them`}},
		{"the template wants none, and it is somebody else's", []metav1.Object{aTemplate(unmanaged, labelled), aPolicy(foreign)}, nil, nil},
		{"the template wants none, and there is none", []metav1.Object{aTemplate(unmanaged, labelled)}, nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, row.has...)
			for range 2 {
				w.g.Expect(loop.Step(t.Context(), w.Templates, key)).To(Equal(loop.Result{}))
			}
			w.g.Expect(w.wrote).To(Equal(row.wrote))
			w.g.Expect(w.told()).To(Equal(row.events))
		})
	}
}

func TestADeletionIsNotedBeforeItIsDecidedForGood(t *testing.T) {
	for _, row := range []struct {
		name  string
		comes metav1.Object
		want  []string
	}{
		{"nothing comes meanwhile", aPolicy(), []string{"delete"}},
		{"a sandbox comes", made("s"), nil},
		{"a pod comes", podOf("s"), nil},
		{"the template comes again", aTemplate(), nil},
		{"the template comes again, and the watch does not show it", nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, aPolicy())
			w.before = func() { w.g.Expect(w.Deletions.Underway(key)).To(BeTrue()) }
			s := w.Observe(key, learned{})
			d := w.Decide(s)
			w.g.Expect(d.Act).To(Equal(states.Delete))
			if row.comes == nil {
				w.truth = aTemplate()
			} else {
				w.put(row.comes)
			}
			_, err := w.Do(t.Context(), s, d)
			w.g.Expect(err).NotTo(HaveOccurred())
			w.g.Expect(w.wrote).To(Equal(row.want))
			w.g.Expect(w.Deletions.Len()).To(BeZero())
			if _, comes := row.comes.(*agents.Sandbox); comes {
				w.g.Expect(w.woken).To(Equal([]string{"sandbox a/s"}), "it may have seen the note")
			}
		})
	}
}

// A request that has failed on the way may still be carried out.
func TestTheNoteOfADeletionThatFailedStays(t *testing.T) {
	w := aWorld(t, aPolicy())
	w.err = errors.New("connection reset by peer")
	loop.Step(t.Context(), w.Templates, key)
	w.g.Expect(w.Deletions.Underway(key)).To(BeTrue())
	w.err = nil
	loop.Step(t.Context(), w.Templates, key)
	w.g.Expect(w.wrote).To(Equal([]string{"delete", "delete"}))
	w.g.Expect(w.Deletions.Underway(key)).To(BeFalse())
}

func TestThePolicyOfATemplateThatIsGoneLooksAgainAtTheEndOfWhatWasMadeFromIt(t *testing.T) {
	w := aWorld(t, aPolicy())
	b, pod := made("s"), podOf("s")
	w.SandboxChanged(store.Change[*agents.Sandbox]{Is: b, HasIs: true})
	w.PodChanged(store.Change[*corev1.Pod]{Was: pod, Is: pod, HadWas: true, HasIs: true})
	w.g.Expect(w.woken).To(BeEmpty())
	w.SandboxChanged(store.Change[*agents.Sandbox]{Was: b, HadWas: true})
	w.PodChanged(store.Change[*corev1.Pod]{Was: pod, HadWas: true})
	w.g.Expect(w.woken).To(Equal([]string{"template a/t", "template a/t"}))
	w.woken = nil
	w.put(aTemplate())
	w.SandboxChanged(store.Change[*agents.Sandbox]{Was: b, HadWas: true})
	w.SandboxChanged(store.Change[*agents.Sandbox]{Was: &agents.Sandbox{}, HadWas: true})
	w.g.Expect(w.woken).To(BeEmpty(), "a template that stands does not care")
}

func TestAPolicyWakesTheTemplateOfItsNameWhoeverMadeIt(t *testing.T) {
	w := aWorld(t, made("waits"))
	p := aPolicy(foreign)
	w.PolicyChanged(store.Change[*networkingv1.NetworkPolicy]{Was: p, HadWas: true})
	p.Name = "another"
	w.PolicyChanged(store.Change[*networkingv1.NetworkPolicy]{Is: p, HasIs: true})
	w.g.Expect(w.woken).To(Equal([]string{"template a/t", "sandbox a/waits"}))
}

func TestATemplateWakesItsPoolsWhenItsSpecHasChanged(t *testing.T) {
	next := func(t *ext.SandboxTemplate) { t.Generation, t.ResourceVersion = 2, "7" }
	another := func(t *ext.SandboxTemplate) { t.UID, t.ResourceVersion = "v", "8" }
	for _, row := range []struct {
		name    string
		was, is *ext.SandboxTemplate
		pools   []string
	}{
		{"one that is new", nil, aTemplate(), []string{"pool a/p"}},
		{"one whose label was written", aTemplate(), aTemplate(labelled), nil},
		{"one with another spec", aTemplate(), aTemplate(next), []string{"pool a/p"}},
		{"another of the name", aTemplate(), aTemplate(another), []string{"pool a/p"}},
		{"one that is gone", aTemplate(), nil, []string{"pool a/p"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t)
			for _, ns := range []string{"a", "b"} {
				p := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p", UID: "p", ResourceVersion: "5"}}
				p.Spec.TemplateRef.Name = "t"
				w.put(p)
			}
			w.TemplateChanged(store.Change[*ext.SandboxTemplate]{Was: row.was, Is: row.is, HadWas: row.was != nil, HasIs: row.is != nil})
			w.g.Expect(w.woken).To(Equal(append([]string{"template a/t"}, row.pools...)))
		})
	}
}
