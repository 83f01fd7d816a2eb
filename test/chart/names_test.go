package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/test/stage"
)

type deployment = appsv1.Deployment

// Tools that were made for the agent-sandbox controller look for these, and a Deployment of
// it can be taken over only by one that selects the same pods.
func TestTheNamesAreThoseOfTheAgentSandboxController(t *testing.T) {
	manifest := rendered(t, with(t, "allowedLabelDomains: [a.example.com]")...)
	var d deployment
	into(t, object(t, manifest, "Deployment", "agent-sandbox-controller"), &d)
	app := map[string]string{"app": "agent-sandbox-controller"}
	if !maps.Equal(d.Spec.Selector.MatchLabels, app) {
		t.Errorf("it selects %v", d.Spec.Selector.MatchLabels)
	}
	if d.Namespace != "agent-sandbox-system" || *d.Spec.Replicas != 2 {
		t.Errorf("%d replicas in %s", *d.Spec.Replicas, d.Namespace)
	}
	pod := d.Spec.Template.Spec
	if pod.ServiceAccountName != "agent-sandbox-controller" {
		t.Errorf("its account is %s", pod.ServiceAccountName)
	}
	ports := map[string]int32{}
	for _, p := range pod.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	if !maps.Equal(ports, map[string]int32{"metrics": 8080, "health": 8081}) {
		t.Errorf("its ports are %v", ports)
	}
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil && v.ConfigMap.Name == "agent-sandbox-config" && *v.ConfigMap.Optional
	}) {
		t.Error("it does not mount agent-sandbox-config")
	}
	object(t, manifest, "ConfigMap", "agent-sandbox-config")
	var s corev1.Service
	into(t, object(t, manifest, "Service", "agent-sandbox-controller"), &s)
	if !maps.Equal(s.Spec.Selector, app) || s.Spec.Ports[0].Port != 8080 {
		t.Errorf("the Service is %v", s.Spec)
	}
}

// The tests run with the rights of the chart, so they must be these.
func TestTheRolesAreTheRights(t *testing.T) {
	rights, err := stage.Rights()
	if err != nil {
		t.Fatal(err)
	}
	manifest := rendered(t, with(t, "metrics: {secure: true}")...)
	for _, want := range stage.Roles(rights) {
		text, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		o := objects(t, string(text))[0]
		is := object(t, manifest, o.GetKind(), o.GetName())
		is.SetLabels(nil)
		got, err := yaml.Marshal(is)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(text) {
			t.Errorf("the chart has\n%s\nand the tests have\n%s", got, text)
		}
	}
}

// Who watches few namespaces has no right anywhere else, and who serves sandboxes alone has none on claims.
func TestRightsEndWhereTheyAreNotNeeded(t *testing.T) {
	for _, o := range objects(t, rendered(t, append(with(t, "watchNamespaces: [a, b]"), "--no-hooks")...)) {
		if o.GetKind() == "ClusterRoleBinding" {
			t.Errorf("the controller has rights everywhere: %s", o.GetName())
		}
		if o.GetKind() == "RoleBinding" && !slices.Contains([]string{"a", "b", stage.Home}, o.GetNamespace()) {
			t.Errorf("the controller has rights in %s", o.GetNamespace())
		}
	}
	for _, o := range objects(t, rendered(t)) {
		if strings.Contains(o.GetName(), "metrics") {
			t.Errorf("metrics for everybody need no %s %s", o.GetKind(), o.GetName())
		}
	}
	var role rbacv1.ClusterRole
	into(t, object(t, rendered(t, with(t, "controller: {extensions: false}")...), "ClusterRole", "agent-sandbox-controller"), &role)
	for _, rule := range role.Rules {
		if slices.Contains(rule.APIGroups, "extensions.agents.x-k8s.io") {
			t.Errorf("sandboxes alone need no %v", rule)
		}
	}
	rights, err := stage.Rights()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rights {
		if r.Extensions != slices.Contains(r.Rule.APIGroups, "extensions.agents.x-k8s.io") {
			t.Errorf("%v is for extensions, or it is not", r.Rule)
		}
	}
}
