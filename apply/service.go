package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	"github.com/kiln-sandbox/kiln/states"
)

// A servicePort is a port that a Service has: there is one for each number and
// protocol.
type servicePort struct {
	number   int32
	protocol corev1.Protocol
}

// servicePorts are the ports that the containers of a pod declare, and the init
// containers that go on running, sorted by number and protocol. A port has the first
// name that a container gives it, or one made of itself.
func servicePorts(spec *corev1ac.PodSpecApplyConfiguration) []corev1.ServicePort {
	names := map[servicePort]string{}
	for _, c := range serving(spec) {
		for _, p := range c.Ports {
			if p.ContainerPort == nil {
				continue
			}
			port := servicePort{*p.ContainerPort, corev1.ProtocolTCP}
			if p.Protocol != nil && *p.Protocol != "" {
				port.protocol = *p.Protocol
			}
			if name, has := names[port]; !has || name == "" {
				names[port] = ""
				if p.Name != nil {
					names[port] = *p.Name
				}
			}
		}
	}
	ports := slices.SortedFunc(maps.Keys(names), func(a, b servicePort) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.protocol, b.protocol))
	})
	return named(ports, names)
}

// serving are the containers that run as long as the pod does.
func serving(spec *corev1ac.PodSpecApplyConfiguration) []corev1ac.ContainerApplyConfiguration {
	all := slices.Clone(spec.Containers)
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return all
}

// named gives each port a name of its own. Two containers may use one name for
// different ports: the second of them gets a number behind it.
func named(ports []servicePort, names map[servicePort]string) (all []corev1.ServicePort) {
	taken := map[string]bool{}
	for _, p := range ports {
		base := names[p]
		if base == "" {
			base = fmt.Sprintf("p-%d-%s", p.number, strings.ToLower(string(p.protocol)))
		}
		name := base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[name] = true
		all = append(all, corev1.ServicePort{
			Name: name, Port: p.number, Protocol: p.protocol, TargetPort: intstr.FromInt32(p.number),
		})
	}
	return all
}

// serviceSelector is what a sandbox's Service finds its pod by.
func serviceSelector(s *agents.Sandbox) map[string]string {
	return map[string]string{LabelNameHash: Hash(s.Name)}
}

// serviceConfig is the Service of a sandbox: headless, so that its name is the pod.
func serviceConfig(s *agents.Sandbox) (*corev1ac.ServiceApplyConfiguration, error) {
	spec, err := PodSpec(s)
	if err != nil {
		return nil, err
	}
	service := corev1ac.ServiceSpec().WithClusterIP(corev1.ClusterIPNone).WithSelector(serviceSelector(s))
	for _, p := range servicePorts(spec) {
		service.WithPorts(corev1ac.ServicePort().WithName(p.Name).WithPort(p.Port).WithProtocol(p.Protocol).WithTargetPort(p.TargetPort))
	}
	return corev1ac.Service(s.Name, s.Namespace).WithLabels(serviceSelector(s)).
		WithOwnerReferences(ownerRef(*metav1.NewControllerRef(s, gvkOf(s)))).WithSpec(service), nil
}

// ServiceDrifted reports whether a sandbox's Service is not what it should be. What
// somebody adds beside that is left alone.
func ServiceDrifted(s *agents.Sandbox, is *corev1.Service) bool {
	spec, err := PodSpec(s)
	if err != nil {
		return false
	}
	same := func(a, b corev1.ServicePort) bool {
		return a.Name == b.Name && a.Port == b.Port && a.Protocol == b.Protocol && a.TargetPort == b.TargetPort
	}
	return is.Spec.ClusterIP != corev1.ClusterIPNone || is.Labels[LabelNameHash] != Hash(s.Name) ||
		!maps.Equal(is.Spec.Selector, serviceSelector(s)) || !slices.EqualFunc(is.Spec.Ports, servicePorts(spec), same)
}

// CreateService makes the Service of a sandbox. ErrLost says that the name is taken.
func (a *Applier) CreateService(ctx context.Context, s *agents.Sandbox) (*corev1.Service, error) {
	config, err := serviceConfig(s)
	if err == nil {
		config.WithResourceVersion(mustNotExist)
	}
	return a.applyService(ctx, s, applied{"create", err}, config)
}

// SyncService brings the Service of a sandbox, as it was seen, in line, and makes it
// the sandbox's own.
func (a *Applier) SyncService(ctx context.Context, s *agents.Sandbox, is *corev1.Service) (*corev1.Service, error) {
	config, err := serviceConfig(s)
	if err == nil {
		config.WithUID(is.UID).WithResourceVersion(is.ResourceVersion)
	}
	return a.applyService(ctx, s, applied{"sync", err}, config)
}

func (a *Applier) applyService(ctx context.Context, s *agents.Sandbox, how applied, config *corev1ac.ServiceApplyConfiguration) (*corev1.Service, error) {
	w := write{urgency: a.launch(s, classTake), manager: states.PodManager, kind: "service", edge: how.verb, key: keyOf(s), pool: PoolOf(s)}
	if how.err != nil {
		return nil, w.wrap(how.err)
	}
	if seen := *config.ResourceVersion; seen != mustNotExist {
		w.seen = seen
	}
	return send(ctx, a, w, func(ctx context.Context, c *client.Connection) (*corev1.Service, error) {
		return c.Core.CoreV1().Services(s.Namespace).Apply(ctx, config, w.options())
	})
}

// DeleteService deletes the Service of a sandbox, as it was seen.
func (a *Applier) DeleteService(ctx context.Context, is *corev1.Service) error {
	w := write{urgency: urgency{class: classTrail}, manager: states.PodManager, kind: "service", edge: "delete", key: keyOf(is), seen: is.ResourceVersion}
	_, err := send(ctx, a, w, func(ctx context.Context, c *client.Connection) (struct{}, error) {
		return struct{}{}, c.Core.CoreV1().Services(is.Namespace).Delete(ctx, is.Name, deletion(is))
	})
	return err
}
