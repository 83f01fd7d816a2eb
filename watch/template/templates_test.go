package template

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kiln-sandbox/kiln/apply"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
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

// filled are stores that nobody watches for, with some templates in them.
func filled(t *testing.T, all ...*ext.SandboxTemplate) *store.Stores {
	t.Helper()
	conn, err := client.Connect(&rest.Config{Host: "http://localhost"}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s, err := store.New(conn, "")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, o := range all {
		NewWithT(t).Expect(s.Templates.Put(o)).To(Succeed())
	}
	return s
}

func TestWhatIsGatheredOfATemplate(t *testing.T) {
	now := metav1.Now()
	for _, row := range []struct {
		name string
		has  []*ext.SandboxTemplate
		want states.TemplateFacts
	}{
		{"none", nil, states.TemplateFacts{Gone: true}},
		{"one of another namespace", []*ext.SandboxTemplate{aTemplate(func(t *ext.SandboxTemplate) { t.Namespace = "b" })}, states.TemplateFacts{Gone: true}},
		{"a new one", []*ext.SandboxTemplate{aTemplate()}, states.TemplateFacts{}},
		{"one with its label", []*ext.SandboxTemplate{aTemplate(labelled)}, states.TemplateFacts{Labelled: true}},
		{"one with the label of another", []*ext.SandboxTemplate{aTemplate(labelled, func(t *ext.SandboxTemplate) {
			t.Labels[apply.LabelTemplate] = apply.Hash("other")
		})}, states.TemplateFacts{}},
		{"one that is being deleted", []*ext.SandboxTemplate{aTemplate(func(t *ext.SandboxTemplate) { t.DeletionTimestamp = &now })}, states.TemplateFacts{Terminating: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := &Templates{Stores: filled(t, row.has...)}
			NewWithT(t).Expect(l.Observe(key, struct{}{}).Facts).To(Equal(row.want))
		})
	}
}

// labels is a writer of labels.
type labels struct{ wrote int }

func (w *labels) LabelTemplate(_ context.Context, t *ext.SandboxTemplate) (*ext.SandboxTemplate, error) {
	w.wrote++
	return aTemplate(labelled), nil
}

func TestATemplateIsLabelledOnce(t *testing.T) {
	g := NewWithT(t)
	w := &labels{}
	l := &Templates{Stores: filled(t, aTemplate()), Writer: w}
	for range 2 {
		g.Expect(loop.Step(t.Context(), l, key)).To(Equal(loop.Result{}))
	}
	g.Expect(w.wrote).To(Equal(1))
}

func TestATemplateWakesItsPoolsWhenItsSpecHasChanged(t *testing.T) {
	next := func(t *ext.SandboxTemplate) { t.Generation, t.ResourceVersion = 2, "7" }
	another := func(t *ext.SandboxTemplate) { t.UID, t.ResourceVersion = "v", "8" }
	for _, row := range []struct {
		name    string
		was, is *ext.SandboxTemplate
		pools   []string
	}{
		{"one that is new", nil, aTemplate(), []string{"a/p"}},
		{"one whose label was written", aTemplate(), aTemplate(labelled), nil},
		{"one with another spec", aTemplate(), aTemplate(next), []string{"a/p"}},
		{"another of the name", aTemplate(), aTemplate(another), []string{"a/p"}},
		{"one that is gone", aTemplate(), nil, []string{"a/p"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			s := filled(t)
			for _, ns := range []string{"a", "b"} {
				p := &ext.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p", UID: "p", ResourceVersion: "5"}}
				p.Spec.TemplateRef.Name = "t"
				g.Expect(s.Pools.Put(p)).To(Succeed())
			}
			var woken, pools []string
			l := &Templates{
				Stores: s, Wake: func(k view.Key) { woken = append(woken, k.String()) },
				PoolChanged: func(p *ext.SandboxWarmPool) { pools = append(pools, view.KeyOf(p).String()) },
			}
			l.TemplateChanged(store.Change[*ext.SandboxTemplate]{Was: row.was, Is: row.is, HadWas: row.was != nil, HasIs: row.is != nil})
			g.Expect(woken).To(Equal([]string{"a/t"}))
			g.Expect(pools).To(Equal(row.pools))
		})
	}
}
