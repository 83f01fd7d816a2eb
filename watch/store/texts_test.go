package store

import (
	"encoding/json"
	"testing"
	"unsafe"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

// asDecoded is a member as an event of a watch brings it: every text is its own.
func asDecoded(t testing.TB, name string) *agents.Sandbox {
	t.Helper()
	b := &agents.Sandbox{}
	NewWithT(t).Expect(json.Unmarshal([]byte(`{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": {"name": "`+name+`", "namespace": "ns", "uid": "uid-`+name+`",
			"labels": {"`+apply.LabelPool+`": "pool", "`+apply.LabelClaimUID+`": "claim-`+name+`"},
			"annotations": {"`+apply.AnnotationPodName+`": "`+name+`"},
			"ownerReferences": [{"apiVersion": "v1", "kind": "SandboxWarmPool", "name": "warm", "uid": "u"}]},
		"spec": {"podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}},
		"status": {"nodeName": "node", "conditions": [{"type": "Ready", "status": "True", "reason": "Because", "message": "it is"}]}
	}`), b)).To(Succeed())
	return b
}

func TestMembersShareTheTextsThatTheyHaveInCommon(t *testing.T) {
	g := NewWithT(t)
	s := &Stores{specs: newSpecs(2)}
	said := map[string]*byte{} // where each text is
	for _, name := range []string{"x", "y"} {
		b := asDecoded(t, name)
		_, err := s.keep(b)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b).To(Equal(asDecoded(t, name)), "it says what it said")
		for _, text := range textsOf(b) {
			at, ok := said[text]
			g.Expect(ok).To(Equal(name == "y"), "%q", text)
			if ok {
				g.Expect(unsafe.StringData(text)).To(BeIdenticalTo(at), "%q", text)
			}
			said[text] = unsafe.StringData(text)
		}
	}
}

// textsOf are the texts that all members of a pool have in common, each once.
func textsOf(b *agents.Sandbox) []string {
	owner, is := b.OwnerReferences[0], b.Status.Conditions[0]
	all := []string{b.APIVersion, b.Kind, b.Namespace, b.Status.NodeName, b.Labels[apply.LabelPool],
		owner.APIVersion, owner.Kind, owner.Name, string(owner.UID), is.Type, string(is.Status), is.Reason, is.Message}
	for _, m := range []map[string]string{b.Labels, b.Annotations} {
		for k := range m {
			all = append(all, k)
		}
	}
	return all
}

// BenchmarkKeep is what it costs to take a member in.
func BenchmarkKeep(b *testing.B) {
	s, members := &Stores{specs: newSpecs(2)}, []metav1.Object{}
	for range 16 {
		members = append(members, asDecoded(b, "x"))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.keep(members[i%len(members)]); err != nil {
			b.Fatal(err)
		}
	}
}
