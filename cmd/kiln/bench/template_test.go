package bench

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/crds"
)

func TestThePodTemplateIsRealistic(t *testing.T) {
	g := NewWithT(t)
	own, err := parseTemplate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(own.bytes()).To(BeNumerically("~", 4096, 400))
	g.Expect(own.pod()["containers"]).To(HaveLen(3))
}

func TestAPodSaysOfWhichRevisionItIs(t *testing.T) {
	g := NewWithT(t)
	own, err := parseTemplate([]byte(`{"kind":"SandboxTemplate","spec":{"podTemplate":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}}`))
	g.Expect(err).NotTo(HaveOccurred())
	second, err := own.revised(2)
	g.Expect(err).NotTo(HaveOccurred())
	pod, err := json.Marshal(map[string]any{"spec": second.pod()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(revisionOf(pod)).To(Equal(2))
	third, err := own.revised(3)
	g.Expect(err).NotTo(HaveOccurred())
	pod, err = json.Marshal(map[string]any{"spec": third.pod()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(revisionOf(pod)).To(Equal(3), "a revision does not change the one before")
	_, err = revisionOf([]byte(`{"spec":{"containers":[{"name":"a"}]}}`))
	g.Expect(err).To(HaveOccurred())
}

func TestAManifestThatIsNoTemplateIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"{kind: Pod}":             `--template: its kind is "Pod"`,
		"{kind: SandboxTemplate}": "containers is empty",
		"{kind: SandboxTemplate, spec: {podTemplate: {spec: {containers: [1]}}}}": "is no container",
		"\t": "--template: ",
	} {
		_, err := parseTemplate([]byte(text))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), text)
	}
}

func TestTheFloorHasTheKindsThatAreInstalled(t *testing.T) {
	g := NewWithT(t)
	raw := []byte(`{"spec":{"group":"g","scope":"Namespaced","names":{"plural":"sandboxes","singular":"sandbox","kind":"Sandbox","listKind":"SandboxList","shortNames":["sb"]},
		"conversion":{"strategy":"Webhook"},
		"versions":[{"name":"v1alpha1","storage":false},{"name":"v1beta1","storage":false,"served":true,"schema":{"a":1},"subresources":{"status":{}}}]}}`)
	made, body, err := copyDefinition(raw, "run.bench.internal")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made).To(Equal("sandboxes.run.bench.internal"))
	g.Expect(body).To(MatchJSON(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"sandboxes.run.bench.internal","labels":{"app.kubernetes.io/managed-by":"kiln-bench"}},
		"spec":{"group":"run.bench.internal","scope":"Namespaced","names":{"plural":"sandboxes","singular":"sandbox","kind":"Sandbox","listKind":"SandboxList"},
		"versions":[{"name":"v1beta1","storage":true,"served":true,"schema":{"a":1},"subresources":{"status":{}}}]}}`))
	_, _, err = copyDefinition([]byte(`{"spec":{"names":{"plural":"sandboxes"},"versions":[{"name":"v1"}]}}`), "g")
	g.Expect(err).To(MatchError("sandboxes are not served at v1beta1"))
	g.Expect(crds.Names()).To(ContainElements(copied))
}
