package apply

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
)

func TestAPodSpecThatCannotBeReadNamesItsField(t *testing.T) {
	for _, row := range []struct{ name, spec, says string }{
		{"a quantity", `{"containers":[{"name":"a","resources":{"limits":{"memory":"1Gi","cpu":"abc"}}}]}`,
			"spec.podTemplate.spec.containers[0].resources.limits.cpu: quantities must match"},
		{"the second of two containers", `{"containers":[{"name":"a"},{"name":"b","env":[{"name":"X","value":"1"},{"name":"Y","value":1}]}]}`,
			"spec.podTemplate.spec.containers[1].env[1].value: json: cannot unmarshal number"},
		{"a port beyond what Go reads", `{"containers":[{"name":"a","livenessProbe":{"tcpSocket":{"port":3000000000}}}]}`,
			"spec.podTemplate.spec.containers[0].livenessProbe.tcpSocket.port: "},
		{"a map where a list should be", `{"containers":{"name":"a"}}`, "spec.podTemplate.spec.containers: "},
		{"the first of two", `{"hostNetwork":"yes","containers":{}}`, "spec.podTemplate.spec.containers: "},
		{"something else altogether", `[]`, "spec.podTemplate.spec: "},
		{"no JSON", `{`, "spec.podTemplate.spec: unexpected"},
		{"a field that pods do not have", `{"containers":[{"name":"a","imaeg":"x"}]}`, `spec.podTemplate.spec: unknown field "containers[0].imaeg"`},
		{"a field that is there twice", `{"nodeName":"a","nodeName":"b"}`, `spec.podTemplate.spec: duplicate field "nodeName"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &agents.Sandbox{}
			s.Spec.PodTemplate.Spec = runtime.RawExtension{Raw: []byte(row.spec)}
			_, err := PodSpec(s)
			NewWithT(t).Expect(err).To(MatchError(HavePrefix(row.says)))
		})
	}
}
