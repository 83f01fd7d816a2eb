package apply

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestAServiceHasThePortsOfWhatRunsAsLongAsThePod(t *testing.T) {
	for _, row := range []struct{ name, spec, want string }{
		{"none", `{"containers":[{"name":"a"}]}`, ""},
		{"a port with a name", `{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"http"}]}]}`, "http:80/TCP"},
		{"a port without", `{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}`, "p-80-tcp:80/TCP"},
		{"a protocol", `{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"UDP"}]}]}`, "p-53-udp:53/UDP"},
		{"one number with two protocols", `{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"UDP"},{"containerPort":53}]}]}`, "p-53-tcp:53/TCP p-53-udp:53/UDP"},
		{"sorted by number", `{"containers":[{"name":"a","ports":[{"containerPort":90},{"containerPort":80}]}]}`, "p-80-tcp:80/TCP p-90-tcp:90/TCP"},
		{"one port of two containers, and the first name of it", `{"containers":[{"name":"a","ports":[{"containerPort":80}]},{"name":"b","ports":[{"containerPort":80,"name":"web"}]},{"name":"c","ports":[{"containerPort":80,"name":"late"}]}]}`, "web:80/TCP"},
		{"one name for two ports", `{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"web"}]},{"name":"b","ports":[{"containerPort":81,"name":"web"}]}]}`, "web:80/TCP web-2:81/TCP"},
		{"an init container that goes on running", `{"containers":[{"name":"a"}],"initContainers":[{"name":"s","restartPolicy":"Always","ports":[{"containerPort":70}]}]}`, "p-70-tcp:70/TCP"},
		{"an init container that ends", `{"containers":[{"name":"a"}],"initContainers":[{"name":"s","ports":[{"containerPort":70}]}]}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			s := aUsersSandbox()
			s.Spec.PodTemplate.Spec.Raw = []byte(row.spec)
			spec, err := PodSpec(s)
			g.Expect(err).NotTo(HaveOccurred())
			var ports []string
			for _, p := range servicePorts(spec) {
				g.Expect(p.TargetPort.IntVal).To(Equal(p.Port))
				ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
			}
			g.Expect(strings.Join(ports, " ")).To(Equal(row.want))
		})
	}
}

func TestAServiceThatDriftedIsFound(t *testing.T) {
	s := aCompleteSandbox()
	config, err := serviceConfig(s)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, change := range map[string]func(*corev1.Service){
		"":               func(*corev1.Service) {},
		"its selector":   func(is *corev1.Service) { is.Spec.Selector["x"] = "y" },
		"its label":      func(is *corev1.Service) { delete(is.Labels, LabelNameHash) },
		"its port":       func(is *corev1.Service) { is.Spec.Ports[0].Port = 81 },
		"its address":    func(is *corev1.Service) { is.Spec.ClusterIP = "" },
		"a port missing": func(is *corev1.Service) { is.Spec.Ports = nil },
	} {
		is := made[corev1.Service](t, config, "service")
		change(is)
		NewWithT(t).Expect(ServiceDrifted(s, is)).To(Equal(name != ""), name)
	}
}
