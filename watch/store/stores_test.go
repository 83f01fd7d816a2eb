package store

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func TestAPodThatOutlivesItsSandboxSaysWhoseMemberItWas(t *testing.T) {
	for _, row := range []struct {
		name   string
		state  states.State
		labels map[string]string
		pool   string
		want   string
	}{
		{"one that was starting", states.Warming, nil, "p", "ns/p"},
		{"one that was free", states.Ready, nil, "p", "ns/p"},
		{"one that was retired", states.Stale, nil, "p", "ns/p"},
		{"one that a claim was taking is the claim's", states.Binding, nil, "p", ""},
		{"one that a claim had is the claim's", states.Bound, nil, "p", ""},
		{"one that a claim gave up is the claim's still", states.Stale, map[string]string{apply.LabelClaimUID: "c"}, "p", ""},
		{"one that was made for no pool", states.Ready, nil, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := pod("a", "1", "5")
			p.Labels = map[string]string{apply.LabelState: string(row.state)}
			for k, v := range row.labels {
				p.Labels[k] = v
			}
			p.Annotations = map[string]string{apply.AnnotationPoolUID: row.pool}
			NewWithT(t).Expect(BornFor(p)).To(Equal(row.want))
		})
	}
}

func TestAStoreKeepsOfAPodWhatIsRead(t *testing.T) {
	h := byHand(t)
	p := pod("p", "u", "5")
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	p.Spec = corev1.PodSpec{NodeName: "node", Hostname: "h"}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", HostIP: "10.0.0.9"}
	h.puts(p)
	got, _ := h.Get(view.KeyOf(p))
	h.g.Expect(got.ManagedFields).To(BeEmpty())
	h.g.Expect(got.Spec).To(Equal(corev1.PodSpec{NodeName: "node"}))
	h.g.Expect(got.Status).To(Equal(corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}))
}

func all(t *testing.T) *Stores {
	t.Helper()
	conn, err := client.Connect(&rest.Config{Host: "http://localhost"}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s, err := New(conn, "")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func template(uid types.UID, generation int64, spec string) *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns", UID: uid, Generation: generation, ResourceVersion: "5"}}
	t.Spec.PodTemplate.Spec.Raw = []byte(spec)
	return t
}

func TestABlueprintIsWorkedOutOnceForEachChangeOfItsTemplate(t *testing.T) {
	g := NewWithT(t)
	s := all(t)
	version := 5
	revision := func(of *ext.SandboxTemplate) string {
		version++
		of.ResourceVersion = strconv.Itoa(version)
		g.Expect(s.Templates.Put(of)).To(Succeed())
		b, err := s.Blueprint(of)
		g.Expect(err).NotTo(HaveOccurred())
		return b.Revision
	}
	first := revision(template("u", 1, `{"a":1}`))
	g.Expect(revision(template("u", 1, `{"a":2}`))).To(Equal(first), "the generation says that nothing changed")
	second := revision(template("u", 2, `{"a":2}`))
	g.Expect(second).NotTo(Equal(first))
	other := template("v", 2, `{"a":3}`)
	g.Expect(revision(other)).NotTo(Equal(second), "another template of the name")
	s.ForgetBlueprint(template("u", 2, ""))
	g.Expect(s.Blueprints()).To(Equal(1), "the end of the one before is not its end")
	s.ForgetBlueprint(other)
	g.Expect(s.Blueprints()).To(BeZero())
	_, err := s.Blueprint(template("u", 3, `no`))
	g.Expect(err).To(MatchError(ContainSubstring("spec.podTemplate.spec")))
}

// A step that still runs may look at a template whose end has passed.
func TestNothingIsRememberedOfATemplateThatIsGone(t *testing.T) {
	s := all(t)
	b, err := s.Blueprint(template("u", 1, "{}"))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.Revision).NotTo(BeEmpty())
	g.Expect(s.Blueprints()).To(BeZero())
}

func TestASandboxIsCurrentByItsTemplateAndRevision(t *testing.T) {
	s := all(t)
	made := template("u", 1, `{}`)
	NewWithT(t).Expect(s.Templates.Put(made)).To(Succeed())
	b, err := s.Blueprint(made)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	pool := &ext.SandboxWarmPool{}
	for _, row := range []struct {
		name               string
		template, revision string
		key                string
		pool               *ext.SandboxWarmPool
		want               bool
	}{
		{"one made from it", "t", b.Revision, "t", pool, true},
		{"one made from it for a pool that is gone", "t", b.Revision, "t", nil, true},
		{"one made from it as it was", "t", "older", "t", pool, false},
		{"one made from a template that says the same", "u", b.Revision, "t", pool, false},
		{"one whose template is not known", "u", b.Revision, "u", pool, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{apply.LabelRevision: row.revision}, Annotations: map[string]string{apply.AnnotationTemplate: row.template},
			}}
			NewWithT(t).Expect(s.Current(b, view.Key{Namespace: "ns", Name: row.key}, row.pool)).To(Equal(row.want))
		})
	}
}

// listened is an informer that keeps the handler it is given.
type listened struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (l *listened) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	l.handler = h
	return registration{}, nil
}

func (registration) HasSynced() bool { return true }

func TestAChangeSaysWhatWasAndWhatIs(t *testing.T) {
	h := byHand(t)
	i := &listened{SharedIndexInformer: h.informer}
	h.informer = i
	var said []Change[*corev1.Pod]
	synced, err := h.On(func(c Change[*corev1.Pod]) { said = append(said, c) })
	h.g.Expect(err).NotTo(HaveOccurred())
	h.g.Expect(synced()).To(BeTrue())
	one, two, other := pod("p", "u", "5"), pod("p", "u", "6"), pod("p", "v", "7")

	i.handler.OnAdd(one, false)
	i.handler.OnUpdate(one, two)
	i.handler.OnUpdate(two, two)
	i.handler.OnUpdate(two, other)
	i.handler.OnDelete(other)
	i.handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: one})

	h.g.Expect(said).To(HaveLen(5), "a relist is no change")
	var newest []string
	var replaced []bool
	for _, c := range said {
		newest, replaced = append(newest, c.Newest().ResourceVersion), append(replaced, c.Replaced())
	}
	h.g.Expect(newest).To(Equal([]string{"5", "6", "7", "7", "5"}))
	h.g.Expect(replaced).To(Equal([]bool{false, false, true, false, false}), "the end of the first of a name was not seen")
}
