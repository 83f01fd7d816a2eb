package crds_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
)

// decode reads a list of one kind as the typed clients do.
func decode[T runtime.Object](t *testing.T, apiVersion, kind, item string) T {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agents.AddToScheme, extensions.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	list := `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `List","items":[` + item + `,{"metadata":{"name":"b"}}]}`
	out, err := runtime.Decode(serializer.NewCodecFactory(s).UniversalDeserializer(), []byte(list))
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

func TestABadValueOfOneTenantStopsNoList(t *testing.T) {
	const (
		volume = `{"resources":{"requests":{"storage":"1e1.5"}}}`
		pod    = `{"containers":[{"name":"c","resources":{"limits":{"cpu":"1e1.5"}},"livenessProbe":{"tcpSocket":{"port":3000000000}}}]}`
		rule   = `{"ports":[{"port":3000000000}]}`
		group  = "extensions.agents.x-k8s.io/v1beta1"
		both   = `"podTemplate":{"spec":` + pod + `},"volumeClaimTemplates":[{"spec":` + volume + `}]`
	)
	g := NewWithT(t)

	claims := decode[*extensions.SandboxClaimList](t, group, "SandboxClaim", `{"spec":{"volumeClaimTemplates":[{"spec":`+volume+`}]}}`)
	g.Expect(claims.Items).To(HaveLen(2))
	g.Expect(string(claims.Items[0].Spec.VolumeClaimTemplates[0].Spec.Raw)).To(Equal(volume))

	templates := decode[*extensions.SandboxTemplateList](t, group, "SandboxTemplate",
		`{"spec":{`+both+`,"networkPolicy":{"ingress":[`+rule+`],"egress":[`+rule+`]}}}`)
	g.Expect(templates.Items).To(HaveLen(2))
	s := templates.Items[0].Spec
	g.Expect(string(s.PodTemplate.Spec.Raw)).To(Equal(pod))
	g.Expect(string(s.VolumeClaimTemplates[0].Spec.Raw)).To(Equal(volume))
	g.Expect(string(s.NetworkPolicy.Ingress[0].Raw)).To(Equal(rule))
	g.Expect(string(s.NetworkPolicy.Egress[0].Raw)).To(Equal(rule))

	sandboxes := decode[*agents.SandboxList](t, "agents.x-k8s.io/v1beta1", "Sandbox", `{"spec":{`+both+`}}`)
	g.Expect(sandboxes.Items).To(HaveLen(2))
	g.Expect(string(sandboxes.Items[0].Spec.PodTemplate.Spec.Raw)).To(Equal(pod))
	g.Expect(string(sandboxes.Items[0].Spec.VolumeClaimTemplates[0].Spec.Raw)).To(Equal(volume))
}
