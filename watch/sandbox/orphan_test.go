package sandbox

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
	"github.com/kiln-sandbox/kiln/watch/loop"
	"github.com/kiln-sandbox/kiln/watch/view"
)

func aTemplate() *ext.SandboxTemplate {
	t := &ext.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "t", UID: "t-uid", ResourceVersion: "5", Generation: 1}}
	t.Spec.PodTemplate.Spec.Raw = []byte("{}")
	return t
}

func ofTemplate(p *ext.SandboxWarmPool) *ext.SandboxWarmPool {
	p.Spec.TemplateRef.Name = "t"
	return p
}

// orphan is a current member that its pool p has left behind.
func orphan(b *agents.Sandbox) {
	made, err := apply.BlueprintOf(aTemplate())
	if err != nil {
		panic(err) // the template is ours
	}
	b.Labels = map[string]string{apply.LabelLaunch: apply.LaunchWarm, apply.LabelPool: apply.Hash("p"), apply.LabelRevision: made.Revision}
	b.Annotations = map[string]string{apply.AnnotationTemplate: "t"}
}

func TestAnOrphansPoolIsTheOneOfItsNameInItsNamespace(t *testing.T) {
	outdated := func(b *agents.Sandbox) { b.Labels[apply.LabelRevision] = "older" }
	for _, row := range []struct {
		name string
		of   *agents.Sandbox
		has  []metav1.Object
		want states.Orphan
	}{
		{"there is none", aSandbox(orphan), []metav1.Object{aTemplate()}, states.OrphanNone},
		{"it is there", aSandbox(orphan), []metav1.Object{ofTemplate(aPool()), aTemplate()}, states.OrphanCurrent},
		{"it has another revision by now", aSandbox(orphan, outdated), []metav1.Object{ofTemplate(aPool()), aTemplate()}, states.OrphanOutdated},
		{"its template is missing", aSandbox(orphan), []metav1.Object{ofTemplate(aPool())}, states.OrphanNone},
		{"it is in another namespace", aSandbox(orphan, func(b *agents.Sandbox) { b.Namespace = "b" }), []metav1.Object{ofTemplate(aPool()), aTemplate()}, states.OrphanNone},
		{"it is being deleted, and leaves them behind", aSandbox(orphan), []metav1.Object{ofTemplate(dying()), aTemplate()}, states.OrphanNone},
		{"the sandbox is a claim's", aSandbox(orphan, func(b *agents.Sandbox) { b.Labels[apply.LabelClaimUID] = "c" }), []metav1.Object{ofTemplate(aPool()), aTemplate()}, states.OrphanNone},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := aWorld(t, append(row.has, row.of)...)
			_, got := w.orphan(row.of, view.Sandbox(row.of), states.Ready, learned{poolRead: true})
			w.g.Expect(got).To(Equal(row.want))
			if row.want != states.OrphanNone {
				_, got = w.orphan(row.of, view.Sandbox(row.of), states.Ready, learned{})
				w.g.Expect(got).To(Equal(states.OrphanUnsure), "the watch of pools may be behind the loss")
			}
		})
	}
}

func dying() *ext.SandboxWarmPool {
	p := aPool()
	p.DeletionTimestamp = &noon
	return p
}

func TestAnOrphanIsThePoolsAgain(t *testing.T) {
	b := aSandbox(orphan)
	w := aWorld(t, aTemplate(), b, running())
	w.onShelves()
	w.Writer = &recorder{}
	pool := ofTemplate(aPool())
	pool.ResourceVersion = "9"
	w.g.Expect(w.Stores.Informers()[3].GetIndexer().Add(pool)).To(Succeed()) // the watch of pools has passed the sandbox
	w.g.Expect(loop.Step(t.Context(), w.Sandboxes, key).Err).NotTo(HaveOccurred())
	got, _ := w.Stores.Sandboxes.Get(key)
	w.g.Expect(apply.OwnerOf(got).UID).To(BeEquivalentTo("p-uid"))
	w.g.Expect(w.woken).To(ContainElement("pool a/p"))
}
