package crds_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	agentsac "github.com/kiln-sandbox/kiln/crds/agents/v1beta1/applyconfiguration/agents/v1beta1"
	extensions "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	extensionsac "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1/applyconfiguration/extensions/v1beta1"
)

func TestAnUnknownFieldOfAPodSpecSurvives(t *testing.T) {
	g := NewWithT(t)
	const pod = `{"containers":[{"name":"a","fromTheFuture":{"x":[1,2.50]}}],"b":1,"a":2}`
	var s agents.Sandbox
	g.Expect(json.Unmarshal([]byte(`{"spec":{"podTemplate":{"spec":`+pod+`}}}`), &s)).To(Succeed())
	g.Expect(string(s.Spec.PodTemplate.Spec.Raw)).To(Equal(pod))
	out, err := json.Marshal(s.DeepCopy())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal(`{"spec":{"podTemplate":{"spec":` + pod + `}}}`))
}

func TestAnEmptyPoolStatusIsNotSent(t *testing.T) {
	g := NewWithT(t)
	var p extensions.SandboxWarmPool
	out, err := json.Marshal(&p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).NotTo(ContainSubstring("status"))
	p.Status.CurrentRevision = "r"
	out, err = json.Marshal(&p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(ContainSubstring(`"replicas":0,"readyReplicas":0`))
}

func TestAnApplyConfigurationSaysOnlyWhatWasSet(t *testing.T) {
	for name, c := range map[string]struct {
		config any
		want   string
	}{
		"the blueprint of a sandbox": {
			agentsac.Sandbox("a", "x").WithResourceVersion("1").WithSpec(agentsac.SandboxSpec().
				WithPodTemplate(agentsac.PodTemplate().WithSpec(runtime.RawExtension{Raw: []byte(`{"containers":[]}`)}))),
			`{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox",
			"metadata":{"name":"a","namespace":"x","resourceVersion":"1"},
			"spec":{"podTemplate":{"spec":{"containers":[]}}}}`,
		},
		"the state of a claim": {
			extensionsac.SandboxClaim("a", "x").WithUID("u").WithStatus(extensionsac.SandboxClaimStatus().
				WithState(extensions.StateBound).WithConditions(metav1ac.Condition().WithType("Ready"))),
			`{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxClaim",
			"metadata":{"name":"a","namespace":"x","uid":"u"},
			"status":{"state":"bound","conditions":[{"type":"Ready"}]}}`,
		},
		"a pool with nothing in it": {
			extensionsac.SandboxWarmPool("a", "x").WithStatus(extensionsac.SandboxWarmPoolStatus().WithReplicas(0)),
			`{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxWarmPool",
			"metadata":{"name":"a","namespace":"x"},"status":{"replicas":0}}`,
		},
		"the label of a template": {
			extensionsac.SandboxTemplate("a", "x").WithLabels(map[string]string{"k": "v"}),
			`{"apiVersion":"extensions.agents.x-k8s.io/v1beta1","kind":"SandboxTemplate",
			"metadata":{"name":"a","namespace":"x","labels":{"k":"v"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, err := json.Marshal(c.config)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out).To(MatchJSON(c.want))
		})
	}
}
